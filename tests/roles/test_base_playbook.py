"""From site.yaml to two containers: plan, inventory, plain ansible-playbook, and the checks of the plan."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from llmhw_provision.documents import check
from llmhw_provision.inventory import write_inventory
from llmhw_provision.plan.base import require_files
from llmhw_provision.plan.build import build_plan
from llmhw_provision.plan.model import RoleConfigs
from llmhw_provision.site import Site
from tests.containers.plugin import StartMany
from tests.roles.checked import amiss
from tests.roles.test_site_base import repository
from tests.unit.machines import drives, machine, need

pytestmark = pytest.mark.container
__all__ = ["repository"]

REPO = Path(__file__).resolve().parents[2]


def play(folder: Path) -> dict[str, int]:
    """Host to number of changes of one run of playbooks/base.yml, with nothing of ours but the roles' path."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    environment |= {"ANSIBLE_ROLES_PATH": str(REPO / "roles"), "HOME": str(folder)}
    command = [
        sys.executable,
        "-m",
        "ansible",
        "playbook",
        "-i",
        "inventory/hosts.yml",
        str(REPO / "playbooks/base.yml"),
    ]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return {name: int(count) for name, count in re.findall(r"^(\S+)\s+: ok=.*changed=(\d+)", done.stdout, re.M)}


def test_two_hosts_of_a_site(containers: StartMany, repository: Mapping[str, Path], tmp_path: Path) -> None:
    hosts = containers(2)
    data = {
        "schema": 1,
        "site": "lab",
        "hosts": [{"name": host.name, "address": host.address} for host in hosts],
        "site_base": {"certificates": ["ca/site.pem"], "users": [{"name": "slurm", "uid": 64030}]},
        "host_tuning": {"profile": "server"},
    }
    site = check(data, Site, path=Path("site.yaml"))
    (tmp_path / "ca").mkdir()
    shutil.copy(repository["ca"], tmp_path / "ca/site.pem")
    shutil.copy(hosts[0].ssh_config, tmp_path / "ssh_config")
    require_files(site.site_base, tmp_path)
    seen = machine(*drives(), virtualization="systemd-nspawn")
    plan = build_plan(need(), site, {host.name: seen for host in hosts})
    write_inventory(plan, tmp_path / "inventory")

    names = {host.name for host in hosts}
    assert play(tmp_path).keys() == names
    assert play(tmp_path) == dict.fromkeys(names, 0)
    for host, other, planned in zip(hosts, reversed(hosts), plan.hosts, strict=True):
        assert host.run(f"getent hosts {other.name}").stdout.split()[0] == other.address
        base = RoleConfigs(site_base=planned.roles.site_base)
        assert amiss(host, base) == {}
        assert "65536:1048576" in host.run("cat /etc/systemd/system.conf.d/90-llmhw.conf").stdout

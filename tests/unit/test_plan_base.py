"""What site_base and host_tuning are given: nothing unless asked, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llmhw_provision.documents import check
from llmhw_provision.errors import InputError
from llmhw_provision.inventory import render_inventory
from llmhw_provision.machine import Cpu, Gpus
from llmhw_provision.plan.base import CLUSTER_PORTS, require_files
from llmhw_provision.plan.build import build_plan
from llmhw_provision.plan.model import HostPlan, Plan
from llmhw_provision.plan.tuning import fragile_cpu
from llmhw_provision.site import Site
from tests.unit.machines import drives, machine, need

SECRET = "hunter2"


def site(hosts: int = 1, **more: Any) -> Site:
    listed = [{"name": f"node{n}", "address": f"192.0.2.{n}"} for n in range(1, hosts + 1)]
    return check({"schema": 1, "site": "a", "hosts": listed, **more}, Site, path=Path("site.yaml"))


def plan(hosts: int = 1, *, virtual: bool = False, cpu: str = "AMD EPYC 9755", nodes: int = 2, **more: Any) -> Plan:
    found = machine(*drives(), virtualization="kvm" if virtual else "none")
    found = found.model_copy(update={"cpu": Cpu(model=cpu, sockets=1, cores=64, threads=128, numa_nodes=nodes)})
    return build_plan(need(), site(hosts, **more), {f"node{n}": found for n in range(1, hosts + 1)})


def first(**more: Any) -> HostPlan:
    return plan(**more).hosts[0]


def notes(found: Plan) -> str:
    return "\n".join(f"{note.rule}: {note.choice}" for note in found.notes)


def test_one_virtual_host_that_asks_for_nothing_is_left_alone() -> None:
    found = first(virtual=True)
    assert (found.roles.site_base, found.roles.host_tuning) == (None, None)
    files = render_inventory(plan(virtual=True))
    assert "site_base_config" not in "".join(files.values())
    assert "    site_base:\n      hosts: {}\n    host_tuning:\n      hosts: {}\n" in files["hosts.yml"]


def test_hosts_of_a_site_know_and_reach_each_other() -> None:
    config = first(hosts=3).roles.site_base
    assert config
    assert [(entry.name, entry.address) for entry in config.host_entries] == [
        ("node1", "192.0.2.1"),
        ("node2", "192.0.2.2"),
        ("node3", "192.0.2.3"),
    ]
    assert config.firewall.sources == ("192.0.2.1", "192.0.2.2", "192.0.2.3")
    assert config.firewall.ports == tuple(CLUSTER_PORTS)
    assert plan(3).hosts[0].roles.site_base == plan(3).hosts[2].roles.site_base  # one profile for all
    assert first(hosts=3, site_base={"host_entries": False, "firewall": {"open": False}}).roles.site_base is None
    more = first(hosts=3, site_base={"firewall": {"ports": ["6817-6819/tcp", "22/tcp"]}}).roles.site_base
    assert more
    assert more.firewall.ports == (*CLUSTER_PORTS, "6817-6819/tcp")


def test_what_the_site_asks_for_is_planned_said_and_created() -> None:
    asked = {
        "certificates": ["ca/Site_CA.pem"],
        "mirrors": {
            "apt": [{"name": "m", "uri": "http://m/debian", "suites": ["bookworm"], "key_file": "k.asc"}],
            "only": True,
        },
        "proxy": {"url": "http://proxy:3128", "credentials_file": "secrets/proxy"},
        "time_servers": ["192.0.2.123"],
        "users": [{"name": "slurm", "uid": 64030}],
    }
    found = plan(site_base=asked)
    config = found.hosts[0].roles.site_base
    assert config
    assert config.certificates[0].name == "site-ca"
    assert config.users[0].gid == 64030
    text = "\n".join(found.hosts[0].creates)
    for words in (
        "trust in the CA site-ca",
        "source m",
        "set aside",
        "proxy http://proxy:3128",
        "user slurm with uid 64030",
    ):
        assert words in text
    assert "apt only, in files that root alone reads" in notes(found)
    assert "secrets/proxy" in "".join(render_inventory(found).values())


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"proxy": {"url": f"http://joe:{SECRET}@proxy:3128"}}, "user or password is refused"),
        ({"proxy": {"url": "proxy:3128"}}, "is no address"),
        ({"firewall": {"ports": ["6819-6817/tcp"]}}, "is no port"),
        ({"firewall": {"ports": ["70000/tcp"]}}, "is no port"),
        ({"firewall": {"ports": ["22"]}}, "write for example '6817-6819/tcp'"),
        ({"users": [{"name": "a", "uid": 900}, {"name": "b", "uid": 900}]}, "uid '900' stands there twice"),
        ({"users": [{"name": "a", "uid": 0}]}, "greater than or equal to 100"),
        ({"mirrors": {"only": True}}, "without any package source"),
        ({"certificates": ["{{ lookup('pipe', 'id') }}"]}, "is no path"),
        ({"time_servers": ["ntp\nallow all"]}, "is not accepted"),
        ({"python_index": 'https://a/"x'}, "is no address"),
    ],
)
def test_what_cannot_be_meant_is_refused(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as caught:
        site(site_base=asked)
    text = "\n".join(problem.message for problem in caught.value.problems)
    assert says in text
    assert SECRET not in text


def test_files_that_are_missing_or_open_are_all_named(tmp_path: Path) -> None:
    asked = {"certificates": ["ca.pem", "other.pem"], "proxy": {"url": "http://p:1", "credentials_file": "secret"}}
    wanted = site(site_base=asked).site_base
    (tmp_path / "other.pem").write_text("x")
    (tmp_path / "secret").write_text(f"joe:{SECRET}")
    (tmp_path / "secret").chmod(0o640)
    with pytest.raises(InputError) as caught:
        require_files(wanted, tmp_path)
    text = [f"{problem.message} / {problem.hint}" for problem in caught.value.problems]
    assert len(text) == 2
    assert "site_base.certificates[0]: no file" in text[0]
    assert f"has mode 0640 / chmod 0600 {tmp_path / 'secret'}" in text[1]
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "ca.pem").write_text("x")
    require_files(wanted, tmp_path)


def test_a_bare_server_is_made_fast() -> None:
    found = plan()
    config = found.hosts[0].roles.host_tuning
    assert config
    assert (config.profile, config.governor, config.hugepages) == ("server", "performance", "madvise")
    assert config.command_line == ("iommu=pt", "transparent_hugepage=madvise", "numa_balancing=disable")
    assert config.sysctl["kernel.numa_balancing"] == "0"
    assert found.hosts[0].reboots == 1
    assert "ACS sends traffic between 4 GPUs through the root port: reported" in notes(found)
    intel = first(cpu="Intel(R) Xeon(R) Platinum 8480+", nodes=1).roles.host_tuning
    assert intel
    assert intel.command_line == ("intel_iommu=on", "iommu=pt", "transparent_hugepage=madvise")


def test_a_virtual_machine_is_tuned_only_when_asked_and_never_at_its_boot_loader() -> None:
    config = first(virtual=True, host_tuning={"profile": "server", "acs": "clear"}).roles.host_tuning
    assert config
    assert (config.command_line, config.governor, config.acs) == ((), "as-found", "report")


def test_the_site_overrides_and_the_note_says_so() -> None:
    asked = {
        "profile": "desktop",
        "sysctl": {"vm.swappiness": "1"},
        "sleep": True,
        "command_line": ["iommu=off"],
        "acs": "clear",
    }
    found = plan(host_tuning=asked)
    config = found.hosts[0].roles.host_tuning
    assert config
    assert (config.sysctl["vm.swappiness"], config.mask, config.command_line) == ("1", (), ("iommu=off",))
    assert "vm.swappiness=1: site.yaml" in [line for note in found.notes for line in note.inputs]
    assert "cleared at boot" in notes(found)
    with pytest.raises(InputError):
        site(host_tuning={"command_line": ['quiet"; reboot']})


def test_one_gpu_has_no_acs_note() -> None:
    found = machine(*drives()).model_copy(update={"gpus": (Gpus(kind="h100-pcie", count=1),)})
    assert "ACS" not in notes(build_plan(need(), site(), {"node1": found}))


@pytest.mark.parametrize(
    ("model", "fragile"),
    [
        ("Intel(R) Core(TM) i9-14900K", True),
        ("13th Gen Intel(R) Core(TM) i9-13900KS", True),
        ("Intel(R) Core(TM) i7-14700K", True),
        ("Intel Core i9-14900K", True),
        ("12th Gen Intel(R) Core(TM) i9-12900K", False),
        ("Intel(R) Core(TM) i5-13400", False),
        ("Intel(R) Xeon(R) w9-3495X", False),
        ("AMD EPYC 9755 128-Core Processor", False),
    ],
)
def test_processors_that_need_the_corrected_microcode(model: str, fragile: bool) -> None:
    assert fragile_cpu(model) is fragile


def test_plan_names_what_is_missing_beside_what_is_wrong(tmp_path: Path) -> None:
    from llmhw_provision.cli.plan import make_plan

    (tmp_path / "workload.yaml").write_text("schema: 1\nmodel: no-such-model\njobb: sft\n")
    hosts = "hosts: [{name: n1, address: 192.0.2.1}]\nsite_base: {certificates: [ca.pem]}\n"
    (tmp_path / "site.yaml").write_text("schema: 1\nsite: a\n" + hosts)
    with pytest.raises(InputError) as caught:
        make_plan(tmp_path)
    text = "\n".join(problem.message for problem in caught.value.problems)
    assert "jobb" in text
    assert "site_base.certificates[0]: no file" in text

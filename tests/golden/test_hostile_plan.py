"""Text of a plan that looks like a template stays text: Ansible evaluates only references of our own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from llmhw_provision.inventory import write_inventory
from llmhw_provision.plan.roles import Wipe
from tests.unit.test_inventory import plan

MARK = "/tmp/llmhw-hostile"
HOSTILE = (
    "{{ lookup('pipe','touch " + MARK + "') }}",
    "{% for x in lookup('pipe','touch " + MARK + "') %}{% endfor %}",
    "{# a comment #}",
)


@pytest.fixture
def asked(tmp_path: Path) -> dict[str, object]:
    """What real Ansible makes of the variables of a host whose plan is hostile in every free text."""
    made = plan(4)
    host = made.hosts[0]
    storage, base = host.roles.nvme_raid0, host.roles.site_base
    assert storage is not None
    assert base is None
    wipe = tuple(Wipe(device="/dev/disk/by-id/nvme-x", serial=text, type=text, uuid=text) for text in HOSTILE)
    volumes = tuple(item.model_copy(update={"owner": HOSTILE[0]}) for item in storage.volumes)
    hostile = storage.model_copy(update={"wipe": wipe, "volumes": volumes})
    roles = host.roles.model_copy(update={"nvme_raid0": hostile})
    host = host.model_copy(update={"roles": roles, "machine": HOSTILE[0], "os": HOSTILE[0]})
    write_inventory(made.model_copy(update={"hosts": (host,), "identity": HOSTILE[0]}), tmp_path / "inventory")
    tool = Path(sys.executable).with_name("ansible")
    done = subprocess.run(
        [
            *(tool, "-i", tmp_path / "inventory" / "hosts.yml", "all", "-c", "local", "-m", "debug"),
            *("-a", "msg={{ {'config': nvme_raid0_config, 'plan': llmhw_plan} }}"),
        ],
        capture_output=True,
        env={
            **os.environ,
            "ANSIBLE_LOCAL_TEMP": str(tmp_path / "tmp"),
            "HOME": str(tmp_path),
            "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.minimal",
            "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
        },
        check=True,
        text=True,
    )
    found: dict[str, object] = json.loads(done.stdout.partition("=>")[2])["msg"]
    return found


def test_ansible_takes_every_text_of_a_plan_as_text(asked: dict[str, object]) -> None:
    config = asked["config"]
    assert isinstance(config, dict)
    assert [item["serial"] for item in config["wipe"]] == list(HOSTILE)
    assert config["volumes"][0]["owner"] == HOSTILE[0]
    assert asked["plan"] == HOSTILE[0]
    assert [member.rpartition("_")[2] for member in config["volumes"][0]["members"]] == ["D1", "D2", "D3", "D4"]
    assert not Path(MARK).exists()

"""A small site whose one machine is this one, and what apply refuses before anything starts."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from llmhw_provision.documents import dump_json
from llmhw_provision.errors import InputError
from llmhw_provision.plan.model import ExpectedDisk, HostPlan, Plan, RoleConfigs
from llmhw_provision.plan.roles import TmpfsConfig
from llmhw_provision.run import apply, orders
from llmhw_provision.run.command import Choice
from llmhw_provision.run.outcome import Result
from llmhw_provision.run.progress import Lines, Watcher

IDENTITY = "7f3c00112233"
LOCAL = f"ansible_connection: local\n      ansible_python_interpreter: {sys.executable}"
AWAY = "ansible_host: 127.0.0.1\n      ansible_port: 9\n      ansible_ssh_retries: 0"


def host(name: str, *, reboots: int = 0, erases: tuple[str, ...] = ()) -> HostPlan:
    disk = ExpectedDisk(
        serial="S1",
        by_id="/dev/disk/by-id/nvme-A_S1",
        model="A",
        size_bytes=3_840_000_000_000,
        purpose="scratch",
        reason="",
    )
    return HostPlan(
        name=name,
        address="192.0.2.10",
        port=22,
        user="root",
        identity_file=None,
        machine=None,
        rehearsal=True,
        os="Ubuntu 24.04",
        memory_bytes=2**40,
        disks=(disk,),
        roles=RoleConfigs(tmpfs=TmpfsConfig(mounts=())),
        reboots=reboots,
        creates=("/dev/md/scratch over 8 empty disks",),
        erases=erases,
    )


def plan(*hosts: HostPlan, origin: str = "observed") -> Plan:
    data = {"schema": 1, "site": "customer-a", "origin": origin, "workload": "", "identity": IDENTITY, "notes": ()}
    return Plan.model_validate(data | {"hosts": hosts}, strict=False)


def site(folder: Path, made: Plan, connections: dict[str, str] | None = None, *, identity: str = IDENTITY) -> Path:
    """Writes plan.json and the inventory; hosts are this machine unless `connections` says otherwise."""
    (folder / "inventory" / "group_vars").mkdir(parents=True)
    (folder / "plan.json").write_text(dump_json(made))
    (folder / "inventory" / "group_vars" / "all.yml").write_text(
        f"llmhw_plan: '{identity}'\nllmhw_record_folder: '{folder}/etc'\n"  # not this machine's /etc/llmhw
    )
    lines = ["all:", "  hosts:"]
    for each in made.hosts:
        lines += [f"    {each.name}:", f"      {(connections or {}).get(each.name, LOCAL)}"]
    (folder / "inventory" / "hosts.yml").write_text("\n".join(lines) + "\n")
    return folder


def content(folder: Path, tasks: str, *, reboot: str = "") -> Path:
    """A content root whose site.yml runs one role, `demo`, that holds `tasks`."""
    (folder / "roles" / "demo" / "tasks").mkdir(parents=True)
    (folder / "playbooks").mkdir()
    (folder / "roles" / "demo" / "tasks" / "main.yml").write_text(tasks)
    play = "- hosts: all\n  gather_facts: false\n  roles: [demo]\n"
    (folder / "playbooks" / "site.yml").write_text(play)
    (folder / "playbooks" / "reboot.yml").write_text(reboot or play)
    return folder


def run(
    tmp_path: Path,
    tasks: str,
    *,
    choice: Choice | None = None,
    watcher: Watcher | None = None,
    allow_reboot: bool = False,
    retry_after_s: tuple[float, ...] = (),
) -> tuple[Result, Path]:
    """One apply in `tmp_path`, on a site and with content made there before or else now; the result, the run folder."""
    folder, root = tmp_path / "site", tmp_path / "content"
    if not folder.exists():
        site(folder, plan(host("one")))
    if not root.exists():
        content(root, tasks)
    order = orders.prepare(folder, choice=choice or Choice(), allow_reboot=allow_reboot)
    order = replace(order, retry_after_s=retry_after_s)
    result = apply.run(order, watcher or Lines(io.StringIO()), content=root)
    return result, folder / result.folder


def test_a_purchase_plan_is_refused_with_the_command_to_run(tmp_path: Path) -> None:
    folder = site(tmp_path / "site", plan(host("one"), origin="purchase"))
    with pytest.raises(InputError) as caught:
        orders.prepare(folder, choice=Choice())
    assert "catalogue machines" in caught.value.problems[0].message
    assert "llmhw-provision discover" in caught.value.problems[0].hint


def test_an_inventory_of_another_plan_is_refused(tmp_path: Path) -> None:
    folder = site(tmp_path / "site", plan(host("one")), identity="0123456789ab")
    with pytest.raises(InputError, match=r"written from plan 0123456789ab, but plan\.json is 7f3c00112233"):
        orders.prepare(folder, choice=Choice())


def test_a_missing_inventory_is_refused(tmp_path: Path) -> None:
    folder = site(tmp_path / "site", plan(host("one")))
    (folder / "inventory" / "hosts.yml").unlink()
    with pytest.raises(InputError, match=r"hosts\.yml: no such file"):
        orders.prepare(folder, choice=Choice())


def test_an_unknown_host_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    folder = site(tmp_path / "site", plan(host("one"), host("two")))
    with pytest.raises(InputError) as caught:
        orders.prepare(folder, choice=Choice(limit=("three",)))
    assert caught.value.problems[0].hint == "hosts: one, two"


def test_the_order_concerns_the_hosts_of_limit_only(tmp_path: Path) -> None:
    folder = site(tmp_path / "site", plan(host("one"), host("two")))
    order = orders.prepare(folder, choice=Choice(limit=("two",)))
    assert [each.name for each in order.hosts] == ["two"]

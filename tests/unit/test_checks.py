"""Every check: passes on the machine as it was made, fails on one that was broken, and never passes unread."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmhw_provision.checks import hardware, table
from llmhw_provision.checks.host import is_rehearsal
from llmhw_provision.checks.model import Finding
from llmhw_provision.checks.texts import TEXTS
from llmhw_provision.evidence import Evidence, Result
from llmhw_provision.plan.model import ExpectedDisk, HostPlan, Signature
from llmhw_provision.plan.roles import NvmeRaid0Config
from tests.unit.broken_readings import BROKEN, GOOD, edited
from tests.unit.recordings import changed, host_plan, recorded, replaced, swapped, without

KEPT = ExpectedDisk(
    serial="LAB3",
    by_id="/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_LAB3",
    model="QEMU NVMe Ctrl",
    size_bytes=2 * 2**30,
    purpose="kept",
    reason="holds gpt partition table (uuid aaaaaaaa-1111-4222-8333-bbbbbbbbbbbb) on disk",
    signatures=(Signature(type="gpt", uuid="aaaaaaaa-1111-4222-8333-bbbbbbbbbbbb"),),
)


def keeping(*disks: ExpectedDisk) -> HostPlan:
    """A plan that keeps disks and has no volumes."""
    plan = host_plan()
    config = NvmeRaid0Config(volumes=(), directories=(), wipe=(), max_wear_percent=90)
    return plan.model_copy(
        update={"disks": disks, "roles": plan.roles.model_copy(update={"nvme_raid0": config, "tmpfs": None})}
    )


def findings(check: str, evidence: Evidence, plan: HostPlan | None = None) -> list[Finding]:
    return [item for item in table.judge_all(plan or host_plan(), evidence, "standard") if item.check == check]


def worst(check: str, evidence: Evidence, plan: HostPlan | None = None) -> Finding:
    order = ("fail", "could-not-run", "warn", "pass")
    return min(findings(check, evidence, plan), key=lambda item: order.index(item.status))


CASES = [(check, *case) for check, cases in BROKEN.items() for case in cases]
# disk-untouched: nothing is kept there; areas base and tuning: test_checks_base.py; GPUs and more: test_faults.py,
# test_throughput.py
OF_A_MADE_HOST = [
    check.id
    for check in table.chosen("standard")
    if check.id != "disk-untouched"
    and check.area not in ("base", "tuning", "python", "throughput")
    and check not in hardware.CHECKS
]


def test_every_check_is_broken_here() -> None:
    assert sorted(BROKEN) == sorted(OF_A_MADE_HOST)


def test_the_machine_as_it_was_made_passes_every_check() -> None:
    found = table.judge_all(host_plan(), GOOD, "standard")
    assert {item.check for item in found} == set(OF_A_MADE_HOST)
    assert [item for item in found if item.status != "pass"] == []
    assert all(item.cause == "" and item.next_step == "" for item in found)


@pytest.mark.parametrize(("check", "evidence", "status", "says"), CASES, ids=[f"{c[0]}: {c[3]}" for c in CASES])
def test_what_is_broken_is_found(check: str, evidence: Evidence, status: str, says: str) -> None:
    finding = worst(check, evidence)
    assert finding.status == status
    assert says in finding.found
    assert finding.expected
    assert finding.cause
    assert finding.next_step


@pytest.mark.parametrize("item", list(table.items(host_plan(), "standard")), ids=lambda item: item.name)
def test_a_check_without_evidence_could_not_run(item: table.Item) -> None:
    nothing = table.judge(item, Evidence("vm-01", "machine", {}))
    assert nothing.status == "could-not-run"
    assert "was not read on vm-01" in nothing.found
    alone = table.judge(item, without(GOOD, table.judge(item, GOOD).evidence))
    assert alone.status == "could-not-run"


@pytest.mark.parametrize("item", list(table.items(host_plan(), "standard")), ids=lambda item: item.name)
def test_damaged_evidence_could_not_run(item: table.Item) -> None:
    key = table.judge(item, GOOD).evidence
    finding = table.judge(item, changed(GOOD, key, lambda raw: raw[:-2] if raw else b"?"))
    assert finding.status == "could-not-run"
    assert "could not read" in finding.found


@pytest.mark.parametrize("item", list(table.items(host_plan(), "standard")), ids=lambda item: item.name)
def test_a_check_names_evidence_that_the_reading_holds(item: table.Item) -> None:
    keys = {command.key for command in table.commands(host_plan(), "standard")}
    assert table.judge(item, GOOD).evidence in keys


def test_the_reading_asks_for_each_thing_once() -> None:
    keys = [command.key for command in table.commands(host_plan(), "standard")]
    assert len(keys) == len(set(keys))


def test_kept_disk_as_it_was() -> None:
    finding = worst("disk-untouched", recorded("mixed-disks"), keeping(KEPT))
    assert (finding.status, finding.found) == ("pass", "holds aaaaaaaa-1111-4222-8333-bbbbbbbbbbbb")


def test_kept_disk_that_lost_what_it_held() -> None:
    finding = worst("disk-untouched", recorded("empty-disks"), keeping(KEPT))
    assert (finding.status, finding.found) == ("fail", "gone: aaaaaaaa-1111-4222-8333-bbbbbbbbbbbb")


def test_kept_disk_that_is_gone() -> None:
    gone = swapped(recorded("mixed-disks"), "lsblk", '"serial": "LAB3"', '"serial": "LAB9"')
    assert worst("disk-untouched", gone, keeping(KEPT)).found == "no disk with serial LAB3"


def test_kept_disk_that_carries_our_volume() -> None:
    plan = host_plan().model_copy(update={"disks": (KEPT.model_copy(update={"serial": "LAB0"}),)})
    finding = worst("disk-untouched", GOOD, plan)
    assert (finding.status, finding.found, finding.variant) == ("fail", "carries 'any:scratch'", "taken")


def test_system_disk_in_use_and_not() -> None:
    system = KEPT.model_copy(update={"purpose": "system", "reason": "carries the operating system: never touched"})
    assert worst("disk-untouched", recorded("mixed-disks"), keeping(system)).found == "carries [SWAP]"
    assert worst("disk-untouched", recorded("empty-disks"), keeping(system)).status == "fail"


def test_consequences_of_a_missing_drive_stand_behind_it() -> None:
    found = table.judge_all(host_plan(), recorded("missing-drive"), "quick")
    assert [item.check for item in found if item.status == "fail"] == [
        "disk-present",
        "array-name",
        "array-members",
        "fs-mounted",
        "volume-watch",
    ]
    assert {item.found for item in found if item.status == "could-not-run"} == {
        "array 'scratch' does not run",
        "nothing is mounted on /scratch",
    }


def test_a_point_release_is_no_difference() -> None:
    plan = host_plan().model_copy(update={"os": "Ubuntu 24.04.1 LTS"})
    evidence = edited("os-release", 'PRETTY_NAME="[^"]*"', 'PRETTY_NAME="Ubuntu 24.04.3 LTS"')
    assert worst("host-os", evidence, plan).status == "pass"
    evidence = edited("os-release", 'PRETTY_NAME="[^"]*"', 'PRETTY_NAME="Ubuntu 26.04 LTS"')
    assert worst("host-os", evidence, plan).status == "fail"


def test_a_single_disk_as_volume() -> None:
    """Its device is found by the by-id name; nothing is asked of arrays."""
    plan = host_plan()
    assert plan.roles.nvme_raid0
    single = plan.roles.nvme_raid0.volumes[0].model_copy(
        update={
            "name": "old",
            "level": "single",
            "members": ("/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_LAB2",),
            "mount": "/mnt/x",
            "mount_options": ("nofail",),
        }
    )
    config = NvmeRaid0Config(volumes=(single,), directories=(), wipe=(), max_wear_percent=90)
    plan = plan.model_copy(update={"roles": plan.roles.model_copy(update={"nvme_raid0": config})})
    assert worst("fs-mounted", recorded("mixed-disks"), plan).status == "pass"
    assert findings("array-name", recorded("mixed-disks"), plan) == []


def test_levels() -> None:
    def ids(level: table.Level) -> set[str]:
        return {check.id for check in table.chosen(level)}

    both = {"host-os", "host-memory", "host-nature", "disk-present"}
    both |= {"gpu-present", "gpu-xid", "pcie-errors", "host-errors", "drive-log"}
    assert ids("before") & ids("quick") == both
    assert ids("quick") <= ids("standard")
    assert {"access", "use-gpu", "package-locks", "host-clock"} <= ids("before")


def test_rehearsal_is_told_by_plan_reading_or_origin() -> None:
    bare = replaced(GOOD, "virt", Result(1, b"none\n", b"", 0.1))
    server = host_plan().model_copy(update={"rehearsal": False})
    assert is_rehearsal(host_plan(), bare)
    assert is_rehearsal(server, GOOD)
    assert is_rehearsal(server, replace(bare, origin="stand-in"))
    assert not is_rehearsal(server, bare)


def test_every_text_belongs_to_a_check() -> None:
    ids = {check.id for check in table.CHECKS} | {"could-not-run"}
    assert {key.partition("/")[0] for key in TEXTS} == ids

"""Every check: passes on the machine as it was made, fails on one that was broken, and never passes unread."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from llmhw_provision.checks import hardware, table
from llmhw_provision.checks.host import is_rehearsal
from llmhw_provision.checks.model import Finding
from llmhw_provision.checks.texts import TEXTS
from llmhw_provision.evidence import Evidence, Result
from llmhw_provision.plan.model import ExpectedDisk, HostPlan, Signature
from llmhw_provision.plan.roles import NvmeRaid0Config
from tests.unit.recordings import changed, host_plan, recorded, replaced, swapped, without

GOOD = recorded("provisioned")
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


def sub(pattern: str, new: str) -> Callable[[bytes], bytes]:
    return lambda raw: re.sub(pattern.encode(), new.encode(), raw)


def edited(key: str, pattern: str, new: str) -> Evidence:
    return changed(GOOD, key, sub(pattern, new))


UUID = "a699eef7-6f79-4dbc-99f8-e9c3e8e0cbbc"
ARRAY = "5ba4af44:c448bf71:608e4c18:4173d90f"
# check → list of (broken reading, status, what the finding must say)
BROKEN: dict[str, list[tuple[Evidence, str, str]]] = {
    "host-os": [(edited("os-release", "bookworm|12", "13"), "fail", "13")],
    "host-memory": [
        (edited("meminfo", r"MemTotal: +\d+", "MemTotal: 1900000"), "fail", "1.8 GiB"),
        (edited("meminfo", r"MemTotal: +\d+", "MemTotal: 2400000"), "warn", "2.3 GiB"),
    ],
    "host-nature": [(replaced(GOOD, "virt", Result(1, b"none\n", b"", 0.1)), "fail", "a machine of its own")],
    "host-units": [(changed(GOOD, "failed-units", lambda _: b"a.service loaded failed failed A\n"), "warn", "a.serv")],
    "host-trim": [
        (edited("fstrim", "ActiveState=active", "ActiveState=inactive"), "fail", "enabled, inactive"),
        (edited("fstrim", "LoadState=loaded", "LoadState=masked"), "fail", "masked"),
    ],
    "disk-present": [
        (swapped(GOOD, "lsblk", '"serial": "LAB1"', '"serial": "LAB9"'), "fail", "everything on /scratch is lost"),
        (
            swapped(GOOD, "lsblk", '"serial": "LAB2"', '"serial": "LAB9"'),
            "fail",
            "/srv/project runs without its mirror",
        ),
        (edited("lsblk", '"size": 2147483648', '"size": 1073741824'), "fail", "1.1 GB"),
        (recorded("missing-drive"), "fail", "no disk with serial LAB1"),
    ],
    "array-name": [
        (swapped(GOOD, "mdadm-detail", "any:scratch", "any:other"), "fail", "no array of that name"),
        (recorded("missing-drive"), "fail", "md126 is inactive"),
    ],
    "array-level": [(swapped(GOOD, "mdadm-detail", "MD_LEVEL=raid0", "MD_LEVEL=linear"), "fail", "linear")],
    "array-chunk": [(swapped(GOOD, "md-sysfs", "chunk_size:524288", "chunk_size:65536"), "fail", "64 KiB")],
    "array-members": [
        (recorded("missing-drive"), "fail", "missing LAB1: everything on /scratch is lost"),
        (recorded("pulled-drive"), "fail", "missing LAB1"),
        (swapped(GOOD, "lsblk", '"serial": "LAB1"', '"serial": "LAB9"'), "fail", "not in the plan: LAB9"),
        (swapped(GOOD, "mdstat", "nvme3n1[1]", "nvme3n1[1](F)"), "fail", "missing LAB3: /srv/project runs without"),
    ],
    "array-state": [
        (recorded("pulled-drive"), "fail", "broken"),
        (swapped(GOOD, "md-sysfs", "sync_action:idle", "sync_action:resync"), "warn", "clean, resync running"),
        (swapped(GOOD, "md-sysfs", "degraded:0", "degraded:1"), "fail", "clean, 1 member missing"),
    ],
    "array-conf": [
        (edited("mdadm-conf", f"ARRAY /dev/md/scratch.*{ARRAY}", "# gone"), "fail", "0 lines with that UUID"),
        (changed(GOOD, "mdadm-conf", lambda raw: raw + f"ARRAY /dev/md0 UUID={ARRAY}\n".encode()), "fail", "2 lines"),
        (swapped(GOOD, "mdadm-conf", "ARRAY /dev/md/scratch", "ARRAY /dev/md127"), "fail", "ARRAY /dev/md127"),
        (
            changed(GOOD, "mdadm-conf", lambda raw: raw + b"ARRAY /dev/md/scratch UUID=" + b"0" * 32 + b"\n"),
            "fail",
            "another line for /dev/md/scratch",
        ),
    ],
    "array-boot": [(edited("initramfs", f"ARRAY /dev/md/scratch.*{ARRAY}", "# gone"), "fail", "0 lines")],
    "array-came-back": [(edited("boot-times", "initramfs .", "initramfs 2"), "warn", "after the last boot")],
    "fs-mounted": [
        (recorded("missing-drive"), "fail", "nothing is mounted on /scratch"),
        (swapped(GOOD, "findmnt", '"source": "/dev/md127"', '"source": "/dev/vda"'), "fail", "/dev/vda is mounted"),
        (swapped(GOOD, "findmnt", "rw,noatime,attr2", "rw,relatime,attr2"), "fail", "lacks noatime"),
        (swapped(GOOD, "findmnt", '"fstype": "xfs"', '"fstype": "ext4"'), "fail", "ext4"),
    ],
    "fs-uuid": [
        (swapped(GOOD, "mount-unit:/scratch", UUID, "0" * 8), "fail", "unit 00000000"),
        (swapped(GOOD, "findmnt", UUID, "0" * 8), "fail", "mount 00000000"),
    ],
    "fs-geometry": [
        (swapped(GOOD, "xfs:/scratch", "sunit=128    swidth=256", "sunit=0      swidth=0"), "fail", "su=0 KiB sw=0"),
        (swapped(GOOD, "xfs:/scratch", "swidth=256", "swidth=512"), "fail", "sw=4"),
    ],
    "fs-trim": [
        (edited("trim", "ExecStart=.*/scratch.*\n", ""), "fail", "/sbin/fstrim --listed-in /etc/fstab"),
        (edited("trim", "ExecStart=.*\n", ""), "fail", "it runs nothing"),
    ],
    "fs-bare": [
        (swapped(GOOD, "bare:/scratch", "----i---", "--------"), "fail", "can be written to"),
        (changed(GOOD, "bare:/scratch", lambda raw: raw + b"model.bin\n"), "fail", "holds model.bin"),
    ],
    "fs-unit": [
        (swapped(GOOD, "mount-unit:/scratch", "UnitFileState=enabled", "UnitFileState=disabled"), "fail", "disabled"),
        (swapped(GOOD, "mount-unit:/scratch", "USec=30s", "USec=infinity"), "fail", "boot waits for ever"),
        (swapped(GOOD, "mount-unit:/scratch", "USec=30s", "USec=1min 30s"), "fail", "boot waits 90 s"),
        (
            swapped(
                GOOD, "mount-unit:/scratch", "RequiredBy=\nWantedBy=local", "RequiredBy=local-fs.target\nWantedBy="
            ),
            "fail",
            "boot stops without it",
        ),
        (swapped(GOOD, "mount-unit:/scratch", "NeedDaemonReload=no", "NeedDaemonReload=yes"), "fail", "has not read"),
        (edited("mount-unit:/scratch", "FileWhat=.*", "FileWhat="), "fail", "no unit file"),
    ],
    "fs-folder": [(swapped(GOOD, "folders", "/scratch|root|root|1777", "/scratch|root|root|755"), "fail", "0755")],
    "fs-directory": [
        (
            edited("folders", r"/srv/project/team\|.*", "stat: cannot statx '/srv/project/team': No"),
            "fail",
            "not there",
        ),
        (
            swapped(GOOD, "folders", "team|root|root|2775|directory", "team|root|root|2775|regular file"),
            "fail",
            "a reg",
        ),
        (swapped(GOOD, "folders", "team|root|root", "team|root|users"), "fail", "root:users 2775"),
    ],
    "fs-read-ahead": [(edited("read-ahead", "(md127.*):4096", r"\g<1>:128"), "fail", "128 KiB")],
    "volume-watch": [
        (
            recorded("missing-drive"),
            "fail",
            "drive nvme-QEMU_NVMe_Ctrl_LAB1 (serial LAB1) is gone; the array (md127) does",
        ),
        (recorded("pulled-drive"), "fail", "volume scratch (raid0, /scratch): drive nvme-QEMU_NVMe_Ctrl_LAB1"),
        (edited("volume-watch", "State=enabled", "State=disabled"), "fail", "watch.timer is disabled, active"),
        (edited("volume-watch", "State=active", "State=inactive"), "fail", "watch.timer is enabled, inactive"),
        (edited("volume-watch", "LoadState=loaded(.*\n)*.*enabled", "LoadState=not-found"), "fail", "is not-found"),
        (edited("volume-watch", "Uptime=.*", "Uptime=1000.1"), "fail", "its last look was 8 min ago"),
        (edited("volume-watch", "Look=(.|\n)*", "Look=\nUptime=901.1\n"), "fail", "it has never looked"),
        (edited("volume-watch", "Look=.*", "Look="), "could-not-run", "no look yet, 500 s after"),
        (edited("volume-watch", '"project", ', ""), "fail", "does not look at project"),
        (edited("volume-watch", '"faults": ..', '"faults": {"scratch": {}}'), "could-not-run", "fault is not text"),
        (edited("volume-watch", '"faults": ..', '"faults": null'), "could-not-run", "no volumes or faults"),
    ],
    "tmpfs-mounted": [
        (swapped(GOOD, "findmnt", '"target": "/mnt/hot"', '"target": "/mnt/cold"'), "fail", "not mounted"),
        (swapped(GOOD, "findmnt", "size=262144k", "size=524288k"), "fail", "512.0 MiB"),
        (swapped(GOOD, "findmnt", "size=262144k", "size=131072k"), "fail", "128.0 MiB"),
        (swapped(GOOD, "findmnt", ",size=262144k", ""), "fail", "without limit"),
        (swapped(GOOD, "findmnt", "rw,nosuid,nodev,relatime,size=262144k", "rw,size=262144k"), "fail", "lacks nosuid"),
    ],
    "tmpfs-mode": [(swapped(GOOD, "folders", "/mnt/hot|root|root|1777", "/mnt/hot|root|root|755"), "fail", "0755")],
    "tmpfs-unit": [
        (swapped(GOOD, "mount-unit:/mnt/hot", "UnitFileState=enabled", "UnitFileState="), "fail", "loaded"),
        (swapped(GOOD, "mount-unit:/mnt/hot", "NeedDaemonReload=no", "NeedDaemonReload=yes"), "fail", "has not read"),
    ],
}
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

"""The role nvme_raid0 on a real kernel: refusals leave the drives as they are, interrupted runs are finished.

How the whole product uses the role, over a reboot and with a drive
pulled, is in test_thin_path.py.
"""

from __future__ import annotations

import pytest

from tests.rehearsal.machine import Machine
from tests.rehearsal.role import BY_ID, STATE, Play, Played, actions, converge, volume

pytestmark = [pytest.mark.vm, pytest.mark.proof]

DRIVES = ("LLMHW0006", "LLMHW0007", "LLMHW0008")
CUSTOMER = "LLMHWKEEP1"


def test_every_reason_is_said_and_nothing_is_changed(play: Play, machine: Machine) -> None:
    drives, before = machine.drive_hashes(), machine.run(STATE).stdout
    members = [BY_ID + serial for serial in (DRIVES[0], CUSTOMER, "NOTTHERE")]
    done = play(volume(members=members), volume(name="p", level="single", mount="/p", members=[BY_ID + "GONE"]))
    assert done.changed == {}
    assert f"disk nvme-QEMU_NVMe_Ctrl_{CUSTOMER} holds an ext4 filesystem" in done.failed
    assert "disk nvme-QEMU_NVMe_Ctrl_NOTTHERE is missing" in done.failed
    assert "disk nvme-QEMU_NVMe_Ctrl_GONE is missing" in done.failed
    assert "hint: nothing was changed." in done.failed
    assert (machine.drive_hashes(), machine.run(STATE).stdout) == (drives, before)


def test_a_consent_erases_exactly_what_it_names(play: Play, machine: Machine) -> None:
    disk = BY_ID + DRIVES[0]
    machine.run(f"sudo mkfs.ext4 -q -L old {disk} && sudo udevadm settle")
    uuid = machine.run(f"sudo blkid -p -o value -s UUID {disk}").stdout.strip()
    consent = {"device": disk, "serial": DRIVES[0], "type": "ext4", "uuid": uuid}
    for wrong in ({"serial": DRIVES[1]}, {"type": "xfs"}, {"uuid": uuid[::-1]}, {"device": BY_ID + DRIVES[1]}):
        assert 'holds an ext4 filesystem "old"' in play(wipe=({**consent, **wrong},), check=True).failed
    done = converge(play, wipe=(consent,))
    assert actions(done) == ["erase", "create", "make", "record", "set"]
    geometry = machine.run("findmnt -no OPTIONS /proving; cat /sys/class/block/md12*/queue/read_ahead_kb").stdout
    assert "sunit=512,swidth=1536" in geometry
    assert geometry.endswith("1024\n")


@pytest.mark.parametrize(
    ("interrupt", "expected"),
    [
        ("umount /proving", []),
        ("systemctl stop proving.mount; wipefs -aq /dev/md/proving", ["make", "set"]),
        ("systemctl stop proving.mount; mdadm --stop /dev/md/proving", ["start"]),
        (
            "systemctl stop proving.mount; wipefs -aq /dev/md/proving; mdadm --stop /dev/md/proving",
            ["start", "make", "set"],
        ),
        (f"systemctl stop proving.mount; mdadm --stop /dev/md/proving; mdadm -I {BY_ID}{DRIVES[0]}", ["start"]),
        ("sed -i /proving/d /etc/mdadm/mdadm.conf", ["record"]),
        ("echo 64 > /sys/class/block/$(basename $(realpath /dev/md/proving))/queue/read_ahead_kb", ["set"]),
    ],
    ids=["unmounted", "no-file-system", "stopped", "stopped-and-empty", "inactive", "not-recorded", "read-ahead"],
)
def test_an_interrupted_run_is_finished(play: Play, machine: Machine, interrupt: str, expected: list[str]) -> None:
    machine.run(f"sudo sh -c '{interrupt}; udevadm settle'")
    done = play()
    assert done.failed == ""
    assert actions(done) == expected
    machine.run("findmnt /proving")


def test_nothing_is_left_to_do(play: Play) -> None:
    assert play() == Played({}, "")


def test_another_plan_for_the_same_array_is_refused(play: Play, machine: Machine) -> None:
    before = machine.run(STATE).stdout
    assert "chunk: expected 64 KiB, found 256 KiB" in play(volume(chunk_kib=64)).failed
    fewer = play(volume(members=[BY_ID + serial for serial in DRIVES[:2]])).failed
    assert "number of disks: expected 2, found 3" in fewer
    assert "array proving is mounted at /proving; expected /other" in play(volume(mount="/other")).failed
    other = play(volume(name="other", mount="/other")).failed
    assert "is a member of array proving (linux_raid_member, raid0 of 3 disks, in use by md12" in other
    assert machine.run(STATE).stdout == before


def test_without_the_mount_nobody_can_write_there(play: Play, machine: Machine) -> None:
    play()
    machine.run("sudo systemctl stop proving.mount")
    assert "Operation not permitted" in machine.run("sudo touch /proving/file", check=False).stderr

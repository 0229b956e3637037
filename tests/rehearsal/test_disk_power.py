"""The power goes while the role nvme_raid0 works; drives are pulled while the machine runs: the watch tells of it.

One story on one machine.
"""

from __future__ import annotations

import subprocess
import time

import pytest

from tests.rehearsal.cuts import EMPTY, SENTENCES, finished
from tests.rehearsal.layout import CUSTOMER_SERIAL
from tests.rehearsal.machine import Machine
from tests.rehearsal.role import Play, actions, members, volume

pytestmark = [pytest.mark.vm, pytest.mark.proof]


@pytest.fixture(scope="module")
def customer(machine: Machine, play: Play) -> str:
    """The hash of the customer's drive, on a machine that the role has been through once."""
    found = machine.drive_hashes()[CUSTOMER_SERIAL]
    assert play().failed == ""
    return found


# Found before the real one; so that the power goes before mkfs has begun, however fast the machine is.
WAITING = r"""sudo sh -c '
printf "#!/bin/sh\nsleep 30\nexec /usr/sbin/mkfs.xfs \"\$@\"\n" > /usr/local/sbin/mkfs.xfs
chmod 755 /usr/local/sbin/mkfs.xfs'"""


@pytest.mark.parametrize(
    ("line", "first"),
    [("make an XFS", ["make"]), ("record array", [])],
    ids=["between create and mkfs", "between mkfs and mount"],
)
def test_the_power_goes(play: Play, customer: str, line: str, first: list[str]) -> None:
    machine = play.machine
    machine.run(EMPTY)
    if first:
        machine.run(WAITING)
    machine.run("sync")
    follow = "sudo " + SENTENCES.format(module="nvme_raid0")
    ssh = ["ssh", "-F", str(machine.ssh_config), Machine.alias, follow]
    journal = subprocess.Popen(ssh, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert journal.stdout
    time.sleep(2)
    with journal, play.cut() as running:
        for text in journal.stdout:
            if text.startswith(line):
                machine.power_cut()
                break
        journal.kill()
        assert running.wait(timeout=300) != 0, "the run came to its end before the power went"
    machine.start()
    machine.run('test -z "$(findmnt -n /proving)"')
    machine.run("sudo rm -f /usr/local/sbin/mkfs.xfs")
    assert finished(play, customer)[: len(first)] == first


def test_a_boot_brings_it_all_back(play: Play, customer: str) -> None:
    machine = play.machine
    assert play.rebuild_initramfs().failed == ""
    machine.run("sudo sh -c 'echo kept > /proving/data; sync'")
    machine.power_cut()
    machine.start()
    machine.run("systemctl is-system-running --wait", check=False)  # ssh answers before a slow drive is there
    assert machine.run("cat /proving/data").stdout == "kept\n"
    assert finished(play, customer) == []


MIRROR = volume(name="mirror", level="raid1", mount="/mirror", members=members("LLMHW0001", "LLMHW0002"))
LOOK = (
    "sudo systemctl start llmhw-volume-watch; echo rc $?; "
    "cat /run/llmhw/volume-faults /run/motd.d/llmhw* 2>/dev/null; true"
)


def test_a_pulled_drive_is_told_with_what_is_lost_and_what_is_not(play: Play) -> None:
    machine = play.machine
    done = play(volume(), MIRROR)
    assert actions(done) == ["create", "make", "record", "set"]
    machine.run("sudo sh -c 'until ! grep -q resync /proc/mdstat; do sleep 1; done'")
    assert machine.run(LOOK).stdout == "rc 0\n"
    for serial in ("LLMHW0007", "LLMHW0002"):
        machine.unplug(serial)
    told = machine.run(LOOK).stdout
    assert told.startswith("rc 1\n")
    stripe, mirror = told.partition("\n\n")[0], told.partition("\n\n")[2].partition("\n\n")[0]
    assert "*** FAULT: volume proving, RAID0 over 3 drives, /proving" in stripe
    assert "drive nvme-QEMU_NVMe_Ctrl_LLMHW0007 (serial LLMHW0007) is gone" in stripe
    assert "lost:     everything on /proving if the drive is dead; no other drive can restore it" in stripe
    assert "*** FAULT: volume mirror, mirror (RAID1) of 2 drives, /mirror" in mirror
    assert "lost:     nothing yet. Everything on /mirror if the last good drive fails" in mirror
    journal = machine.run("sudo journalctl -t llmhw-volume-watch -p err -o cat").stdout
    assert "volume proving (raid0, /proving): drive nvme-QEMU_NVMe_Ctrl_LLMHW0007" in journal
    assert "llmhw-volume-watch.service" in machine.run("systemctl --failed --plain --no-legend").stdout
    refused = play(volume(), MIRROR)
    assert "array proving (raid0 of 3 disks) lacks nvme-QEMU_NVMe_Ctrl_LLMHW0007" in refused.failed
    assert "without it nothing on /proving can be read" in refused.failed
    assert "storage-replace-drive" in refused.failed


def test_a_drive_that_comes_back_ends_the_fault(play: Play) -> None:
    machine = play.machine
    machine.power_cut()
    machine.start()
    machine.run("sudo systemctl is-system-running --wait", check=False)
    assert machine.run("cat /proving/data").stdout == "kept\n"
    told = machine.run(LOOK).stdout
    assert "proving" not in told  # the mirror fills again, or is whole

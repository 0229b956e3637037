"""Runs of the role nvme_raid0 that are cut off: programs killed in the middle of a step, and the power gone.

After each the next run finishes the job. One story on one machine; it ends with a boot, and with drives that are
pulled while the machine runs: the watch says what is lost.
"""

from __future__ import annotations

import subprocess
import time

import pytest

from tests.rehearsal.layout import CUSTOMER_SERIAL
from tests.rehearsal.machine import Machine
from tests.rehearsal.role import Play, Played, actions, members, volume

pytestmark = [pytest.mark.vm, pytest.mark.proof]

SENTENCES = "journalctl --follow --lines=0 --output=cat --identifier=ansible-{module}"
# On the machine itself, so that the kill comes within milliseconds of the line.
KILL = r"""sudo sh -c '
{follow} | grep --quiet --max-count=1 "{line}"
{wait}
pkill -9 -x python3; pkill -9 "^({victims})$"; sleep 1; pgrep -l --runstates D,R,S "^({victims})$"; true'"""
EMPTY = r"""sudo sh -c '
systemctl stop proving.mount
wipefs --all --quiet /dev/md/proving
mdadm --stop --scan
for name in LLMHW0006 LLMHW0007 LLMHW0008; do wipefs --all --quiet /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_$name; done
sed -i /proving/d /etc/mdadm/mdadm.conf; udevadm settle; cat /proc/mdstat'"""
DONE = r"""sudo sh -c '
findmnt -no FSTYPE,OPTIONS /proving; cat /sys/block/md*/md/array_state; ls -A /var/lib/llmhw/nvme_raid0
grep -c "^ARRAY /dev/md/proving " /etc/mdadm/mdadm.conf
dpkg-query --show --showformat "\${db:Status-Abbrev}\${Package}\n" | grep "^i[HUF]"; true'"""


@pytest.fixture(scope="module")
def customer(machine: Machine) -> str:
    return machine.drive_hashes()[CUSTOMER_SERIAL]


def kill(play: Play, *, module: str, line: str, victims: str, wait: str = "") -> str:
    """Starts a run and kills it, with `victims`, on the line that its `module` writes; what is left of them."""
    follow = SENTENCES.format(module=module)
    script = KILL.format(follow=follow, line=line, wait=wait, victims=victims)
    ssh = ["ssh", "-F", str(play.machine.ssh_config), Machine.alias, script]
    killer = subprocess.Popen(ssh, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    time.sleep(2)  # it follows the journal by then
    with play.cut() as running:
        left, _ = killer.communicate(timeout=300)
        assert running.wait(timeout=120) != 0, "the run came to its end before it was killed"
    return left


def finished(play: Play, customer: str) -> list[str]:
    """What the next run did to the disks, after a look that all is there and the customer's drive as it was."""
    done = play()
    assert done.failed == ""
    told = play.machine.run(DONE).stdout.splitlines()
    assert told[0].startswith("xfs ")
    assert "sunit=512,swidth=1536" in told[0]
    assert told[1:] == ["clean", "1"]
    assert play.machine.drive_hashes()[CUSTOMER_SERIAL] == customer
    assert play() == Played({}, "")
    return actions(done)


def test_killed_while_packages_are_unpacked(play: Play, customer: str) -> None:
    wait = "until pgrep -x dpkg > /dev/null; do sleep 0.1; done; sleep 1"
    left = kill(play, module="deferred_packages", line="Invoked", wait=wait, victims="dpkg|dpkg-deb|apt-get|tar")
    assert left == ""
    play.machine.run("test ! -e /proving")
    assert finished(play, customer)[:2] == ["create", "make"]


@pytest.mark.parametrize("delay", ["0", "1"])
def test_killed_while_the_array_is_created(play: Play, customer: str, delay: str) -> None:
    play.machine.run(EMPTY)
    kill(play, module="nvme_raid0", line="create array", wait=f"sleep {delay}", victims="mdadm")
    assert finished(play, customer)[-2:] == ["record", "set"]


@pytest.mark.parametrize("delay", ["0", "0.5"])
def test_killed_while_the_file_system_is_made(play: Play, customer: str, delay: str) -> None:
    play.machine.run(EMPTY)
    kill(play, module="nvme_raid0", line="make an XFS", wait=f"sleep {delay}", victims="mkfs.xfs")
    assert "record" in finished(play, customer)


def test_killed_while_it_is_mounted(play: Play, customer: str) -> None:
    play.machine.run(EMPTY)
    wait = "until pgrep -x systemctl > /dev/null; do sleep 0.1; done"
    kill(play, module="systemd_mount", line="Invoked", wait=wait, victims="systemctl|mount")
    assert finished(play, customer) == []


MARKED = r"""sudo sh -c '
systemctl stop proving.mount; device=$(readlink -f /dev/md/proving)
touch /run/mdadm/creating-$(basename $device); udevadm trigger --action=change --settle $device
systemctl is-active "$(systemd-escape --path --suffix=device /dev/md/proving)"; true'"""


def test_the_mark_of_a_creation_that_was_killed_does_not_hide_the_array(play: Play, customer: str) -> None:
    assert play.machine.run(MARKED).stdout == "inactive\n"
    assert finished(play, customer) == ["tell"]


def test_killed_while_the_initramfs_is_built(play: Play, customer: str) -> None:
    follow = "until pgrep mkinitramfs > /dev/null; do sleep 0.1; done; sleep 2; echo building"
    script = KILL.format(follow=f"({follow})", line="building", wait="", victims="update-initramf|mkinitramfs|cpio")
    ssh = ["ssh", "-F", str(play.machine.ssh_config), Machine.alias, script]
    with subprocess.Popen(ssh, stdin=subprocess.DEVNULL) as killer:
        assert play.rebuild_initramfs().failed
        assert killer.wait(timeout=60) == 0
    assert play.rebuild_initramfs().failed == ""
    assert play.rebuild_initramfs().changed == {}
    shown = play.machine.run(
        "sudo sh -c 'unmkinitramfs /boot/initrd.img-$(uname -r) /tmp/i; grep -r /dev/md/proving /tmp/i'"
    )
    assert "UUID=" in shown.stdout
    assert finished(play, customer) == []


@pytest.mark.parametrize(
    ("line", "first"),
    [("make an XFS", ["make"]), ("record array", [])],
    ids=["between create and mkfs", "between mkfs and mount"],
)
def test_the_power_goes(play: Play, customer: str, line: str, first: list[str]) -> None:
    machine = play.machine
    machine.run(EMPTY)
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
    assert finished(play, customer)[: len(first)] == first


def test_a_boot_brings_it_all_back(play: Play, customer: str) -> None:
    machine = play.machine
    assert play.rebuild_initramfs().failed == ""
    machine.run("sudo sh -c 'echo kept > /proving/data; sync'")
    machine.power_cut()
    machine.start()
    assert machine.run("cat /proving/data").stdout == "kept\n"
    assert finished(play, customer) == []


MIRROR = volume(name="mirror", level="raid1", mount="/mirror", members=members("LLMHW0001", "LLMHW0002"))
LOOK = (
    "sudo systemctl start llmhw-volume-watch; echo rc $?; cat /run/llmhw/volume-faults /run/motd.d/llmhw* 2>/dev/null"
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

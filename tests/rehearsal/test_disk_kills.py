"""Runs of the role nvme_raid0 whose programs are killed in the middle of a step: the next run finishes the job."""

from __future__ import annotations

import subprocess

import pytest

from tests.rehearsal.cuts import EMPTY, KILL, finished, kill
from tests.rehearsal.layout import CUSTOMER_SERIAL
from tests.rehearsal.machine import Machine
from tests.rehearsal.role import Play

# What may be left to do after a kill, by the first word: how far the killed run came depends on the machine's speed.
LEFT = {"stop", "undo", "note", "create", "tell", "erase", "make", "record", "set"}
pytestmark = [pytest.mark.vm, pytest.mark.proof]


@pytest.fixture(scope="module")
def customer(machine: Machine) -> str:
    return machine.drive_hashes()[CUSTOMER_SERIAL]


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
    assert set(finished(play, customer)) <= LEFT


def test_killed_while_the_file_system_is_made(play: Play, customer: str) -> None:
    play.machine.run(EMPTY)
    kill(play, module="nvme_raid0", line="make an XFS", victims="mkfs.xfs")
    assert set(finished(play, customer)) <= LEFT - {"stop", "undo", "create", "note"}


def test_mkfs_itself_is_killed(play: Play, customer: str) -> None:
    play.machine.run(EMPTY)
    wait = "until pkill -9 -x mkfs.xfs; do :; done"
    kill(play, module="nvme_raid0", line="create array", wait=wait, victims="mkfs.xfs")
    assert finished(play, customer)[-3:] == ["make", "record", "set"]


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

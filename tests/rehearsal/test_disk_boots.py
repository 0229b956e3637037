"""Two arrays and a customer's drive over ten boots with other slots and kernel names; arrays that lost their name.

One story on one machine. Half of the machine's ends are power cuts.
"""

from __future__ import annotations

import pytest

from tests.rehearsal.layout import CUSTOMER_SERIAL, EMPTY_SERIALS
from tests.rehearsal.machine import Machine
from tests.rehearsal.role import Play, actions, converge, members, volume

pytestmark = [pytest.mark.vm, pytest.mark.proof]

SCRATCH = volume(
    name="scratch", mount="/scratch", chunk_kib=512, members=members(*EMPTY_SERIALS[:4]), device_timeout_s=300
)
PROVING = volume(device_timeout_s=300)
# What must be the same after every boot, once the boot is through; "named" if the mount is the device of that name.
LASTING = r"""sudo sh -c '
systemctl is-system-running --wait
for name in scratch proving; do
  mdadm --detail --export /dev/md/$name | grep -e MD_LEVEL -e MD_DEVICES -e MD_UUID
  findmnt -no TARGET,FSTYPE,OPTIONS,UUID /$name
  test "$(realpath /dev/md/$name)" = "$(findmnt -no SOURCE /$name)" && echo named
  sha256sum < /$name/data
done
ls /dev/md'"""
# Only an array of another host changes its name when nothing records it.
FOREIGN = r"""sudo sh -e -c '
devices=$(mdadm --detail --export /dev/md/scratch | sed -n "s/MD_DEVICE_.*_DEV=//p")
systemctl stop scratch.mount
mdadm --stop /dev/md/scratch
sed -i /scratch/d /etc/mdadm/mdadm.conf
mdadm --assemble /dev/md100 --update=homehost --homehost=elsewhere $devices
udevadm settle'"""
UNRECORDED = "sudo sh -e -c 'sed -i /scratch/d /etc/mdadm/mdadm.conf; update-initramfs -u'"


def lasting(machine: Machine) -> str:
    return machine.run(LASTING, check=False).stdout


def boot(machine: Machine, number: int) -> None:
    """A start with the slots dealt out anew, after a power cut where `number` is odd."""
    if number % 2:
        machine.run("sync")
        machine.power_cut()
    else:
        machine.halt()
    machine.shuffle(number)
    machine.start()


def where(machine: Machine) -> frozenset[str]:
    """Serial number, kernel name and PCI address of every drive."""
    tell = "for disk in /sys/block/nvme*; do echo $(cat $disk/device/serial $disk/device/address) ${disk##*/}; done"
    return frozenset(machine.run(tell).stdout.splitlines())


@pytest.fixture(scope="module")
def before(play: Play, machine: Machine) -> str:
    """What lasts of two arrays with data, recorded in the initramfs."""
    assert actions(converge(play, SCRATCH, PROVING)) == [*["create", "make", "record"] * 2, "set"]
    assert play.rebuild_initramfs().failed == ""
    for folder in ("/scratch", "/proving"):
        machine.run(f"sudo sh -c 'head -c 30000000 /dev/urandom > {folder}/data; sync'")
    told = lasting(machine)
    assert told.count("named") == 2
    assert told.startswith("running\n")
    assert told.endswith("\nproving\nscratch\n")
    return told


@pytest.fixture(scope="module")
def customer(machine: Machine) -> str:
    return machine.drive_hashes()[CUSTOMER_SERIAL]


@pytest.fixture(scope="module")
def places() -> list[frozenset[str]]:
    """Where the drives were, boot after boot."""
    return []


@pytest.mark.parametrize("number", range(1, 10))
def test_a_boot_with_other_slots_keeps_both_arrays(
    machine: Machine, before: str, customer: str, places: list[frozenset[str]], number: int
) -> None:
    places.append(where(machine))
    boot(machine, number)
    assert lasting(machine) == before
    assert machine.drive_hashes()[CUSTOMER_SERIAL] == customer


def test_the_drives_were_elsewhere_at_every_boot(places: list[frozenset[str]]) -> None:
    assert len(places) == 9
    assert len(set(places)) == 9
    names = [frozenset((line.split()[0], line.split()[2]) for line in place) for place in places]
    assert len(set(names)) == 9


def test_an_array_of_another_host_gets_its_name_back(play: Play, machine: Machine, before: str) -> None:
    machine.run(FOREIGN)
    assert "MD_NAME=elsewhere:scratch" in machine.run("sudo mdadm --detail --export /dev/md100").stdout
    machine.run("test ! -e /dev/md/scratch")
    assert actions(converge(play, SCRATCH, PROVING)) == ["give", "record"]
    machine.run("sudo systemctl start llmhw-volume-watch")  # it may have looked while the array was away
    assert lasting(machine) == before


def test_b061_an_initramfs_without_the_array_is_repaired(play: Play, machine: Machine, before: str) -> None:
    machine.run(UNRECORDED)
    boot(machine, 10)
    red = lasting(machine)
    assert red.endswith("\nelsewhere:scratch\nproving\n")
    assert red.count("named") == 1
    machine.run("findmnt /scratch && test ! -e /dev/md/scratch")  # mounted by UUID all the same, under another name
    done = converge(play, SCRATCH, PROVING)
    assert actions(done) == ["record"]
    assert "nvme_raid0 : Leave the reason if the initramfs lacks the arrays" in done.changed
    rebuilt = play.rebuild_initramfs()
    assert rebuilt.failed == ""
    assert "rebuild the initramfs for nvme_raid0: /etc/mdadm/mdadm.conf not yet in" in str(rebuilt.changed)
    boot(machine, 11)
    assert lasting(machine) == before

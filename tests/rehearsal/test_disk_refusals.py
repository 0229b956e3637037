"""What the role nvme_raid0 refuses, each with the hashes of all drives equal before and after; consents and their end.

One story on one machine: the drives are empty, then other people's, then ours, then a dead one is exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.rehearsal import foreign
from tests.rehearsal.layout import CUSTOMER_SERIAL, EMPTY_SERIALS, SYSTEM_SERIAL, Drive
from tests.rehearsal.machine import Machine
from tests.rehearsal.role import BY_ID, Play, Played, actions, converge, members, refused, volume

pytestmark = [pytest.mark.vm, pytest.mark.proof]

LARGE = Drive("LLMHW2G001", 0x19, size=2 << 30)
SECTORS = Drive("LLMHW4K001", 0x1A, sector=4096)
SICK = Drive("LLMHWSICK1", 0x1B, smart_warning=4)  # bit 2: reliability degraded
FURTHER_DRIVES = (LARGE, SECTORS, SICK)
SIGNED = dict(zip((*EMPTY_SERIALS, LARGE.serial, SECTORS.serial, SICK.serial), foreign.KINDS, strict=True))
NEW = "LLMHWNEW01"
TEXTS = {
    "btrfs": "holds a btrfs filesystem (uuid ",
    "ceph_bluestore": "holds a ceph_bluestore signature",
    "crypto_LUKS": "holds a crypto_LUKS signature (uuid ",
    "dos": "has a partition table: dos with 1 partition (uuid ",
    "ext4": "holds an ext4 filesystem (uuid ",
    "gpt": "has a partition table: gpt with 1 partition (uuid ",
    "linux_raid_member": "is a member of array theirs (linux_raid_member, raid1 of 1 disks, uuid ",
    "LVM2_member": "holds an LVM2_member signature (uuid ",
    "swap": "holds a swap signature (uuid ",
    "xfs": "holds an xfs filesystem (uuid ",
    "zfs_member": "holds a zfs_member filesystem (no uuid)",
}
# A foreign array without redundancy over two drives, a logical volume, an open LUKS, a mount and a swap, all in use.
USE = """mdadm --quiet --create /dev/md9 --name=theirs --homehost=theirs --level=0 --run --raid-devices=2 {0} {1}
vgcreate --quiet theirs {2}
lvcreate --quiet --yes -n data -L 16M -Zn -Wn theirs
echo secret | cryptsetup open --key-file - {3} opened
mkdir /mnt/theirs
mount -o ro {4} /mnt/theirs
swapon {5}"""
STOP = """swapoff {5}
umount /mnt/theirs
rmdir /mnt/theirs
cryptsetup close opened
vgchange --quiet -an theirs
mdadm --quiet --stop /dev/md9"""


def disk(serial: str) -> str:
    return f"nvme_raid0: disk nvme-QEMU_NVMe_Ctrl_{serial} "


def signature(machine: Machine, device: str) -> tuple[str, str]:
    """Type and UUID of what is on a device, as blkid names them."""
    found = machine.run(f"sudo blkid -p -o export {device}").stdout.splitlines()
    values = dict(line.split("=", 1) for line in found)
    return values.get("TYPE") or values["PTTYPE"], values.get("UUID") or values["PTUUID"]


@pytest.fixture(scope="module", autouse=True)
def tools(machine: Machine) -> None:
    foreign.unpack(machine)


@pytest.fixture
def emptied(machine: Machine) -> Iterator[None]:
    """All drives but the customer's are empty again afterwards."""
    yield
    foreign.clear(machine, *SIGNED)


@pytest.mark.usefixtures("emptied")
def test_every_foreign_signature_is_named_in_one_run(play: Play, machine: Machine) -> None:
    foreign.sign(machine, SIGNED)
    wanted = volume(members=members(*SIGNED, CUSTOMER_SERIAL))
    lines = refused(play, wanted)
    assert play(wanted, check=True).failed.splitlines() == lines
    for serial, kind in {**SIGNED, CUSTOMER_SERIAL: "ext4"}.items():
        text = TEXTS[kind].replace(
            "filesystem (", 'filesystem "customer" (' if serial == CUSTOMER_SERIAL else "filesystem ("
        )
        assert any(line.startswith(disk(serial) + text) for line in lines), (serial, kind, lines)
    assert any("its disks differ in size" in line for line in lines)
    assert any("its disks differ in sector size" in line for line in lines)


@pytest.mark.usefixtures("emptied")
def test_everything_in_use_is_named_with_its_user_and_the_rest_without(play: Play, machine: Machine) -> None:
    drives = EMPTY_SERIALS[:6]
    links = members(*drives)
    foreign.sign(machine, dict(zip(drives[2:], ("LVM2_member", "crypto_LUKS", "xfs", "swap"), strict=True)))
    foreign.run(machine, USE.format(*links))
    lines = refused(play, volume(members=links))
    for number, text in enumerate(
        (
            "is a member of array theirs (linux_raid_member, raid0 of 2 disks, in use by md9, uuid ",
            "is a member of array theirs (linux_raid_member, raid0 of 2 disks, in use by md9, uuid ",
            "is in use by dm-0 (theirs-data)",
            "is in use by dm-1 (opened)",
            "is mounted at /mnt/theirs",
            "is in use as swap",
        )
    ):
        assert any(line.startswith(disk(drives[number]) + text) for line in lines), (text, lines)
    foreign.run(machine, STOP.format(*links))
    lines = refused(play, volume(members=links))
    assert sum("is a member of array theirs (linux_raid_member, raid0 of 2 disks, uuid " in line for line in lines) == 2
    assert not any("in use" in line or "mounted" in line for line in lines[:-1])


CASES = [
    pytest.param(members(*EMPTY_SERIALS[:2], "NOTTHERE"), disk("NOTTHERE") + "is missing", id="missing"),
    pytest.param(
        members(*EMPTY_SERIALS[:2], LARGE.serial),
        "nvme_raid0: volume proving: its disks differ in size: nvme-QEMU_NVMe_Ctrl_LLMHW0001 1.07 GB (1073741824 ",
        id="unequal-size",
    ),
    pytest.param(
        members(*EMPTY_SERIALS[:2], SECTORS.serial),
        "nvme_raid0: volume proving: its disks differ in sector size: nvme-QEMU_NVMe_Ctrl_LLMHW0001 512 bytes, ",
        id="mixed-sector-size",
    ),
    pytest.param(
        [f"/dev/disk/by-id/virtio-{SYSTEM_SERIAL}", *members(*EMPTY_SERIALS[:2])],
        f"nvme_raid0: disk virtio-{SYSTEM_SERIAL} holds the root file system",
        id="root-disk",
    ),
    pytest.param(
        members(*EMPTY_SERIALS[:2], SICK.serial),
        disk(SICK.serial) + "gives a SMART critical warning: reliability is degraded by media or internal errors",
        id="smart-warning",
    ),
]


@pytest.mark.parametrize(("links", "text"), CASES)
def test_a_disk_unfit_for_the_array_is_refused(play: Play, links: list[str], text: str) -> None:
    lines = refused(play, volume(members=links))
    assert any(line.startswith(text) for line in lines), lines


def consents(machine: Machine) -> tuple[dict[str, str], ...]:
    """Consents for all that the drives of the array hold: a GPT with an ext4 in it, an LVM PV, a foreign member."""
    found = []
    for link, part in zip((volume()["members"][0], *volume()["members"]), ("-part1", "", "", ""), strict=True):
        kind, uuid = signature(machine, link + part)
        serial = link.removeprefix(BY_ID)
        found.append({"device": link, "serial": serial, "type": kind, "uuid": uuid})
    return tuple(found)


@pytest.fixture(scope="module")
def wipe(machine: Machine) -> tuple[dict[str, str], ...]:
    drives = EMPTY_SERIALS[5:]
    foreign.sign(machine, dict(zip(drives, ("gpt", "LVM2_member", "linux_raid_member"), strict=True)))
    foreign.run(machine, f"mkfs.ext4 -q -L home {BY_ID}{drives[0]}-part1; udevadm settle")
    return consents(machine)


def data(machine: Machine) -> str:
    """Hash of what was stored, read from the disks, and who the array and its file system are."""
    machine.run("echo 3 | sudo tee /proc/sys/vm/drop_caches")
    tell = "sha256sum < /proving/data; findmnt -no UUID /proving; sudo mdadm --detail /dev/md/proving"
    return machine.run(tell + " | grep -e UUID -e Creat").stdout


def test_one_missing_consent_keeps_everything(play: Play, wipe: tuple[dict[str, str], ...]) -> None:
    for number, text in ((0, 'holds an ext4 filesystem "home" on'), (3, "is a member of array theirs")):
        lines = refused(play, volume(), wipe=(*wipe[:number], *wipe[number + 1 :]))
        reasons = [line for line in lines if line.startswith("nvme_raid0: ")]
        assert len(reasons) == 1, reasons
        assert text in reasons[0]


def test_consents_erase_once_and_are_void_afterwards(play: Play, machine: Machine, wipe: tuple[Any, ...]) -> None:
    others = {serial: value for serial, value in machine.drive_hashes().items() if serial not in EMPTY_SERIALS[5:]}
    assert actions(converge(play, wipe=wipe)) == [*["erase"] * 4, "create", "make", "record", "set"]
    machine.run("sudo sh -c 'head -c 50000000 /dev/urandom > /proving/data; sync'")
    before = data(machine)
    assert play(wipe=wipe) == Played({}, "")
    assert data(machine) == before
    machine.run("sudo sh -c 'systemctl stop proving.mount; mdadm --stop /dev/md/proving; udevadm settle'")
    assert actions(play(wipe=wipe)) == ["start"]
    assert data(machine) == before
    after = machine.drive_hashes()
    assert {serial: after[serial] for serial in others} == others


def test_a_drive_pulled_at_run_time_is_named(play: Play, machine: Machine) -> None:
    machine.unplug(EMPTY_SERIALS[7])
    machine.run("sudo udevadm settle")
    lines = refused(play, volume())
    assert any(line.startswith(disk(EMPTY_SERIALS[7]) + "is missing") for line in lines), lines


def test_an_exchanged_drive_is_refused_and_the_others_are_kept(
    play: Play, machine: Machine, wipe: tuple[Any, ...]
) -> None:
    machine.power_cut()
    machine.exchange(EMPTY_SERIALS[7], NEW)
    machine.start()
    lines = refused(play, volume(), wipe=wipe)
    assert any(line.startswith(disk(EMPTY_SERIALS[7]) + "is missing") for line in lines), lines
    lines = refused(play, volume(members=members(*EMPTY_SERIALS[5:7], NEW)), wipe=wipe)
    text = "array proving exists but differs: disk nvme-QEMU_NVMe_Ctrl_LLMHWNEW01: expected a member, found none"
    assert any(text in line for line in lines), lines


def test_the_refusal_names_the_new_drive_in_the_place_of_the_missing_one(play: Play) -> None:
    lines = refused(play, volume())
    text = "nvme_raid0: array proving (raid0 of 3 disks) lacks nvme-QEMU_NVMe_Ctrl_LLMHW0008; not in the plan: "
    assert lines[0].startswith(text)
    assert NEW in lines[0]
    steps = [line for line in lines if line.startswith("  ")]
    assert "everything on /proving is lost with it, the others cannot restore it" in steps[0]
    assert any("{host: HOST, serial: LLMHW0006, type: linux_raid_member, uuid: " in line for line in lines)


def test_wiped_members_of_a_recorded_array_are_refused(play: Play, machine: Machine) -> None:
    machine.run("sudo sh -c 'mdadm --stop --scan; udevadm settle'")
    foreign.clear(machine, *EMPTY_SERIALS[5:7])
    lines = refused(play, volume(members=members(*EMPTY_SERIALS[5:7], NEW)))
    assert any("mdadm.conf" in line and "blank" in line for line in lines), lines


def test_wiped_members_of_an_ephemeral_array_are_made_anew(play: Play, machine: Machine) -> None:
    wanted = volume(members=members(*EMPTY_SERIALS[5:7], NEW), ephemeral=True)
    assert actions(converge(play, wanted))[:2] == ["create", "make"]
    machine.run("findmnt /proving")
    assert machine.run("grep -c '^ARRAY /dev/md/proving ' /etc/mdadm/mdadm.conf").stdout == "1\n"

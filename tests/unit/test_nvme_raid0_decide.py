"""What the role nvme_raid0 decides for disks that are free: arrays are created, everything else is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.raid0_disks import (
    EXT4,
    NAMES,
    RAID,
    SINGLE,
    UUID,
    Consent,
    Signature,
    Superblock,
    Volume,
    array,
    ask,
    disk,
    full,
    member,
    messages,
    sentences,
)

# Creating


def test_blank_disks_become_an_array() -> None:
    decision = ask(disk(0), disk(1))
    assert sentences(decision) == [
        "create array /dev/md/scratch (raid0) over 2 empty disks: nvme-X_S0, nvme-X_S1",
        "make an XFS on /dev/md/scratch (stripe unit 512 KiB, width 1024 KiB)",
        "record array scratch by its UUID in /etc/mdadm/mdadm.conf",
        "set the read-ahead: /dev/md/scratch 4096 KiB",
    ]
    assert decision.steps[0].commands == (
        (
            "mdadm", "--create", "/dev/md/scratch", "--level=0", "--raid-devices=2", "--chunk=512", "--metadata=1.2",
            "--homehost=any", "--name=scratch", "--uuid=01234567:89abcdef:01234567:89abcdef",
            "--run", "/dev/nvme0n1", "/dev/nvme1n1",
        ),
    )  # fmt: skip
    format_command = ("mkfs.xfs", "-q", "-K", "-L", "scratch", "-d", "su=512k,sw=2", "/dev/md/scratch")
    assert decision.steps[1].commands == (format_command,)


def test_raid1_has_a_bitmap_and_no_chunk() -> None:
    (create,) = ask(disk(0), disk(1), volumes=(replace(RAID, level="raid1"),)).steps[0].commands
    assert "--level=1" in create
    assert "--bitmap=internal" in create
    assert not any(word.startswith("--chunk") for word in create)


def test_the_mark_of_a_killed_mdadm_is_removed_first() -> None:
    mark = "/run/mdadm/creating-md127"
    decision = full(creation_mark=mark)
    assert sentences(decision) == [
        "tell udev that array /dev/md127 is complete: the mdadm that made it was cut off",
    ]
    assert decision.steps[0].before == ((mark, None),)
    assert decision.steps[0].commands == (("udevadm", "trigger", "--action=change", "/dev/md127"),)
    assert sentences(full()) == []


def test_a_single_disk_needs_no_array() -> None:
    decision = ask(disk(2), volumes=(SINGLE,))
    assert sentences(decision)[0] == "make an XFS on /dev/disk/by-id/nvme-X_S2"
    assert decision.steps[0].commands == (("mkfs.xfs", "-q", "-K", "-L", "project", "/dev/nvme2n1"),)


def test_a_label_has_12_characters() -> None:
    (command,) = ask(disk(2), volumes=(replace(SINGLE, name="project-storage"),)).steps[0].commands
    assert command[4] == "project-stor"


# Refusing


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"device": None}, "is missing"),
        ({"serial": "S9"}, "reports another serial number: S9"),
        ({"serial": ""}, "reports no serial number, so it cannot be told apart"),
        ({"whole": False}, "is a part of a disk or is built on others, not a disk"),
        ({"read_only": True}, "is read-only"),
        ({"unreadable": "probing initialization failed"}, "cannot be examined: probing initialization failed"),
        ({"mounts": ("/data",), "exclusive": False}, "is mounted at /data"),
        ({"mounts": ("/",)}, "holds the root file system"),
        ({"mounts": ("/",), "signatures": (EXT4,)}, "holds the root file system"),  # no hint to consent
        ({"mounts": ("/boot/efi",)}, "holds the EFI system partition"),
        ({"swap": True}, "is in use as swap"),
        ({"holders": ("dm-0 (vg-data)",)}, "is in use by dm-0 (vg-data)"),
        ({"exclusive": False}, "is in use by another program"),
        ({"signatures": (EXT4,)}, f'holds an ext4 filesystem "customer" (uuid {EXT4.uuid})'),
        ({"partitions": ("/dev/nvme0n1p1",)}, "has 1 partition"),
        (
            {
                "partitions": ("/dev/nvme0n1p1",),
                "signatures": (Signature("/dev/nvme0n1", "gpt", "partition-table", "AB-12", ""),),
            },
            "has a partition table: gpt with 1 partition (uuid AB-12)",
        ),
        (
            {"signatures": (Signature("/dev/nvme0n1", "LVM2_member", "raid", "X7", ""),)},
            "holds an LVM2_member signature (uuid X7)",
        ),
    ],
)
@pytest.mark.parametrize("volume", [RAID, replace(SINGLE, members=RAID.members[:1])], ids=["raid0", "single"])
def test_a_disk_that_is_not_provably_empty_is_refused(changed: dict[str, object], message: str, volume: Volume) -> None:
    decision = ask(disk(0, **changed), disk(1), volumes=(volume,))
    assert messages(decision) == [f"disk nvme-X_S0 {message}"]


def test_every_reason_for_every_disk_at_once() -> None:
    decision = ask(
        disk(0, signatures=(EXT4,), mounts=("/data",)), disk(1, device=None), disk(2, swap=True), volumes=(RAID, SINGLE)
    )
    assert messages(decision) == [
        "disk nvme-X_S1 is missing",
        "disk nvme-X_S0 is mounted at /data",
        f'disk nvme-X_S0 holds an ext4 filesystem "customer" (uuid {EXT4.uuid})',
        "disk nvme-X_S2 is in use as swap",
    ]


def test_a_member_of_another_array_is_refused_by_name() -> None:
    block = Superblock(UUID, "host1:old", "raid5", 512, 4, 0)
    raid = Signature("/dev/nvme0n1", "linux_raid_member", "raid", "4d9148aa-8b69", "host1:old")
    assert messages(ask(disk(0, superblock=block, signatures=(raid,)), disk(1))) == [
        "disk nvme-X_S0 is a member of array old (linux_raid_member, raid5 of 4 disks, uuid 4d9148aa-8b69)"
    ]


def test_a_member_of_a_running_array_is_one_line() -> None:
    used = member(0, holders=("md127",), mounts=("/old",), exclusive=False)
    other = replace(RAID, name="other", members=(used.link, disk(1).link))
    (message,) = messages(ask(used, disk(1), volumes=(other,), arrays=(array(members=("/dev/nvme0n1",)),)))
    assert message.startswith("disk nvme-X_S0 is a member of array scratch (linux_raid_member, raid0 of 2 disks, ")
    assert "in use by md127, mounted at /old, uuid" in message


def test_a_consent_does_not_stop_a_running_array() -> None:
    used = member(0, holders=("md127",), exclusive=False)
    raid = used.signatures[0]
    other = replace(RAID, name="other", members=(used.link, disk(1).link))
    consent = Consent(used.link, "S0", raid.type, raid.uuid)
    assert messages(ask(used, disk(1), volumes=(other,), consents=(consent,))) == ["disk nvme-X_S0 is in use by md127"]


def test_unequal_disks_are_refused() -> None:
    (size, sector) = messages(ask(disk(0), disk(1, size=1_920_383_410_176, sector=4096)))
    assert "differ in size: nvme-X_S0 3.84 TB (3840755982336 bytes), nvme-X_S1 1.92 TB" in size
    assert "differ in sector size: nvme-X_S0 512 bytes, nvme-X_S1 4096 bytes" in sector


@pytest.mark.parametrize(
    ("volumes", "message"),
    [
        ((replace(RAID, members=RAID.members[:1]),), "volume scratch: raid0 needs at least 2 disks, not 1"),
        ((replace(SINGLE, members=RAID.members),), "volume project: single needs exactly 1 disk, not 2"),
        ((RAID, replace(SINGLE, members=RAID.members[:1])), "disk nvme-X_S0 is named twice"),
        ((RAID, replace(SINGLE, mount="/scratch")), "mount point /scratch is used by two volumes"),
        ((RAID, replace(SINGLE, name="scratch")), "name scratch is used by two volumes"),
        ((replace(SINGLE, name=".."),), f"volume '..': {NAMES}"),
        (
            (replace(RAID, name="my data"),),
            f"volume 'my data': {NAMES}",
        ),  # B063: unquoted, mdadm takes it for two words
        ((replace(RAID, name="x" * 28),), f"volume '{'x' * 28}': {NAMES}"),
        ((replace(RAID, name="a;reboot"),), f"volume 'a;reboot': {NAMES}"),
    ],
)
def test_wishes_that_make_no_sense(volumes: tuple[Volume, ...], message: str) -> None:
    assert message in messages(ask(disk(0), disk(1), disk(2), volumes=volumes))


def test_two_links_to_one_disk_are_refused() -> None:
    same = replace(disk(0), link="/dev/disk/by-id/nvme-Y_S0")
    volume = replace(RAID, members=(disk(0).link, same.link))
    assert messages(ask(disk(0), same, volumes=(volume,))) == [
        "disks nvme-X_S0 and nvme-Y_S0 are one and the same (/dev/nvme0n1)"
    ]


# Consents

CONSENT = Consent(disk(0).link, "S0", "ext4", EXT4.uuid)


def test_a_consent_erases_that_signature_first() -> None:
    decision = ask(disk(0, signatures=(EXT4,)), disk(1), consents=(CONSENT,))
    assert sentences(decision)[0].startswith(f"erase the ext4 signature (uuid {EXT4.uuid}) of disk nvme-X_S0")
    assert decision.steps[0].commands == (("wipefs", "--all", "--types", "ext4", "/dev/nvme0n1"),)
    assert sentences(decision)[1].startswith("create array")


@pytest.mark.parametrize(
    "void",
    [
        replace(CONSENT, device=disk(1).link, serial="S1"),
        replace(CONSENT, type="xfs"),
        replace(CONSENT, uuid="71e02c33-8b2c-4505-ae94-000000000000"),
        replace(CONSENT, uuid=""),
    ],
)
def test_a_consent_for_anything_else_is_void(void: Consent) -> None:
    assert len(messages(ask(disk(0, signatures=(EXT4,)), disk(1), consents=(void,)))) == 1


def test_a_consent_with_another_serial_number_says_so() -> None:
    decision = ask(disk(0, signatures=(EXT4,)), disk(1), consents=(replace(CONSENT, serial="S7"),))
    assert len(messages(decision)) == 2
    assert messages(decision)[0].endswith("names serial number S7, but it reports S0")


def test_a_consent_does_not_cover_use() -> None:
    decision = ask(disk(0, signatures=(EXT4,), mounts=("/data",)), disk(1), consents=(CONSENT,))
    assert messages(decision) == ["disk nvme-X_S0 is mounted at /data"]


def test_partitions_are_erased_before_their_table() -> None:
    table = Signature("/dev/nvme0n1", "gpt", "partition-table", "AB-12", "")
    inner = replace(EXT4, device="/dev/nvme0n1p1")
    holding = disk(0, partitions=("/dev/nvme0n1p1",), signatures=(table, inner))
    both = (CONSENT, Consent(holding.link, "S0", "gpt", "ab-12"))
    decision = ask(holding, disk(1), consents=both)
    assert [step.commands[0][-2:] for step in decision.steps[:2]] == [
        ("ext4", "/dev/nvme0n1p1"),
        ("gpt,PMBR", "/dev/nvme0n1"),
    ]
    assert len(messages(ask(holding, disk(1), consents=both[1:]))) == 1

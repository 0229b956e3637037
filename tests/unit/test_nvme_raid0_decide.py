"""What the role nvme_raid0 decides: refusals or steps, from described disks alone."""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "roles/nvme_raid0/module_utils"))

from nvme_raid0.decide import Decision, decide
from nvme_raid0.facts import Array, Consent, Disk, Filesystem, Health, Machine, Signature, Stranger, Superblock, Volume
from nvme_raid0.work import Failure, carry_out

CONF, RULE = "/etc/mdadm/mdadm.conf", "/etc/udev/rules.d/99.rules"
UUID = "4d9148aa8b6974a8f9e9459db24cb5ba"
NAMES = "a name starts with a letter or digit and has at most 27 of A-Z a-z 0-9 _ . -"
FRESH = "0123456789abcdef0123456789abcdef"
XFS = Filesystem("c83ac7bf-d73d-402f-a31b-1e8e5c7720f0", "scratch", 512, 1024)
XFS_SIGNATURE = Signature("/dev/md127", "xfs", "filesystem", XFS.uuid, "scratch")
EXT4 = Signature("/dev/nvme0n1", "ext4", "filesystem", "71e02c33-8b2c-4505-ae94-fa75e8d98628", "customer")
RAID = Volume("scratch", "raid0", tuple(f"/dev/disk/by-id/nvme-X_S{n}" for n in range(2)), 512, "/scratch", 4096)
SINGLE = Volume("project", "single", ("/dev/disk/by-id/nvme-X_S2",), 512, "/project", 128)


def disk(number: int, **changed: object) -> Disk:
    blank = Disk(
        link=f"/dev/disk/by-id/nvme-X_S{number}",
        device=f"/dev/nvme{number}n1",
        serial=f"S{number}",
        size=3_840_755_982_336,
        sector=512,
        read_ahead_kib=128,
        health=Health((), 3),
    )
    return replace(blank, **changed)  # type: ignore[arg-type]


def member(number: int, **changed: object) -> Disk:
    block = Superblock(UUID, "any:scratch", "raid0", 512, 2, number)
    raid = Signature(
        f"/dev/nvme{number}n1", "linux_raid_member", "raid", "4d9148aa-8b69-74a8-f9e9-459db24cb5ba", "any:scratch"
    )
    fields: dict[str, object] = {"superblock": block, "signatures": (raid,), **changed}
    return disk(number, **fields)


def array(**changed: object) -> Array:
    running = Array(
        device="/dev/md127",
        state="clean",
        level="raid0",
        chunk_kib=512,
        members=("/dev/nvme0n1", "/dev/nvme1n1"),
        uuid=UUID,
        name="scratch",
        links=("/dev/md/scratch",),
        signatures=(XFS_SIGNATURE,),
        filesystem=XFS,
        read_ahead_kib=4096,
    )
    return replace(running, **changed)  # type: ignore[arg-type]


LINE = "ARRAY /dev/md/scratch metadata=1.2 UUID=4d9148aa:8b6974a8:f9e9459d:b24cb5ba\n"


def ask(
    *disks: Disk,
    volumes: tuple[Volume, ...] = (RAID,),
    consents: tuple[Consent, ...] = (),
    arrays: tuple[Array, ...] = (),
    conf: str | None = None,
    rule: str | None = None,
    creating: bool = False,
    strangers: tuple[Stranger, ...] = (),
    state: str = "/var/lib/llmhw/nvme_raid0",
) -> Decision:
    machine = Machine(
        {d.link: d for d in disks},
        arrays,
        conf,
        rule,
        strangers=strangers,
        creating={v.name: UUID for v in volumes} if creating else {},
        fresh_uuid=FRESH,
    )
    return decide(volumes, consents, machine, mdadm_conf=CONF, rule=RULE, state=state, max_wear_percent=90)


def messages(decision: Decision) -> list[str]:
    assert not decision.steps
    return [refusal.message for refusal in decision.refusals]


def sentences(decision: Decision) -> list[str]:
    assert not decision.refusals
    return [step.sentence for step in decision.steps]


def full(**changed: object) -> Decision:
    """The volume as it is when nothing is left to do, with changes to the array."""
    there = array(**changed)
    rule = ask(member(0), member(1), arrays=(array(),)).steps[-1].files[0][1]
    return ask(member(0), member(1), arrays=(there,), conf=LINE, rule=rule)


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


# Adopting


def test_the_planned_array_is_used_as_it_is() -> None:
    decision = full()
    assert sentences(decision) == []
    assert decision.results[0].array_uuid == "4d9148aa:8b6974a8:f9e9459d:b24cb5ba"
    assert decision.results[0].filesystem == XFS


def test_members_in_another_order_are_the_same_array() -> None:
    decision = ask(member(0), member(1), volumes=(replace(RAID, members=RAID.members[::-1]),), arrays=(array(),))
    assert [sentence.split()[0] for sentence in sentences(decision)] == ["record", "set"]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"chunk_kib": 64}, "chunk: expected 512 KiB, found 64 KiB"),
        ({"level": "raid1"}, "level: expected raid0, found raid1"),
        ({"devices": 3}, "number of disks: expected 2, found 3"),
        ({"role": 1}, "places in the array: expected one for each disk, found [1, 1]"),
    ],
)
def test_an_array_that_differs_is_refused_with_expected_and_found(changed: dict[str, object], expected: str) -> None:
    block = replace(Superblock(UUID, "any:scratch", "raid0", 512, 2, 0), **changed)  # type: ignore[arg-type]
    decision = ask(member(0, superblock=block), member(1))
    assert any(message == f"array scratch exists but differs: {expected}" for message in messages(decision))


def test_an_incomplete_array_is_refused() -> None:
    found = messages(ask(member(0), disk(1)))
    assert "array scratch exists but differs: disk nvme-X_S1: expected a member, found none" in found


def test_an_incomplete_array_may_be_erased_by_consent() -> None:
    raid = member(0).signatures[0]
    decision = ask(member(0), disk(1), consents=(Consent(disk(0).link, "S0", raid.type, raid.uuid),))
    assert [sentence.split()[0] for sentence in sentences(decision)] == ["erase", "create", "make", "record", "set"]


def test_a_consent_never_erases_the_array_that_is_already_as_planned() -> None:
    consents = tuple(
        Consent(m.link, m.serial, m.signatures[0].type, m.signatures[0].uuid) for m in (member(0), member(1))
    )
    decision = ask(member(0), member(1), arrays=(array(),), consents=consents)
    assert [sentence.split()[0] for sentence in sentences(decision)] == ["record", "set"]


def test_the_name_is_taken_by_other_disks() -> None:
    other = array(members=("/dev/nvme8n1", "/dev/nvme9n1"), uuid="f" * 32)
    assert messages(ask(disk(0), disk(1), arrays=(other,))) == [
        "another array holds the name scratch: /dev/md127 of /dev/nvme8n1, /dev/nvme9n1"
    ]


def test_something_else_on_the_array_is_refused() -> None:
    held = replace(EXT4, device="/dev/md127")
    (message,) = messages(full(signatures=(held,), filesystem=None))
    assert message.startswith("array scratch holds something else: expected xfs, found ext4")


def test_an_array_mounted_elsewhere_is_refused() -> None:
    assert messages(full(mounts=("/old",))) == ["array scratch is mounted at /old; expected /scratch"]


def test_a_broken_array_is_refused() -> None:
    assert messages(full(state="broken")) == ["array scratch (/dev/md127) is broken: a disk has failed"]


def test_another_stripe_is_noted_not_changed() -> None:
    decision = full(filesystem=replace(XFS, unit_kib=0, width_kib=0))
    assert sentences(decision) == []
    assert "the file system's stripe is 0 KiB" in decision.notes[0]


def test_a_single_disk_with_our_label_is_used_as_it_is() -> None:
    xfs = Signature("/dev/nvme2n1", "xfs", "filesystem", XFS.uuid, "project")
    ours = disk(2, signatures=(xfs,), filesystem=replace(XFS, label="project"))
    assert [s.split()[0] for s in sentences(ask(ours, volumes=(SINGLE,)))] == ["set"]
    theirs = disk(2, signatures=(replace(xfs, label="home"),), filesystem=replace(XFS, label="home"))
    assert messages(ask(theirs, volumes=(SINGLE,)))[0].startswith('disk nvme-X_S2 holds an xfs filesystem "home"')


# Finishing what was interrupted


def test_array_without_file_system() -> None:
    assert sentences(full(signatures=(), filesystem=None))[0].startswith("make an XFS on /dev/md/scratch (")


def test_array_without_file_system_but_in_use_is_refused() -> None:
    assert messages(full(signatures=(), filesystem=None, exclusive=False)) == [
        "array scratch carries nothing known, yet it is in use"
    ]


def test_array_not_assembled() -> None:
    decision = ask(member(0, inner=XFS), member(1), conf=LINE)
    assert sentences(decision)[0] == "start the existing array /dev/md/scratch of 2 disks"
    assert decision.steps[0].commands == (
        (
            "mdadm", "--assemble", "/dev/md/scratch", "--uuid=4d9148aa:8b6974a8:f9e9459d:b24cb5ba",
            "/dev/nvme0n1", "/dev/nvme1n1",
        ),
    )  # fmt: skip
    assert [sentence.split()[0] for sentence in sentences(decision)] == ["start", "set"]


def test_array_not_assembled_and_empty() -> None:
    assert [s.split()[0] for s in sentences(ask(member(0), member(1)))] == ["start", "make", "record", "set"]


def test_array_inactive_is_stopped_and_started() -> None:
    decision = ask(member(0, inner=XFS), member(1), arrays=(array(state="inactive"),), conf=LINE)
    assert decision.steps[0].commands[0] == ("mdadm", "--stop", "/dev/md127")
    assert decision.steps[0].commands[1][:2] == ("mdadm", "--assemble")


def test_array_under_another_name() -> None:
    assert sentences(full(links=())) == ["give the running array /dev/md127 its name /dev/md/scratch"]
    mounted = full(links=(), mounts=("/scratch",), exclusive=False)
    assert sentences(mounted) == []
    assert mounted.notes == ("/dev/md/scratch is called /dev/md127 until the next start of the machine",)


def test_array_not_recorded() -> None:
    decision = ask(member(0), member(1), arrays=(array(),), conf="MAILADDR root\n")
    assert decision.steps[0].files == ((CONF, "MAILADDR root\n" + LINE),)


def test_a_creation_that_did_not_reach_every_disk_is_undone_and_made_again() -> None:
    decision = ask(member(0), disk(1), creating=True)
    assert [sentence.split()[0] for sentence in sentences(decision)] == ["undo", "create", "make", "record", "set"]
    assert decision.steps[0].commands == (("wipefs", "--all", "--types", "linux_raid_member", "/dev/nvme0n1"),)
    half = array(state="inactive", members=("/dev/nvme0n1",), links=(), signatures=(), filesystem=None)
    held = member(0, holders=("md127",), exclusive=False)
    found = sentences(ask(held, disk(1), arrays=(half,), creating=True))
    assert found[0] == "stop the unfinished array /dev/md127"
    assert [sentence.split()[0] for sentence in found[1:]] == ["undo", "create", "make", "record", "set"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (member(0, inner=XFS), disk(1)),
        (member(0, superblock=replace(Superblock(UUID, "any:scratch", "raid0", 512, 2, 0), uuid="e" * 32)), disk(1)),
    ],
    ids=["holds a file system", "another array"],
)
def test_a_member_that_is_not_of_the_unfinished_creation_is_never_undone(first: Disk, second: Disk) -> None:
    assert any("exists but differs" in message for message in messages(ask(first, second, creating=True)))


def test_what_else_lies_on_a_disk_of_an_unfinished_creation_is_refused() -> None:
    assert messages(ask(member(0), disk(1, signatures=(replace(EXT4, device="/dev/nvme1n1"),)), creating=True)) == [
        f'disk nvme-X_S1 holds an ext4 filesystem "customer" (uuid {EXT4.uuid})'
    ]


def test_a_creation_that_reached_every_disk_is_complete() -> None:
    decision = ask(member(0), member(1), arrays=(array(signatures=(), filesystem=None),), creating=True)
    assert sentences(decision)[0] == "note that array scratch is complete"
    assert decision.steps[0].files == (("/var/lib/llmhw/nvme_raid0/scratch", None),)
    assert sentences(decision)[1].startswith("make an XFS")


def test_a_mkfs_that_was_cut_off_is_done_again() -> None:
    cut = replace(XFS, unfinished=True)
    assert [sentence.split()[0] for sentence in sentences(full(filesystem=cut))[:2]] == ["erase", "make"]
    xfs = Signature("/dev/nvme2n1", "xfs", "filesystem", XFS.uuid, "project")
    single = disk(2, signatures=(xfs,), filesystem=replace(cut, label="project"))
    found = sentences(ask(single, volumes=(SINGLE,)))
    assert found[0] == "erase the xfs on /dev/disk/by-id/nvme-X_S2 whose making was cut off"
    assert found[1].startswith("make an XFS on")


# Wiped disks and lost drives


def test_a_recorded_array_whose_disks_are_blank_is_refused() -> None:
    (message,) = messages(ask(disk(0), disk(1), conf=LINE))
    assert message == (
        "/etc/mdadm/mdadm.conf records array scratch (uuid 4d9148aa:8b6974a8:f9e9459d:b24cb5ba), but its disks are "
        "blank: what it held is gone"
    )


def test_an_ephemeral_volume_is_made_again() -> None:
    decision = ask(disk(0), disk(1), conf=LINE, volumes=(replace(RAID, ephemeral=True),))
    assert sentences(decision)[0].startswith("create array")
    assert "made again, as the volume is ephemeral" in decision.notes[0]


def test_blank_disks_that_were_erased_by_consent_are_used() -> None:
    raid = member(0).signatures[0]
    consent = Consent(disk(0).link, "S0", raid.type, raid.uuid)
    assert sentences(ask(disk(0), disk(1), conf=LINE, consents=(consent,)))[0].startswith("create array")


def test_a_lost_drive_is_told_with_the_way_back() -> None:
    new = Stranger("/dev/disk/by-id/nvme-X_S9", 3_840_755_982_336)
    held = member(0, holders=("md127",), exclusive=False)
    decision = ask(held, disk(1, device=None), strangers=(new,))
    lacks, missing = messages(decision)
    assert lacks.startswith("array scratch (raid0 of 2 disks) lacks nvme-X_S1; not in the plan: nvme-X_S9 (3.84 TB); ")
    assert lacks.endswith("without it nothing on /scratch can be read")
    assert missing == "disk nvme-X_S1 is missing"
    steps = decision.refusals[0].steps
    assert steps[1] == "mdadm --stop /dev/md127"
    assert "{host: HOST, serial: S0, type: linux_raid_member, uuid: 4d9148aa-8b69-74a8-f9e9-459db24cb5ba}" in steps[2]
    mirror = member(0, superblock=Superblock(UUID, "any:scratch", "raid1", 0, 2, 0))
    (told, _) = ask(mirror, disk(1, device=None), volumes=(replace(RAID, level="raid1"),)).refusals
    assert "the other disk still has everything" in told.message
    assert "--add /dev/disk/by-id/NEW" in told.steps[0]


# Health


@pytest.mark.parametrize(
    ("health", "message"),
    [
        (
            Health(("the media has become read-only",), 3),
            "gives a SMART critical warning: the media has become read-only",
        ),
        (Health((), 91), "has used 91 % of its rated endurance; the limit is 90 %"),
    ],
)
def test_a_drive_that_is_not_fit_is_not_written_to_but_kept_in_use(health: Health, message: str) -> None:
    assert messages(ask(disk(0, health=health), disk(1))) == [f"disk nvme-X_S0 {message}"]
    used = ask(member(0, health=health), member(1), arrays=(array(),))
    assert used.notes == (f"disk nvme-X_S0 {message}",)
    assert not used.refusals


def test_a_drive_without_health_is_noted() -> None:
    assert "does not tell its health" in ask(disk(0, health=None), disk(1)).notes[0]


# ext4 and quotas

EXT = replace(RAID, filesystem="ext4", project_quota=True)


def test_ext4_with_stripe_and_project_quotas() -> None:
    (command,) = ask(disk(0), disk(1), volumes=(EXT,)).steps[1].commands
    assert command == (
        "mkfs.ext4", "-q", "-b", "4096", "-m", "0", "-L", "scratch", "-O", "quota,project",
        "-E", "nodiscard,stride=128,stripe_width=256,quotatype=prjquota", "/dev/md/scratch",
    )  # fmt: skip


def test_an_ext4_without_project_quotas_is_refused_where_they_are_wanted() -> None:
    plain = replace(XFS, type="ext4", project_quota=False)
    there = array(signatures=(replace(XFS_SIGNATURE, type="ext4"),), filesystem=plain)
    (message,) = messages(ask(member(0), member(1), volumes=(EXT,), arrays=(there,)))
    assert message == "volume scratch: the ext4 on /dev/md127 was made without project quotas"
    assert ask(member(0), member(1), volumes=(replace(EXT, project_quota=False),), arrays=(there,)).steps


# Carrying out


def test_only_the_first_step_of_each_look_is_carried_out(tmp_path: Path) -> None:
    looks = [ask(disk(0), disk(1), state=str(tmp_path)), full(signatures=(), filesystem=None), full()]
    ran: list[list[str]] = []

    def run(command: list[str]) -> tuple[int, str, str]:
        ran.append(command)
        return 0, "", ""

    outcome = carry_out(iter(looks).__next__, run, lambda _: None)
    assert [sentence.split()[0] for sentence in outcome.actions] == ["create", "make"]
    assert [command[0] for command in ran] == ["mdadm", "udevadm", "mkfs.xfs", "udevadm"]


def test_a_disk_that_changes_between_two_looks_stops_the_work() -> None:
    table = Signature("/dev/nvme0n1", "gpt", "partition-table", "AB-12", "")
    consent = Consent(disk(0).link, "S0", "gpt", "AB-12")
    looks = [
        ask(disk(0, signatures=(table,)), disk(1), consents=(consent,)),
        ask(disk(0, signatures=(EXT4,)), disk(1), consents=(consent,)),
    ]
    outcome = carry_out(iter(looks).__next__, lambda _: (0, "", ""), lambda _: None)
    assert len(outcome.actions) == 1
    assert messages(outcome.decision)[0].startswith("disk nvme-X_S0 holds an ext4")


def test_a_step_without_effect_or_with_an_error_is_a_failure(tmp_path: Path) -> None:
    look = partial(ask, disk(0), disk(1), state=str(tmp_path))
    with pytest.raises(Failure, match="no effect"):
        carry_out(look, lambda _: (0, "", ""), lambda _: None)
    with pytest.raises(Failure, match=r"mdadm failed \(exit status 1\): busy"):
        carry_out(look, lambda _: (1, "", "busy"), lambda _: None)

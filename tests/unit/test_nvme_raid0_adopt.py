"""What the role nvme_raid0 decides where arrays exist: adopted, finished, or refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.raid0_disks import (
    CONF,
    EXT4,
    LINE,
    RAID,
    SINGLE,
    UUID,
    XFS,
    Consent,
    Disk,
    Signature,
    Stranger,
    Superblock,
    array,
    ask,
    disk,
    full,
    member,
    messages,
    sentences,
)

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

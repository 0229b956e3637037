"""Health of drives, ext4, and how the role nvme_raid0 carries its decisions out."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.unit.raid0_disks import (
    EXT4,
    RAID,
    XFS,
    XFS_SIGNATURE,
    Consent,
    Failure,
    Health,
    Signature,
    array,
    ask,
    carry_out,
    disk,
    full,
    member,
    messages,
)

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

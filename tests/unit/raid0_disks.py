"""Disks and arrays described, and what the role nvme_raid0 decides about them: for the tests of its decisions."""

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "roles/nvme_raid0/module_utils"))

from nvme_raid0.decide import Decision, decide
from nvme_raid0.facts import Array, Consent, Disk, Filesystem, Health, Machine, Signature, Stranger, Superblock, Volume
from nvme_raid0.work import Failure, carry_out

__all__ = ["Failure", "carry_out"]

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

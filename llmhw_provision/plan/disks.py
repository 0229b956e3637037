"""Which disk is for what: system (never touched), project, scratch, or kept as it is."""

from __future__ import annotations

from dataclasses import dataclass

from llmhw_provision.errors import InputError, Problem
from llmhw_provision.machine import Array, Content, Disk, Machine
from llmhw_provision.plan.roles import Wipe
from llmhw_provision.site_storage import Consent, Scratch, Storage
from llmhw_provision.units import disk as disk_text


@dataclass(frozen=True)
class DiskChoice:
    """Disks by purpose, in by-id order; `kept` and `void` carry the reason in words."""

    system: tuple[Disk, ...]
    project: tuple[Disk, ...]
    scratch: tuple[Disk, ...]
    kept: tuple[tuple[Disk, str], ...]
    wipe: tuple[Wipe, ...]
    erases: tuple[str, ...]
    void: tuple[str, ...]
    adopted: Array | None


def choose_disks(host: str, machine: Machine, storage: Storage) -> DiskChoice:
    """The purpose of every disk of `host`; raises InputError with all reasons when a named disk cannot be used."""
    consents = tuple(consent for consent in storage.wipe if consent.host == host)
    problems: list[Problem] = []
    project = _named(host, machine, storage.project.disks, "project", consents, problems)
    adopted = _adopted(host, machine, storage.scratch, problems)
    others: dict[str, str] = {}
    if adopted is not None:
        scratch = _members(machine, adopted)
    elif storage.scratch.disks is not None:
        scratch = _named(host, machine, storage.scratch.disks, "scratch", consents, problems)
    else:
        scratch, others = _largest_equal_group(machine, consents, taken=project)
    if problems:
        raise InputError.of(problems)
    used = {disk.serial for disk in (*project, *scratch)}
    kept = tuple(
        (disk, others.get(disk.serial, "") or _why_kept(disk, consents, adopted))
        for disk in machine.disks
        if not disk.system and disk.serial not in used
    )
    wipe, erases, void = _consents(machine, consents, used)
    system = tuple(disk for disk in machine.disks if disk.system)
    return DiskChoice(system, project, scratch, kept, wipe, erases, void, adopted)


def describe(content: Content) -> str:
    """One thing found on a disk, in words."""
    label = f" {content.label!r}" if content.label else ""
    uuid = f" (uuid {content.uuid})" if content.uuid else ""
    mounts = f", mounted at {', '.join(content.mounts)}" if content.mounts else ""
    holders = f", in use by {', '.join(content.holders)}" if content.holders else ""
    return f"{content.type} {content.kind.replace('-', ' ')}{label}{uuid} on {content.where}{mounts}{holders}"


def _adopted(host: str, machine: Machine, scratch: Scratch, problems: list[Problem]) -> Array | None:
    """The array that already carries the planned name; a part of one is a problem, never a reason to make another."""
    array = next((array for array in machine.arrays if array.name == scratch.name), None)
    known = {disk.serial for disk in machine.disks}
    if array is not None:
        missing = array.raid_devices - len([serial for serial in array.members if serial in known])
        if missing > 0:
            problems.append(
                Problem(
                    f"{host}: array {scratch.name!r} lacks {missing} of {array.raid_devices} members"
                    f" (present: {', '.join(array.members) or 'none'})",
                    "a RAID0 array cannot be rebuilt: see the runbook storage-replace-drive",
                )
            )
        return array
    parts = [disk for disk in machine.disks if any(_part_of(content, scratch.name) for content in disk.contents)]
    if parts:
        problems.append(
            Problem(
                f"{host}: {len(parts)} disks are members of an array {scratch.name!r} that is not running"
                f" (serials {', '.join(disk.serial for disk in parts)})",
                "a member is missing or was replaced: see the runbook storage-replace-drive",
            )
        )
    return None


def _part_of(content: Content, name: str) -> bool:
    return content.kind == "raid-member" and content.label.rpartition(":")[2] == name


def _members(machine: Machine, array: Array) -> tuple[Disk, ...]:
    by_serial = {disk.serial: disk for disk in machine.disks}
    return tuple(by_serial[serial] for serial in array.members if serial in by_serial)


def _named(
    host: str,
    machine: Machine,
    serials: tuple[str, ...],
    purpose: str,
    consents: tuple[Consent, ...],
    problems: list[Problem],
) -> tuple[Disk, ...]:
    """The disks that site.yaml names; each that cannot be used adds a problem."""
    by_serial = {disk.serial: disk for disk in machine.disks}
    found = []
    for serial in serials:
        disk = by_serial.get(serial)
        where = f"{host}: storage.{purpose}.disks: {serial}"
        if disk is None:
            problems.append(Problem(f"{where} is not on this machine", f"its disks: {', '.join(sorted(by_serial))}"))
            continue
        if disk.system:
            problems.append(Problem(f"{where} carries the operating system", "name another disk"))
        elif not disk.by_id:
            problems.append(
                Problem(f"{where} has no name under /dev/disk/by-id", "without one it cannot be told apart")
            )
        elif blocking := _not_consented(disk, consents):
            problems.append(
                Problem(
                    f"{where} holds {'; '.join(map(describe, blocking))}",
                    "if it may be erased, name it under storage.wipe in site.yaml and run plan again",
                )
            )
        found.append(disk)
    return tuple(found)


def _not_consented(disk: Disk, consents: tuple[Consent, ...]) -> tuple[Content, ...]:
    given = {(consent.type, consent.uuid) for consent in consents if consent.serial == disk.serial}
    return tuple(content for content in disk.contents if (content.type, content.uuid) not in given)


def _largest_equal_group(
    machine: Machine, consents: tuple[Consent, ...], *, taken: tuple[Disk, ...]
) -> tuple[tuple[Disk, ...], dict[str, str]]:
    """The empty NVMe drives of one size and sector size that hold most together, and why others are left out."""
    groups: dict[tuple[int, int], list[Disk]] = {}
    for disk in machine.disks:
        if disk in taken or disk.system or not disk.by_id or disk.transport != "nvme" or disk.removable:
            continue
        if not _not_consented(disk, consents):
            groups.setdefault((disk.size_bytes, disk.logical_sector), []).append(disk)
    if not groups:
        return (), {}
    best = max(groups, key=lambda key: (key[0] * len(groups[key]), key))
    reasons = {
        disk.serial: f"empty, but {disk_text(size)} with {sector} B sectors; the {len(groups[best])} drives of the"
        f" array have {disk_text(best[0])} with {best[1]} B"
        for (size, sector), disks in groups.items()
        if (size, sector) != best
        for disk in disks
    }
    return tuple(sorted(groups[best], key=lambda disk: disk.by_id)), reasons


def _why_kept(disk: Disk, consents: tuple[Consent, ...], adopted: Array | None) -> str:
    blocking = _not_consented(disk, consents)
    if blocking:
        return f"holds {'; '.join(map(describe, blocking))}"
    if adopted is not None:
        return f"not a member of the array {adopted.name!r} that is in use"
    if not disk.by_id:
        return "has no name under /dev/disk/by-id"
    return f"not chosen ({disk.transport}{', removable' if disk.removable else ''})"


def _consents(
    machine: Machine, consents: tuple[Consent, ...], used: set[str]
) -> tuple[tuple[Wipe, ...], tuple[str, ...], tuple[str, ...]]:
    """Consents that apply to a chosen disk, what they erase in words, and those that are void."""
    by_serial = {disk.serial: disk for disk in machine.disks}
    wipe, erases, void = [], [], []
    for consent in consents:
        disk = by_serial.get(consent.serial)
        contents = disk.contents if disk else ()
        match = next((item for item in contents if (item.type, item.uuid) == (consent.type, consent.uuid)), None)
        if disk is None or match is None or disk.serial not in used:
            void.append(f"{consent.serial}: {consent.type} {consent.uuid} is not there (any more) on a chosen disk")
            continue
        wipe.append(Wipe(device=disk.by_id, serial=disk.serial, type=consent.type, uuid=consent.uuid))
        erases.append(f"{disk.model} {disk.serial} ({disk_text(disk.size_bytes)}): {describe(match)}")
    return tuple(wipe), tuple(erases), tuple(void)

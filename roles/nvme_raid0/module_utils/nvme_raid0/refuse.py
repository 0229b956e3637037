"""Why disks may not be written to: every reason for every disk, in words. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .facts import Consent, Disk, Machine, Signature, Volume
from .formats import array_name, disk_size, names_disk, plain_uuid

CONSENT_HINT = "If it may be erased, name it under storage.wipe in site.yaml and run plan again"
_SYSTEM = {
    "/": "the root file system",
    "/boot": "the boot file system",
    "/boot/efi": "the EFI system partition",
    "/efi": "the EFI system partition",
    "/usr": "the system's /usr",
    "/var": "the system's /var",
}
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,26}\Z")  # "any:" and the name fill the superblock's 32 bytes
_LIMITS = {"raid0": (2, 384), "raid1": (2, 384), "single": (1, 1)}


class Refusal(NamedTuple):
    """One reason not to write, and what a person can do about it: in a sentence, or in steps."""

    message: str
    hint: str = ""
    steps: tuple[str, ...] = ()


def short(link: str) -> str:
    """The name of a disk without its folder."""
    return link.rsplit("/", 1)[-1]


def request(volumes: Sequence[Volume], machine: Machine) -> list[Refusal]:
    """What is wrong with the wish itself, before looking at what the disks hold."""
    found: list[Refusal] = []
    for what, values in (("name", [v.name for v in volumes]), ("mount point", [v.mount for v in volumes])):
        found += [Refusal(f"{what} {value} is used by two volumes") for value in _twice(values)]
    for volume in volumes:
        least, most = _LIMITS[volume.level]
        if not least <= len(volume.members) <= most:
            wanted = "exactly 1 disk" if most == 1 else "at least %d disks" % least
            text = "volume %s: %s needs %s, not %d" % (volume.name, volume.level, wanted, len(volume.members))
            found.append(Refusal(text))
        if not _NAME.match(volume.name):
            text = (
                f"volume {volume.name!r}: a name starts with a letter or digit and has at most 27 of A-Z a-z 0-9 _ . -"
            )
            found.append(Refusal(text))
    members = [link for volume in volumes for link in volume.members]
    found += [Refusal(f"disk {short(link)} is named twice") for link in _twice(members)]
    devices: dict[str, list[str]] = {}
    for link in dict.fromkeys(members):
        device = machine.disks[link].device
        if device:
            devices.setdefault(device, []).append(short(link))
    for device, links in devices.items():
        if len(links) > 1:
            found.append(Refusal("disks {} are one and the same ({})".format(" and ".join(links), device)))
    return found


def _twice(values: Iterable[str]) -> list[str]:
    known = list(values)
    return [value for value in dict.fromkeys(known) if known.count(value) > 1]


def identity(disk: Disk) -> list[Refusal]:
    """Whether the link leads to the disk that its name promises."""
    name = short(disk.link)
    if disk.device is None:
        return [Refusal(f"disk {name} is missing", "check that it is plugged in: ls -l /dev/disk/by-id")]
    found = []
    if not disk.whole:
        found.append(Refusal(f"disk {name} is a part of a disk or is built on others, not a disk"))
    elif not disk.serial:
        found.append(Refusal(f"disk {name} reports no serial number, so it cannot be told apart"))
    elif not names_disk(disk.link, serial=disk.serial, wwid=disk.wwid):
        found.append(Refusal(f"disk {name} reports another serial number: {disk.serial}"))
    return found


def writing(disk: Disk, consents: Sequence[Consent]) -> list[Refusal]:
    """Every reason not to write to an identified disk; a valid consent removes the one signature it names."""
    name = short(disk.link)
    found: list[Refusal] = []
    if disk.read_only:
        found.append(Refusal(f"disk {name} is read-only"))
    if disk.unreadable:
        found.append(Refusal(f"disk {name} cannot be examined: {disk.unreadable}"))
    system = [Refusal(f"disk {name} holds {_SYSTEM[point]}") for point in disk.mounts if point in _SYSTEM]
    if system:  # what else it holds would only bring up the hint to consent
        return found + system
    array = [s for s in disk.signatures if s.type == "linux_raid_member" and not _agreed(s, disk, consents)]
    if not array or array[0].device != disk.device:  # else the line about the array says it all
        found += _uses(disk)
    for consent in consents:
        if consent.device == disk.link and consent.serial != disk.serial:
            text = "the consent to erase disk %s names serial number %s, but it reports %s"
            found.append(Refusal(text % (name, consent.serial, disk.serial), "correct storage.wipe in site.yaml"))
    for signature in disk.signatures:
        if not _agreed(signature, disk, consents):
            found.append(Refusal(f"disk {name} {_holds(signature, disk)}", CONSENT_HINT))
    if disk.partitions and not any(s.usage == "partition-table" and s.device == disk.device for s in disk.signatures):
        found.append(Refusal(f"disk {name} has {_count(disk)}"))
    if not disk.exclusive and not (disk.mounts or disk.swap or disk.holders):
        found.append(Refusal(f"disk {name} is in use by another program"))
    return found


def unhealthy(disk: Disk, max_wear_percent: int) -> list[Refusal]:
    """Why a disk is not fit to be given new data."""
    name, health = short(disk.link), disk.health
    if health is None:
        return []
    found = [
        Refusal(f"disk {name} gives a SMART critical warning: {text}", "have the drive replaced before it is used")
        for text in health.warnings
    ]
    if health.used_percent > max_wear_percent:
        text = "disk %s has used %d %% of its rated endurance; the limit is %d %%"
        hint = "have it replaced, or raise storage.max_wear_percent in site.yaml"
        found.append(Refusal(text % (name, health.used_percent, max_wear_percent), hint))
    return found


def ailing(disks: Iterable[Disk], max_wear_percent: int) -> list[str]:
    """The same about disks that are in use already: told, never a reason to leave their data alone."""
    return [refusal.message for disk in disks for refusal in unhealthy(disk, max_wear_percent)]


def _uses(disk: Disk) -> list[Refusal]:
    name = short(disk.link)
    found = [
        Refusal(f"disk {name} is mounted at {point}", "unmount it if it is no longer in use")
        for point in disk.mounts
        if point not in _SYSTEM
    ]
    if disk.swap:
        found.append(Refusal(f"disk {name} is in use as swap", "end that with swapoff if it is no longer in use"))
    for holder in disk.holders:
        hint = "stop what uses it if it is no longer in use (mdadm --stop, vgchange -an, cryptsetup close)"
        found.append(Refusal(f"disk {name} is in use by {holder}", hint))
    return found


def alike(volume: Volume, disks: Sequence[Disk]) -> list[Refusal]:
    """Whether the disks of an array have one size: unequal ones make a RAID0 of zones that kernels may refuse."""
    found = []
    for what, values in (
        ("size", {short(d.link): disk_size(d.size) + " (%d bytes)" % d.size for d in disks}),
        ("sector size", {short(d.link): "%d bytes" % d.sector for d in disks}),
    ):
        if len(set(values.values())) > 1:
            listed = ", ".join("{} {}".format(*item) for item in values.items())
            found.append(Refusal(f"volume {volume.name}: its disks differ in {what}: {listed}"))
    return found


def erasures(disks: Sequence[Disk], consents: Sequence[Consent]) -> list[tuple[Disk, Signature]]:
    """The signatures that consents allow to erase, those on partitions before the table that makes them."""
    agreed = [(d, s) for d in disks for s in d.signatures if _agreed(s, d, consents)]
    return sorted(agreed, key=lambda pair: pair[1].device == pair[0].device)


def _agreed(signature: Signature, disk: Disk, consents: Sequence[Consent]) -> bool:
    return any(
        consent.device == disk.link
        and consent.serial == disk.serial
        and consent.type == signature.type
        and plain_uuid(consent.uuid) == plain_uuid(signature.uuid)
        for consent in consents
    )


def _count(disk: Disk) -> str:
    number = len(disk.partitions)
    return "1 partition" if number == 1 else f"{number} partitions"


def _holds(signature: Signature, disk: Disk) -> str:
    """`holds an ext4 filesystem "home" (uuid ...)`."""
    kind = signature.type
    label = f' "{signature.label}"' if signature.label else ""
    uuid = f" (uuid {signature.uuid})" if signature.uuid else " (no uuid)"
    where = f" on {signature.device}" if signature.device != disk.device else ""
    if kind == "linux_raid_member":
        block = disk.superblock
        size = ", %s of %d disks" % (block.level, block.devices) if block and not where else ""
        name = array_name(signature.label) or "without a name"
        use = [f"in use by {holder}" for holder in disk.holders] + [f"mounted at {point}" for point in disk.mounts]
        use += ["in use as swap"] if disk.swap else []
        used = "".join(f", {text}" for text in use) if not where else ""
        return f"is a member of array {name}{where} (linux_raid_member{size}{used}, uuid {signature.uuid})"
    if signature.usage == "partition-table":
        return "has a partition table%s: %s with %s%s" % (where, kind, _count(disk), uuid)
    article = "an" if kind[:1].lower() in "aeio" or kind[:3].lower() in ("xfs", "lvm") else "a"
    noun = "filesystem" if signature.usage == "filesystem" else "signature"
    return f"holds {article} {kind} {noun}{label}{where}{uuid}"

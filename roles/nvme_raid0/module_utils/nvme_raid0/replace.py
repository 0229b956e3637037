"""What to do when a drive of an array is gone: what is lost, and the way back, in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from .facts import Disk, Machine, Volume
from .formats import array_name, disk_size, mdadm_uuid
from .refuse import Refusal, short

RUNBOOK = "docs/runbooks/storage-replace-drive.md"


def lost_drives(volume: Volume, disks: Sequence[Disk], machine: Machine) -> list[Refusal]:
    """Why an existing array cannot be used without the disks that are missing; nothing if there is no such array."""
    missing = [disk for disk in disks if disk.device is None]
    members = [disk for disk in disks if disk.superblock and array_name(disk.superblock.name) == volume.name]
    if not missing or not members:
        return []
    names = ", ".join(short(disk.link) for disk in missing)
    new = ", ".join(f"{short(other.link)} ({disk_size(other.size)})" for other in machine.strangers)
    message = "array {} ({} of {} disks) lacks {}; {}{}".format(
        volume.name,
        volume.level,
        len(disks),
        names,
        f"not in the plan: {new}; " if new else "",
        _lost(volume),
    )
    hint = "put the missing disk back in its slot and run apply again: that brings everything back"
    return [Refusal(message, hint, tuple(_way_back(volume, members)))]


def _lost(volume: Volume) -> str:
    if volume.level == "raid0":
        return f"without it nothing on {volume.mount} can be read"
    return f"the other disk still has everything on {volume.mount}"


def _way_back(volume: Volume, members: Sequence[Disk]) -> list[str]:
    if volume.level != "raid0":
        return [
            f"mdadm /dev/md/{volume.name} --add /dev/disk/by-id/NEW, and wait until /proc/mdstat shows no recovery",
            "name the new serial number in site.yaml (storage.project.disks)",
            "llmhw-provision discover, plan, verify",
        ]
    stop = next((holder.split()[0] for disk in members for holder in disk.holders), "")
    first = f"make sure that it is dead: everything on {volume.mount} is lost with it, the others cannot restore it"
    consents = [
        "     - {host: HOST, serial: %s, type: linux_raid_member, uuid: %s}" % (disk.serial, _signature_uuid(disk))
        for disk in members
    ]
    return [
        first,
        *([f"mdadm --stop /dev/{stop}"] if stop else []),
        "allow the remains of the old array to be erased, in site.yaml under storage.wipe:\n" + "\n".join(consents),
        "llmhw-provision discover, plan (read what it erases), apply, verify; then bring the data back from its copy",
    ]


def _signature_uuid(disk: Disk) -> str:
    found = [s.uuid for s in disk.signatures if s.type == "linux_raid_member"]
    return found[0] if found else mdadm_uuid(disk.superblock.uuid) if disk.superblock else ""

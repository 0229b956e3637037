"""What is left to do for one array: create it, finish its creation, or use it as it is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from . import refuse, steps
from .conf import array_uuid, with_array
from .facts import Array, Disk, Filesystem, Machine, Superblock, Volume
from .formats import array_name, mdadm_uuid, plain_uuid
from .plan import Plan, Result
from .refuse import Refusal, short


def decide_array(plan: Plan, volume: Volume, disks: Sequence[Disk]) -> None:
    """Adds to `plan` what this array needs."""
    begun = plan.machine.creating.get(volume.name, "")
    if begun:
        disks = _undo_unfinished(plan, disks, begun)
    named = [disk for disk in disks if disk.superblock and array_name(disk.superblock.name) == volume.name]
    differences = _differences(volume, disks, plan.machine) if named else []
    blocks = [disk.superblock for disk in named if disk.superblock]
    if named and not differences:
        _existing(plan, volume, disks, blocks[0])
        return
    erased = {disk.link for disk, sign in refuse.erasures(disks, plan.consents) if sign.type == "linux_raid_member"}
    if differences and not all(disk.link in erased for disk in named):
        text = "array {} exists but differs: {}".format(volume.name, "; ".join(differences))
        hint = "change the volume in site.yaml, or consent under storage.wipe to erase it"
        plan.refusals.append(Refusal(text, hint))
    _create(plan, volume, disks)


def _create(plan: Plan, volume: Volume, disks: Sequence[Disk]) -> None:
    plan.refusals += _name_taken(volume, disks, plan.machine)
    plan.refusals += _recorded_but_blank(plan, volume, disks)
    plan.write_to(disks)
    plan.refusals += refuse.alike(volume, disks)
    plan.steps.append(steps.create(volume, disks, plan.machine.fresh_uuid, begun=plan.begun(volume)))
    plan.steps.append(steps.make_filesystem(volume, volume.link))
    plan.steps.append(steps.record(volume, plan.mdadm_conf, ""))
    plan.devices[volume.name] = (volume.link, None)
    plan.results.append(Result(volume, None, None, all(disk.trim for disk in disks)))


def _undo_unfinished(plan: Plan, disks: Sequence[Disk], begun: str) -> list[Disk]:
    """The disks as they are once members of a creation that was cut off are blank again.

    Only when mdadm did not get to every member: a complete array is used, and the file that tells of the creation
    goes away before a file system is made, so that no member undone here has ever held anything.
    """
    mine = [disk for disk in disks if disk.superblock and disk.superblock.uuid == begun]
    array = next((array for array in plan.machine.arrays if array.uuid == begun), None)
    if not mine or len(mine) == len(disks) or (array and array.running) or any(disk.inner for disk in mine):
        return list(disks)
    if array:
        plan.steps.append(steps.stop(array))
    result = []
    for disk in disks:
        own = [s for s in disk.signatures if s.type == "linux_raid_member" and plain_uuid(s.uuid) == begun]
        if disk in mine and own:
            plan.steps += [steps.undo(disk, signature) for signature in own]
            others = tuple(s for s in disk.signatures if s not in own)
            held = () if array else disk.holders
            disk = replace(disk, superblock=None, signatures=others, holders=held, exclusive=disk.exclusive or not held)
        result.append(disk)
    return result


def _name_taken(volume: Volume, disks: Sequence[Disk], machine: Machine) -> list[Refusal]:
    found = []
    for other in machine.arrays:
        stranger = other.name == volume.name and not {d.device for d in disks} & set(other.members)
        if stranger or (volume.link in other.links and other.name != volume.name):
            members = ", ".join(other.members)
            text = f"another array holds the name {volume.name}: {other.device} of {members}"
            found.append(Refusal(text, "give the volume another name in site.yaml"))
    return found


def _recorded_but_blank(plan: Plan, volume: Volume, disks: Sequence[Disk]) -> list[Refusal]:
    """mdadm.conf knows an array of this name, yet no disk carries it: somebody or something has wiped the disks."""
    uuid = array_uuid(plan.conf, volume.name)
    if not uuid or any(array.uuid == uuid for array in plan.machine.arrays):
        return []
    if uuid == plan.machine.creating.get(volume.name):
        return []
    consented = any(c.type == "linux_raid_member" and plain_uuid(c.uuid) == uuid for c in plan.consents)
    if consented or any(disk.superblock for disk in disks):
        return []
    text = f"{plan.mdadm_conf} records array {volume.name} (uuid {mdadm_uuid(uuid)}), but its disks are blank"
    if volume.ephemeral:
        plan.notes.append(text + ": made again, as the volume is ephemeral; what it held is gone")
        return []
    hint = "find out who wiped them; if the content is not missed, delete that ARRAY line, or let site.yaml say"
    return [Refusal(text + ": what it held is gone", hint + " storage.scratch.ephemeral: true")]


def _differences(volume: Volume, disks: Sequence[Disk], machine: Machine) -> list[str]:
    """How the array that already has this name differs from the plan: what, expected, found."""
    blocks = [(disk, disk.superblock) for disk in disks]
    first = next(b for _, b in blocks if b and array_name(b.name) == volume.name)
    found = []
    if first.level != volume.level:
        found.append(f"level: expected {volume.level}, found {first.level}")
    if first.devices != len(disks):
        found.append("number of disks: expected %d, found %d" % (len(disks), first.devices))
    if volume.level == "raid0" and first.chunk_kib != volume.chunk_kib:
        found.append("chunk: expected %d KiB, found %d KiB" % (volume.chunk_kib, first.chunk_kib))
    for disk, block in blocks:
        if block is None or block.uuid != first.uuid:
            other = f"a member of {array_name(block.name)} (uuid {mdadm_uuid(block.uuid)})" if block else "none"
            found.append(f"disk {short(disk.link)}: expected a member, found {other}")
    roles = [block.role for _, block in blocks if block and block.uuid == first.uuid]
    if len(set(roles)) < len(roles) or None in roles:
        found.append(f"places in the array: expected one for each disk, found {roles}")
    planned = {disk.device for disk in disks}
    for array in machine.arrays:
        strangers = sorted(set(array.members) - planned) if array.uuid == first.uuid else []
        if strangers:
            found.append("further members: expected none, found {}".format(", ".join(strangers)))
    return found


def _existing(plan: Plan, volume: Volume, disks: Sequence[Disk], block: Superblock) -> None:
    """The array is the planned one; brings it up if need be and gives it a file system if it has nothing."""
    array = next((array for array in plan.machine.arrays if array.uuid == block.uuid), None)
    if volume.name in plan.machine.creating:
        plan.steps.append(steps.created(volume, begun=plan.begun(volume)))
    plan.notes += refuse.ailing(disks, plan.max_wear_percent)
    if array and array.running:
        filesystem = array.filesystem
        _running(plan, volume, array)
    else:
        if not array:
            plan.refusals += [
                Refusal(f"disk {short(disk.link)} of array {volume.name} is in use by another program")
                for disk in disks
                if not disk.exclusive
            ]
        plan.steps.append(steps.assemble(volume, disks, block.uuid, inactive=array))
        filesystem = next((disk.inner for disk in disks if disk.superblock and disk.superblock.role == 0), None)
        if not filesystem:  # what else it may hold shows once it runs: then it is refused
            plan.steps.append(steps.make_filesystem(volume, volume.link))
    where = array.device if array and array.running else volume.link
    plan.devices[volume.name] = (where, array.read_ahead_kib if array and array.running else None)
    kept = filesystem if filesystem and not filesystem.unfinished else None
    plan.results.append(Result(volume, mdadm_uuid(block.uuid), kept, all(disk.trim for disk in disks)))
    wanted = with_array(plan.conf, name=volume.name, uuid=block.uuid)
    if wanted != plan.conf:
        plan.steps.append(steps.record(volume, plan.mdadm_conf, wanted))
    plan.conf = wanted


def _running(plan: Plan, volume: Volume, array: Array) -> None:
    if array.state == "broken":
        text = f"array {volume.name} ({array.device}) is broken: a disk has failed"
        plan.refusals.append(Refusal(text, "llmhw-provision verify names the disk and what is lost"))
    plan.refusals += elsewhere(volume, "array " + volume.name, array.mounts)
    if array.creation_mark:
        plan.steps.append(steps.unmark(array))
    kinds = [signature.type for signature in array.signatures]
    if volume.link not in array.links:
        if array.exclusive and not array.holders and not array.mounts:
            plan.steps.append(steps.rename(volume, array))
        else:
            plan.notes.append(f"{volume.link} is called {array.device} until the next start of the machine")
    if not kinds and array.exclusive and not array.holders:
        plan.steps.append(steps.make_filesystem(volume, array.device))
    elif not kinds:
        plan.refusals.append(Refusal(f"array {volume.name} carries nothing known, yet it is in use"))
    elif kinds != [volume.filesystem] or not array.filesystem:
        held = ", ".join(f'{s.type} "{s.label}" (uuid {s.uuid})' for s in array.signatures)
        text = f"array {volume.name} holds something else: expected {volume.filesystem}, found {held}"
        plan.refusals.append(Refusal(text, "move the data away and erase it by hand: wipefs --all " + array.device))
    elif array.filesystem.unfinished and not array.mounts and array.exclusive:
        plan.steps.append(steps.erase_unfinished(volume, array.device))
        plan.steps.append(steps.make_filesystem(volume, array.device))
    else:
        plan.refusals += without_quota(volume, array.device, array.filesystem)
        plan.notes += _misaligned(volume, array.filesystem)


def _misaligned(volume: Volume, found: Filesystem) -> list[str]:
    if volume.level != "raid0":
        return []
    unit, width = volume.chunk_kib, volume.chunk_kib * len(volume.members)
    text = "%s: the file system's stripe is %d KiB, its width %d KiB; the array has %d and %d"
    there = (found.unit_kib, found.width_kib)
    return [text % (volume.link, *there, unit, width)] if there != (unit, width) else []


def without_quota(volume: Volume, device: str, found: Filesystem) -> list[Refusal]:
    """An ext4 takes project quotas only if it was made for them; XFS always does."""
    if not volume.project_quota or found.project_quota:
        return []
    text = f"volume {volume.name}: the ext4 on {device} was made without project quotas"
    return [Refusal(text, f"unmount it, then: tune2fs -O project,quota -Q prjquota {device}")]


def elsewhere(volume: Volume, what: str, mounts: Sequence[str]) -> list[Refusal]:
    """Mounted, but not where the plan wants it."""
    wrong = [point for point in mounts if point != volume.mount]
    text = "{} is mounted at {}; expected {}".format(what, ", ".join(wrong), volume.mount)
    return [Refusal(text, "unmount it there, or change the mount point in site.yaml")] if wrong else []

"""From what is wanted and what is there: refusals, or the steps that are left. Pure; the heart of the disk safety.

Every step follows from the state, so an interrupted run is finished by the next. Steps are in order, and the first
one is always complete: later ones may rest on a UUID that only an earlier step brings forth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from . import refuse
from .conf import read_ahead_rule, with_array
from .facts import Array, Consent, Disk, Filesystem, Machine, Superblock, Volume
from .formats import array_name, mdadm_uuid
from .refuse import Refusal, short


class Step(NamedTuple):
    """One change: what a person reads, the commands to run, the files (path, text) to write."""

    sentence: str
    commands: tuple[tuple[str, ...], ...] = ()
    files: tuple[tuple[str, str], ...] = ()


class Result(NamedTuple):
    """What a volume is once all steps are done; None is what only the doing will tell."""

    volume: Volume
    array_uuid: str | None
    filesystem: Filesystem | None


class Decision(NamedTuple):
    """`steps` is empty whenever `refusals` is not."""

    refusals: tuple[Refusal, ...]
    steps: tuple[Step, ...]
    results: tuple[Result, ...]
    notes: tuple[str, ...]


class _Plan:
    """Collects what is said about the volumes, one after the other."""

    def __init__(self) -> None:
        self.refusals: list[Refusal] = []
        self.steps: list[Step] = []
        self.results: list[Result] = []
        self.notes: list[str] = []
        self.devices: dict[str, tuple[str, int | None]] = {}


def decide(
    volumes: Sequence[Volume], consents: Sequence[Consent], machine: Machine, *, mdadm_conf: str, rule: str
) -> Decision:
    """The refusals of all disks at once or, without any, the steps that are left."""
    plan = _Plan()
    plan.refusals += refuse.request(volumes, machine)
    conf = machine.mdadm_conf
    for volume in volumes:
        disks = [machine.disks[link] for link in volume.members]
        unknown = [reason for disk in disks for reason in refuse.identity(disk)]
        plan.refusals += unknown
        if unknown:
            plan.refusals += [r for d in disks if not refuse.identity(d) for r in refuse.writing(d, consents)]
        elif volume.level == "single":
            _single(plan, volume, disks[0], consents)
        else:
            conf = _array(plan, volume, disks, consents, machine, conf=conf, mdadm_conf=mdadm_conf)
    if plan.refusals:
        return Decision(tuple(plan.refusals), (), (), ())
    _read_ahead(plan, machine, rule)
    return Decision((), tuple(plan.steps), tuple(plan.results), tuple(plan.notes))


def _single(plan: _Plan, volume: Volume, disk: Disk, consents: Sequence[Consent]) -> None:
    there = disk.filesystem
    adopt = (
        there is not None
        and there.label == volume.label
        and [(s.device, s.type) for s in disk.signatures] == [(disk.device, "xfs")]
    )
    if adopt:
        plan.refusals += _elsewhere(volume, "disk " + short(disk.link), disk.mounts)
    else:
        there = None
        plan.refusals += refuse.writing(disk, consents)
        _erase(plan, [disk], consents)
        plan.steps.append(_format(volume, str(disk.device)))
    plan.devices[volume.name] = (str(disk.device), disk.read_ahead_kib)
    plan.results.append(Result(volume, None, there))


def _array(
    plan: _Plan,
    volume: Volume,
    disks: Sequence[Disk],
    consents: Sequence[Consent],
    machine: Machine,
    *,
    conf: str | None,
    mdadm_conf: str,
) -> str | None:
    """mdadm.conf as it will be after the steps for this array."""
    named = [disk for disk in disks if disk.superblock and array_name(disk.superblock.name) == volume.name]
    differences = _differences(volume, disks, machine) if named else []
    erased = {
        disk.link for disk, signature in refuse.erasures(disks, consents) if signature.type == "linux_raid_member"
    }
    blocks = [disk.superblock for disk in named if disk.superblock]
    if named and not differences:
        return _existing(plan, volume, disks, blocks[0], machine, conf=conf, mdadm_conf=mdadm_conf)
    if differences and not all(disk.link in erased for disk in named):
        text = "array {} exists but differs: {}".format(volume.name, "; ".join(differences))
        plan.refusals.append(Refusal(text, "change the volume in site.yaml, or consent under storage.wipe to erase it"))
    for other in machine.arrays:
        if (other.name == volume.name and not {d.device for d in disks} & set(other.members)) or (
            volume.link in other.links and other.name != volume.name
        ):
            text = "another array holds the name {}: {} of {}".format(
                volume.name, other.device, ", ".join(other.members)
            )
            plan.refusals.append(Refusal(text, "give the volume another name in site.yaml"))
    plan.refusals += [reason for disk in disks for reason in refuse.writing(disk, consents)]
    plan.refusals += refuse.alike(volume, disks)
    _erase(plan, disks, consents)
    create = ["mdadm", "--create", volume.link, "--level=" + volume.level[4:], "--raid-devices=%d" % len(disks)]
    create += ["--chunk=%d" % volume.chunk_kib] if volume.level == "raid0" else ["--bitmap=internal"]
    create += ["--metadata=1.2", "--homehost=any", "--name=" + volume.name, "--run"]
    names = ", ".join(short(disk.link) for disk in disks)
    sentence = "create array %s (%s) over %d empty disks: %s" % (volume.link, volume.level, len(disks), names)
    plan.steps.append(Step(sentence, ((*create, *(str(disk.device) for disk in disks)),)))
    plan.steps.append(_format(volume, volume.link))
    plan.steps.append(_record(volume, mdadm_conf, ""))
    plan.devices[volume.name] = (volume.link, None)
    plan.results.append(Result(volume, None, None))
    return conf


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


def _existing(
    plan: _Plan,
    volume: Volume,
    disks: Sequence[Disk],
    block: Superblock,
    machine: Machine,
    *,
    conf: str | None,
    mdadm_conf: str,
) -> str | None:
    """The array is the planned one; brings it up if need be and gives it a file system if it has nothing."""
    array = next((array for array in machine.arrays if array.uuid == block.uuid), None)
    filesystem = None
    if array and array.running:
        filesystem = array.filesystem
        _running(plan, volume, array)
    else:
        stop: list[tuple[str, ...]] = [("mdadm", "--stop", array.device)] if array else []
        if not array:
            plan.refusals += [
                Refusal(f"disk {short(disk.link)} of array {volume.name} is in use by another program")
                for disk in disks
                if not disk.exclusive
            ]
        plan.steps.append(_assemble(volume, disks, block, stop))
        filesystem = next((disk.inner for disk in disks if disk.superblock and disk.superblock.role == 0), None)
        if not filesystem:  # what else it may hold shows once it runs: then it is refused
            plan.steps.append(_format(volume, volume.link))
    where = array.device if array and array.running else volume.link
    plan.devices[volume.name] = (where, array.read_ahead_kib if array and array.running else None)
    plan.results.append(Result(volume, mdadm_uuid(block.uuid), filesystem))
    wanted = with_array(conf, name=volume.name, uuid=block.uuid)
    if wanted != conf:
        plan.steps.append(_record(volume, mdadm_conf, wanted))
    return wanted


def _running(plan: _Plan, volume: Volume, array: Array) -> None:
    if array.state == "broken":
        plan.refusals.append(Refusal(f"array {volume.name} ({array.device}) is broken: a disk has failed"))
    plan.refusals += _elsewhere(volume, "array " + volume.name, array.mounts)
    kinds = [signature.type for signature in array.signatures]
    if volume.link not in array.links:
        if array.exclusive and not array.holders and not array.mounts:
            stop = ("mdadm", "--stop", array.device)
            assemble = ("mdadm", "--assemble", volume.link, "--uuid=" + mdadm_uuid(array.uuid), *array.members)
            sentence = f"give the running array {array.device} its name {volume.link}"
            plan.steps.append(Step(sentence, (stop, assemble)))
        else:
            plan.notes.append(f"{volume.link} is called {array.device} until the next start of the machine")
    if not kinds and array.exclusive and not array.holders:
        plan.steps.append(_format(volume, array.device))
    elif not kinds:
        plan.refusals.append(Refusal(f"array {volume.name} carries nothing known, yet it is in use"))
    elif kinds != ["xfs"] or not array.filesystem:
        held = ", ".join(f'{s.type} "{s.label}" (uuid {s.uuid})' for s in array.signatures)
        text = f"array {volume.name} holds something else: expected xfs, found {held}"
        plan.refusals.append(Refusal(text, "move the data away and erase it by hand: wipefs --all " + array.device))
    elif volume.level == "raid0":
        unit, width = volume.chunk_kib, volume.chunk_kib * len(volume.members)
        found = array.filesystem
        if (found.unit_kib, found.width_kib) != (unit, width):
            text = "%s: the file system's stripe is %d KiB, its width %d KiB; the array has %d and %d"
            plan.notes.append(text % (volume.link, found.unit_kib, found.width_kib, unit, width))


def _elsewhere(volume: Volume, what: str, mounts: Sequence[str]) -> list[Refusal]:
    wrong = [point for point in mounts if point != volume.mount]
    text = "{} is mounted at {}; expected {}".format(what, ", ".join(wrong), volume.mount)
    return [Refusal(text, "unmount it there, or change the mount point in site.yaml")] if wrong else []


def _erase(plan: _Plan, disks: Sequence[Disk], consents: Sequence[Consent]) -> None:
    for disk, signature in refuse.erasures(disks, consents):
        kinds = "gpt,PMBR" if signature.type == "gpt" else signature.type
        sentence = "erase the {} signature (uuid {}) of disk {}, as consented".format(
            signature.type,
            signature.uuid or "none",
            short(disk.link),
        )
        plan.steps.append(Step(sentence, (("wipefs", "--all", "--types", kinds, signature.device),)))


def _assemble(volume: Volume, disks: Sequence[Disk], block: Superblock, stop: list[tuple[str, ...]]) -> Step:
    start = ("mdadm", "--assemble", volume.link, "--uuid=" + mdadm_uuid(block.uuid))
    devices = tuple(str(disk.device) for disk in disks)
    sentence = "start the existing array %s of %d disks" % (volume.link, len(disks))
    return Step(sentence, (*stop, (*start, *devices)))


def _format(volume: Volume, device: str) -> Step:
    # Without -f: mkfs.xfs then refuses a device that holds anything, a last net under our own reading.
    # -K: no discard; it takes minutes on large arrays, and fstrim.timer does the same in the background.
    command = ["mkfs.xfs", "-q", "-K", "-L", volume.label]
    if volume.level == "raid0":
        command += ["-d", "su=%dk,sw=%d" % (volume.chunk_kib, len(volume.members))]
    return Step(f"make an XFS on {volume.link}", ((*command, device),))


def _record(volume: Volume, mdadm_conf: str, text: str) -> Step:
    return Step(f"record array {volume.name} by its UUID in {mdadm_conf}", files=((mdadm_conf, text),))


def _read_ahead(plan: _Plan, machine: Machine, rule: str) -> None:
    """Now and at every start, in one step: what the kernel chose by itself may equal the wish by chance."""
    known = [(r.filesystem.uuid, r.volume.read_ahead_kib) for r in plan.results if r.filesystem]
    text = read_ahead_rule(known)
    files = [(rule, text)] if len(known) < len(plan.results) or (machine.rule or "") != text else []
    for result in plan.results:
        device, current = plan.devices[result.volume.name]
        wanted = result.volume.read_ahead_kib // machine.page_kib * machine.page_kib  # the kernel counts in pages
        if current is None and not files:  # a known volume, not started yet: the rule will see to it
            continue
        if current != wanted:
            files.append(("/sys/class/block/{}/queue/read_ahead_kb".format(device.rsplit("/", 1)[-1]), str(wanted)))
    if files:
        listed = ", ".join("%s %d KiB" % (r.volume.link, r.volume.read_ahead_kib) for r in plan.results)
        plan.steps.append(Step("set the read-ahead: %s" % (listed or "no volumes"), files=tuple(files)))

"""The changes the module knows to make: for each what a person reads, and the commands and files that do it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .facts import Array, Disk, Signature, Volume
from .formats import mdadm_uuid, plain_uuid
from .refuse import short


class Step(NamedTuple):
    """One change: the files `before`, the commands, the `files` after them; each (path, text), where None removes."""

    sentence: str
    commands: tuple[tuple[str, ...], ...] = ()
    files: tuple[tuple[str, str | None], ...] = ()
    before: tuple[tuple[str, str | None], ...] = ()


def create(volume: Volume, disks: Sequence[Disk], uuid: str, *, begun: str) -> Step:
    """The UUID lies in the file `begun` while the array is made: its members hold nothing until that file is gone."""
    command = ["mdadm", "--create", volume.link, "--level=" + volume.level[4:], "--raid-devices=%d" % len(disks)]
    command += ["--chunk=%d" % volume.chunk_kib] if volume.level == "raid0" else ["--bitmap=internal"]
    command += ["--metadata=1.2", "--homehost=any", "--name=" + volume.name, "--uuid=" + mdadm_uuid(uuid), "--run"]
    names = ", ".join(short(disk.link) for disk in disks)
    return Step(
        "create array %s (%s) over %d empty disks: %s" % (volume.link, volume.level, len(disks), names),
        ((*command, *(str(disk.device) for disk in disks)),),
        before=((begun, plain_uuid(uuid) + "\n"),),
        files=((begun, None),),
    )


def created(volume: Volume, *, begun: str) -> Step:
    """From here on the array may hold data, and its members are never taken for an unfinished creation."""
    return Step(f"note that array {volume.name} is complete", files=((begun, None),))


def unmark(array: Array) -> Step:
    """udev passes the array on to systemd only once mdadm's mark is gone and the device has been looked at again."""
    return Step(
        f"tell udev that array {array.device} is complete: the mdadm that made it was cut off",
        (("udevadm", "trigger", "--action=change", array.device),),
        before=((array.creation_mark, None),),
    )


def stop(array: Array) -> Step:
    return Step(f"stop the unfinished array {array.device}", (("mdadm", "--stop", array.device),))


def undo(disk: Disk, signature: Signature) -> Step:
    sentence = f"undo the unfinished creation of an array on disk {short(disk.link)}"
    return Step(sentence, (_wipefs(signature),))


def erase(disk: Disk, signature: Signature) -> Step:
    sentence = "erase the {} signature (uuid {}) of disk {}, as consented".format(
        signature.type, signature.uuid or "none", short(disk.link)
    )
    return Step(sentence, (_wipefs(signature),))


def _wipefs(signature: Signature) -> tuple[str, ...]:
    kinds = "gpt,PMBR" if signature.type == "gpt" else signature.type
    return ("wipefs", "--all", "--types", kinds, signature.device)


def erase_unfinished(volume: Volume, device: str) -> Step:
    kind = volume.filesystem
    sentence = f"erase the {kind} on {volume.link} whose making was cut off"
    return Step(sentence, (("wipefs", "--all", "--types", kind, device),))


def assemble(volume: Volume, disks: Sequence[Disk], uuid: str, *, inactive: Array | None) -> Step:
    first = (("mdadm", "--stop", inactive.device),) if inactive else ()
    start = ("mdadm", "--assemble", volume.link, "--uuid=" + mdadm_uuid(uuid), *(str(disk.device) for disk in disks))
    return Step("start the existing array %s of %d disks" % (volume.link, len(disks)), (*first, start))


def rename(volume: Volume, array: Array) -> Step:
    start = ("mdadm", "--assemble", volume.link, "--uuid=" + mdadm_uuid(array.uuid), *array.members)
    sentence = f"give the running array {array.device} its name {volume.link}"
    return Step(sentence, (("mdadm", "--stop", array.device), start))


def make_filesystem(volume: Volume, device: str) -> Step:
    """Without discard: that takes minutes on large arrays, and fstrim.timer does the same in the background."""
    unit, disks = volume.chunk_kib, len(volume.members)
    striped = volume.level == "raid0"
    if volume.filesystem == "xfs":
        # Without -f: mkfs.xfs then refuses a device that holds anything, a last net under our own reading.
        command = ["mkfs.xfs", "-q", "-K", "-L", volume.label]
        command += ["-d", "su=%dk,sw=%d" % (unit, disks)] if striped else []
    else:
        extended = ["nodiscard"]
        extended += ["stride=%d,stripe_width=%d" % (unit // 4, unit // 4 * disks)] if striped else []
        extended += ["quotatype=prjquota"] if volume.project_quota else []
        command = ["mkfs.ext4", "-q", "-b", "4096", "-m", "0", "-L", volume.label]
        command += ["-O", "quota,project"] if volume.project_quota else []
        command += ["-E", ",".join(extended)]
    article = "an XFS" if volume.filesystem == "xfs" else "an ext4"
    text = f"make {article} on {volume.link}"
    if striped:
        text += " (stripe unit %d KiB, width %d KiB)" % (unit, unit * disks)
    return Step(text, ((*command, device),))


def record(volume: Volume, mdadm_conf: str, text: str) -> Step:
    return Step(f"record array {volume.name} by its UUID in {mdadm_conf}", files=((mdadm_conf, text),))

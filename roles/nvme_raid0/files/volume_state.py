"""What the kernel shows of a volume: its drives, its array, its mount. Opens no drive, changes nothing."""

from __future__ import annotations

import glob
import os
import re
import select
import signal
import time
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

ANSWER_LIMIT_S = 10


class Drive(NamedTuple):
    """A planned drive. `state`: fine, gone (no device), out (there, not in the array), faulty (the kernel gave up)."""

    link: str
    state: str

    @property
    def text(self) -> str:
        """The drive as its sticker names it. Names made of numbers only (eui, wwn) hold no serial."""
        name = os.path.basename(self.link)
        serial = re.match(r"^(?:nvme|ata|virtio)-(?!eui\.|nvme\.|uuid\.)(?:.*_)?([^_]{3,})$", name)
        return f"{name} (serial {serial[1]})" if serial else name


class Seen(NamedTuple):
    """What the kernel shows of one volume; `device` is the kernel name of what carries the file system, or empty."""

    drives: tuple[Drive, ...]
    device: str = ""
    array_state: str = ""
    degraded: bool = False
    rebuilding: str = ""  # how far, when it is
    others: tuple[str, ...] = ()  # drives in the array that are not planned, by kernel name
    mount: str = "fine"  # fine, absent, foreign, or what it says instead of answering


def look(root: str, volume: Mapping[str, Any], stuck: dict[str, list[int]]) -> Seen:
    """The drives of `volume`, what is built on them, and its mount; `stuck` keeps questions without an answer."""
    block = root + "/sys/class/block/"
    devices = [_device(root, link) for link in volume["members"]]
    if volume["level"] == "single":
        drive = Drive(volume["members"][0], "fine" if devices[0] else "gone")
        return Seen((drive,), devices[0], mount=_mount(root, volume, devices[0], stuck))
    # By its drives first: the link of a RAID0 goes away with its first lost drive, while the array stays.
    arrays = [array for device in devices if device for array in _holders(block + device)]
    array = arrays[0] if arrays else _device(root, "/dev/md/" + volume["name"])
    mount = _mount(root, volume, array, stuck)
    if not array:
        return Seen(
            tuple(Drive(link, "fine" if dev else "gone") for link, dev in zip(volume["members"], devices))
        )._replace(mount=mount)
    md = f"{block}{array}/md/"
    there = [os.path.basename(path)[4:] for path in sorted(glob.glob(glob.escape(md) + "dev-*"))]
    return Seen(
        tuple(
            Drive(link, "gone" if not device else _membership(block, array, device))
            for link, device in zip(volume["members"], devices)
        ),
        array,
        array_state=text_of(md + "array_state") or "unknown",
        degraded=text_of(md + "degraded") not in ("", "0"),
        rebuilding=_done(text_of(md + "sync_completed")) if text_of(md + "sync_action") == "recover" else "",
        others=tuple(name for name in there if name not in devices and _membership(block, array, name) == "fine"),
        mount=mount,
    )


def _membership(block: str, array: str, device: str) -> str:
    """A drive that was pulled and came back bears its old name, yet is no part of the array: only holders tell."""
    if array not in _holders(block + device):
        return "out"
    return "faulty" if "faulty" in text_of(f"{block}{array}/md/dev-{device}/state").split(",") else "fine"


def _device(root: str, link: str) -> str:
    """Kernel name of the device behind a link of udev; empty when the link or the device is gone."""
    try:
        name = os.path.basename(os.readlink(root + link))
    except OSError:
        return ""
    return name if os.path.isdir(root + "/sys/class/block/" + name) else ""


def _holders(device: str) -> list[str]:
    """The arrays that the kernel has built on a device, running or not."""
    return sorted(os.path.basename(path) for path in glob.glob(glob.escape(device) + "/holders/md*"))


def _done(completed: str) -> str:
    """`1024 / 4096` (sectors) in percent."""
    match = re.match(r"^(\d+) / (\d+)$", completed)
    return f"{100 * int(match[1]) // max(1, int(match[2]))} %" if match else "0 %"


def _mount(root: str, volume: Mapping[str, Any], device: str, stuck: dict[str, list[int]]) -> str:
    path: str = volume["mount"]
    with open(root + "/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        found = [line.split() for line in file]
    mine = [words for words in found if words[4] == path]
    if not mine:
        return "absent"
    if path in stuck:
        return "no answer since an earlier look"
    said, child = answer(root + path)
    if child:
        stuck[path] = child
    if said == "fine" and device and mine[-1][2] != text_of(f"{root}/sys/class/block/{device}/dev"):
        return "foreign"
    # Of the file system itself: our own unit sees every mount read-only. ext4 becomes so after an error.
    read_only = "ro" in mine[-1][-1].split(",") and "ro" not in volume["mount_options"]
    return "it has become read-only" if said == "fine" and read_only else said


def _touch(path: str) -> None:
    """What a file system that has shut itself down refuses (EIO): attributes and entries of its root folder."""
    os.stat(path)
    with os.scandir(path) as entries:
        next(entries, None)


def answer(
    path: str, limit_s: float = ANSWER_LIMIT_S, touch: Callable[[str], None] = _touch
) -> tuple[str, list[int] | None]:
    """`fine` or what is wrong; asked by a child, since a dead drive may hold whoever asks, for ever.

    Of a child that does not even die also [process, its start]: no second one is sent while that one hangs.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = "could not be asked"
        try:
            touch(path)
            said = "fine"
        except OSError as error:
            said = error.strerror or str(error)
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    answered = bool(select.select([reader], [], [], limit_s)[0])
    said = os.read(reader, 200).decode() if answered else f"no answer within {limit_s:g} s"
    os.close(reader)
    if answered:
        os.waitpid(child, 0)
        return said, None
    os.kill(child, signal.SIGKILL)
    time.sleep(0.2)
    started = _started(child)
    dead = os.waitpid(child, os.WNOHANG)[0] == child
    return said, None if dead or started is None else [child, started]


def alive(child: list[int]) -> bool:
    """Whether that very process, [number, start], is still there."""
    return _started(child[0]) == child[1]


def _started(process: int) -> int | None:
    """When the process began, in ticks since boot: tells it from a later one of the same number."""
    words = text_of(f"/proc/{process}/stat").rpartition(")")[2].split()
    return int(words[19]) if len(words) > 19 else None


def text_of(path: str) -> str:
    """The text of a file without blanks at its ends; empty when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""

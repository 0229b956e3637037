"""The names udev gives to disks by what does not change, from /dev/disk/by-id."""

from __future__ import annotations

import re

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.reading import lines, output, unreadable

FOLDER = "/dev/disk/by-id"
COMMAND = Command(
    "by-id", ("sh", "-c", f"if [ -d {FOLDER} ]; then find {FOLDER} -type l -printf '%f %l\\n' | sort; fi"), 10
)

_LINK = re.compile(r"^([A-Za-z0-9_.:+=@#-]\S*) (?:\.\./)+([A-Za-z0-9!_-]+)$")
_PART = re.compile(r"-part[0-9]+$")
_SAFE = re.compile(r"^[A-Za-z0-9_.:+=-]+$")
# Names with model and serial come first: a person can compare them with the sticker on the drive.
_ORDER = ("nvme-", "ata-", "scsi-S", "scsi-", "virtio-", "usb-", "wwn-")


def parse(raw: bytes) -> dict[str, tuple[str, ...]]:
    """Link names by kernel name, sorted."""
    found: dict[str, list[str]] = {}
    for line in lines("by-id", raw):
        match = _LINK.match(line)
        if not match:
            raise unreadable("by-id", line)
        found.setdefault(match[2], []).append(match[1])
    return {device: tuple(sorted(names)) for device, names in found.items()}


def canonical(names: tuple[str, ...]) -> str:
    """The one path under /dev/disk/by-id by which a whole disk is known; empty when it has none."""
    usable = [name for name in names if _SAFE.match(name) and not _PART.search(name)]
    known = [name for name in usable if name.startswith(_ORDER)]
    if not known:
        return ""
    best = min(known, key=lambda name: (_hashed(name), _rank(name), _repeats(name, usable), len(name), name))
    return f"{FOLDER}/{best}"


def _rank(name: str) -> int:
    return next(index for index, prefix in enumerate(_ORDER) if name.startswith(prefix))


def _hashed(name: str) -> bool:
    return name.startswith(("nvme-eui.", "nvme-nvme.", "nvme-uuid.", "wwn-", "scsi-3", "scsi-1"))


def _repeats(name: str, names: list[str]) -> bool:
    """Whether `name` is another name with the namespace number behind it (`..._SERIAL_1`)."""
    base, _, number = name.rpartition("_")
    return number.isdecimal() and base in names


def links(evidence: Evidence) -> dict[str, tuple[str, ...]]:
    """Link names of the host's disks by kernel name."""
    return parse(output(evidence, COMMAND.key))

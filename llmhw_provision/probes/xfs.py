"""Geometry of a mounted XFS, from xfs_info."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.reading import lines, output, unreadable

_BLOCK = re.compile(r"^data\s+=\s+bsize=([0-9]+)\s+blocks=([0-9]+)\b")
_STRIPE = re.compile(r"^\s+=\s+sunit=([0-9]+)\s+swidth=([0-9]+) blks\s*$")


@dataclass(frozen=True)
class Geometry:
    """Stripe of the data section: bytes per disk, and how many disks."""

    stripe_unit_bytes: int
    stripe_disks: int


def command(mount: str) -> Command:
    """Asks for the geometry of the file system mounted on `mount`."""
    return Command(f"xfs:{mount}", ("xfs_info", mount), 10)


def parse(raw: bytes) -> Geometry:
    """The stripe; 0 bytes over 0 disks when the file system has none."""
    text = lines("xfs_info", raw)
    for index, line in enumerate(text):
        block = _BLOCK.match(line)
        stripe = _STRIPE.match(text[index + 1]) if block and index + 1 < len(text) else None
        if block and stripe:
            unit, width = int(stripe[1]), int(stripe[2])
            if (unit == 0) != (width == 0) or (unit and width % unit):
                raise unreadable("xfs_info", text[index + 1], "width is not a multiple of unit")
            return Geometry(unit * int(block[1]), width // unit if unit else 0)
    raise unreadable("xfs_info", text[0] if text else "", "no data section")


def geometry(evidence: Evidence, mount: str) -> Geometry:
    """Geometry of the XFS on `mount`."""
    return parse(output(evidence, command(mount).key))

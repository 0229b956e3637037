"""`lsblk` as it prints by itself: a tree in columns, with any set of columns.

Cells are told apart by where they stand below the headings, since some are empty. Sizes are rounded texts (3.5T): bytes
are read from `lsblk -b` or the JSON form only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from llmhw_provision.probes.format import Format
from llmhw_provision.probes.reading import unreadable
from llmhw_provision.probes.screen import screen, shows

_TOOL = "lsblk"
_TREE = re.compile(r"^[\s│├└─|`-]*")
_NAME = re.compile(r"^[\w.!:+@%-]+$")
_MOUNTS = ("MOUNTPOINT", "MOUNTPOINTS")


@dataclass(frozen=True)
class Row:
    """One device: name, how far it is indented, and its cells by heading; further mount points follow in `mounts`."""

    name: str
    depth: int
    cells: dict[str, str]
    mounts: tuple[str, ...]


def parse(raw: bytes) -> tuple[Row, ...]:
    """The devices in order; raises ProbeError for a row without a device, or without a cell that all others have."""
    head, *body = screen(_TOOL, raw)
    columns = [(match[0], match.start(), match.end()) for match in re.finditer(r"\S+", head)]
    if not columns or columns[0][0] != "NAME":
        raise unreadable(_TOOL, head, "no NAME column")
    found: list[Row] = []
    for line in body:
        lead = len(_TREE.match(line)[0])  # type: ignore[index]
        tokens = [(match[0], match.start(), match.end()) for match in re.finditer(r"\S+", line[lead:])]
        tokens = [(text, start + lead, end + lead) for text, start, end in tokens]
        if not tokens:
            continue
        if found and columns[-1][0] in _MOUNTS and lead >= columns[-1][1]:
            found[-1] = Row(found[-1].name, found[-1].depth, found[-1].cells, (*found[-1].mounts, line[lead:]))
            continue
        found.append(_row(columns, lead, tokens))
    if not found:
        raise unreadable(_TOOL, head, "no device")
    whole = {name for name, *_ in columns if name in ("TYPE", "SIZE", "MAJ:MIN")}
    short = next((row for row in found if whole - set(row.cells)), None)
    if short is not None:
        raise unreadable(_TOOL, short.name, f"no {', '.join(sorted(whole - set(short.cells)))}")
    return tuple(found)


def _row(columns: list[tuple[str, int, int]], lead: int, tokens: list[tuple[str, int, int]]) -> Row:
    (name, *_), *rest = tokens
    if not _NAME.match(name):
        raise unreadable(_TOOL, name, "no device name")
    cells: dict[str, str] = {}
    for text, start, end in rest:
        under = next((head for head, left, right in columns[1:] if start == left or end == right), "")
        near = min(columns[1:], key=lambda column: _apart(column, start, end), default=("", 0, 0))[0]
        place = under or near
        if not place:
            raise unreadable(_TOOL, text, "below no heading")
        cells[place] = f"{cells[place]} {text}" if place in cells else text
    mounts = tuple(cells[head] for head in _MOUNTS if head in cells)
    return Row(name, lead, cells, mounts)


def _apart(column: tuple[str, int, int], start: int, end: int) -> int:
    """Characters between a heading and a cell; 0 where they overlap."""
    return max(column[1] - end, start - column[2], 0)


def _tops(found: tuple[Row, ...]) -> Iterator[Row]:
    yield from (row for row in found if row.depth == 0)


def facts(raw: bytes) -> dict[str, object]:
    """What the JSON form tells as well: devices at the top, types, disks, and which mount points there are."""
    found = parse(raw)
    sizes = [row.cells["SIZE"] for row in found if "SIZE" in row.cells]
    heads = screen(_TOOL, raw)[0].split()
    return {
        "ok": True,
        "top_level": len(list(_tops(found))),
        "types": sorted({row.cells["TYPE"] for row in found if "TYPE" in row.cells}),
        "mountpoint_key": next((head.lower() for head in _MOUNTS if head in heads), None),
        "size_is_int": bool(sizes) and all(size.isdecimal() for size in sizes),
        "disks": [row.name for row in found if row.cells.get("TYPE") == "disk"],
        "mounts": {mount: row.name for row in found for mount in row.mounts},
    }


FORMATS = (
    Format(
        "lsblk", shows(r"NAME +(?:(?:MAJ:MIN|FSTYPE|SIZE|TYPE|MODEL|SERIAL|KNAME|ROTA|TRAN|UUID|PARTUUID)\b)"), facts
    ),
)

"""What is mounted where, from findmnt, and how much room it has, from df (local file systems only)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.reading import json_object, lines, output, unreadable

# No sizes here: asking a dead NFS server for them would hang the whole reading.
FINDMNT = Command("findmnt", ("findmnt", "-J", "-b", "-o", "TARGET,SOURCE,FSTYPE,OPTIONS,UUID,LABEL"), 10)
DF = Command("df", ("df", "-l", "-B1", "--output=size,avail,target"), 10)
COMMANDS = (FINDMNT, DF)


@dataclass(frozen=True)
class Mounted:
    """One mounted file system. A later one on the same path hides the earlier."""

    path: str
    source: str
    type: str
    options: tuple[str, ...]
    uuid: str
    label: str

    def option(self, name: str) -> str | None:
        """Value of option `name`; empty for one without value, None when it is not set."""
        for option in self.options:
            key, _, value = option.partition("=")
            if key == name:
                return value
        return None


def parse(raw: bytes) -> tuple[Mounted, ...]:
    """Everything that is mounted, in findmnt's order."""
    found: list[Mounted] = []
    top = json_object("findmnt", raw).get("filesystems")
    if not isinstance(top, list) or not top:
        raise unreadable("findmnt", raw.decode("utf-8", "replace")[:80], "no 'filesystems' list")
    _collect(top, found)
    return tuple(found)


def _collect(entries: list[Any], found: list[Mounted]) -> None:
    for entry in entries:
        if not isinstance(entry, dict) or not all(isinstance(entry.get(k), str) for k in ("target", "fstype")):
            raise unreadable("findmnt", str(entry))
        found.append(
            Mounted(
                path=entry["target"],
                source=entry.get("source") or "",
                type=entry["fstype"],
                options=tuple((entry.get("options") or "").split(",")),
                uuid=entry.get("uuid") or "",
                label=entry.get("label") or "",
            )
        )
        _collect(entry.get("children") or [], found)


def parse_df(raw: bytes) -> dict[str, tuple[int, int]]:
    """Size and free bytes by mount point."""
    found: dict[str, tuple[int, int]] = {}
    text = lines("df", raw)
    if not text or text[0].split() != ["1B-blocks", "Avail", "Mounted", "on"]:
        raise unreadable("df", text[0] if text else "")
    for line in text[1:]:
        size, avail, path = [*line.split(None, 2), "", "", ""][:3]
        if not (size.isdecimal() and avail.isdecimal() and path.startswith("/")):
            if size == "-" or avail == "-":
                continue
            raise unreadable("df", line)
        found[path] = int(size), int(avail)
    return found


def mounted(evidence: Evidence) -> tuple[Mounted, ...]:
    """What is mounted on the host."""
    return parse(output(evidence, FINDMNT.key))


def room(evidence: Evidence) -> dict[str, tuple[int, int]]:
    """Size and free bytes of the host's local file systems by mount point."""
    return parse_df(output(evidence, DF.key))


def at(entries: tuple[Mounted, ...], path: str) -> Mounted | None:
    """What is mounted on `path` and visible there."""
    return next((entry for entry in reversed(entries) if entry.path == path), None)

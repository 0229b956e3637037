"""Owners and modes of folders, what lies under a mount point, and read-ahead of block devices."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.reading import lines, output, unreadable

_STAT = re.compile(r"^(/\S*)\|(\S+)\|(\S+)\|([0-7]{1,4})\|(.+)$")
_MISSING = re.compile(r"^stat: cannot stat[x]? '(/[^']*)'")
_ATTRIBUTES = re.compile(r"^([a-zA-Z-]{8,}) (/\S+)$")
# A bind mount of the parent, in a mount namespace that ends with the command: shows the folder under the mount.
_BARE = """unshare -m sh -c 'mount --bind "$1" /tmp && lsattr -d "/tmp/$2" && echo "-- inside" &&
find "/tmp/$2" -mindepth 1 -maxdepth 1 -printf "%f\\n" | head -n 5' sh "$1" "$2" """
READ_AHEAD = Command("read-ahead", ("sh", "-c", "cd /sys/class/block && grep -sH . */queue/read_ahead_kb; true"), 10)
_KIB = re.compile(r"^([^/]+)/queue/read_ahead_kb:([0-9]+)$")


@dataclass(frozen=True)
class Folder:
    """Owner and mode of a folder."""

    owner: str
    group: str
    mode: int
    kind: str


@dataclass(frozen=True)
class Bare:
    """The folder under a mount point."""

    immutable: bool
    entries: tuple[str, ...]


def stat_command(paths: tuple[str, ...]) -> Command:
    """Asks for owner and mode of `paths`; a missing one is part of the answer."""
    return Command("folders", ("sh", "-c", 'stat -c "%n|%U|%G|%a|%F" "$@" 2>&1; true', "sh", *paths), 10)


def bare_command(path: str) -> Command:
    """Looks at the folder under the mount on `path`, without touching the mount."""
    parent, _, name = path.rpartition("/")
    return Command(f"bare:{path}", ("sh", "-c", _BARE, "sh", parent or "/", name), 10)


def parse_stat(raw: bytes) -> dict[str, Folder | None]:
    """Folders by path; None for one that is not there."""
    found: dict[str, Folder | None] = {}
    for line in lines("stat", raw):
        match, missing = _STAT.match(line), _MISSING.match(line)
        if match:
            found[match[1]] = Folder(match[2], match[3], int(match[4], 8), match[5])
        elif missing:
            found[missing[1]] = None
        else:
            raise unreadable("stat", line)
    return found


def parse_bare(raw: bytes) -> Bare:
    """Whether the folder is immutable, and up to five of the names in it."""
    text = lines("lsattr", raw)
    match = _ATTRIBUTES.match(text[0]) if text else None
    if not match or len(text) < 2 or text[1] != "-- inside":
        raise unreadable("lsattr", text[0] if text else "")
    return Bare("i" in match[1], tuple(text[2:]))


def parse_read_ahead(raw: bytes) -> dict[str, int]:
    """KiB of read-ahead by kernel name."""
    found: dict[str, int] = {}
    for line in lines("sysfs read_ahead_kb", raw):
        match = _KIB.match(line)
        if not match:
            raise unreadable("sysfs read_ahead_kb", line)
        found[match[1]] = int(match[2])
    return found


def folders(evidence: Evidence) -> dict[str, Folder | None]:
    """The folders asked for."""
    return parse_stat(output(evidence, "folders"))


def bare(evidence: Evidence, path: str) -> Bare:
    """The folder under the mount on `path`."""
    return parse_bare(output(evidence, bare_command(path).key))


def read_ahead(evidence: Evidence) -> dict[str, int]:
    """KiB of read-ahead of the host's block devices."""
    return parse_read_ahead(output(evidence, READ_AHEAD.key))

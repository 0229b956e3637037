"""Exact versions of Debian packages: which offered one is meant, and what a transaction would touch. Pure functions."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Optional

_VERSION = re.compile(r"^ (?:\*\*\*|   ) (\S+) (-?[0-9]+)$")
_CHANGE = re.compile(r"^(Inst|Remv) (\S+?)(?::\S+)? (?:\[(\S+)\])?")


class Wanted(NamedTuple):
    """A package; `version` is upstream's, or with its Debian revision, and empty where any will do."""

    name: str
    version: str

    @property
    def asked(self) -> str:
        return f"{self.name}={self.version}" if self.version else self.name


def wanted(entry: str) -> Wanted:
    """`name` or `name=version`."""
    name, _, version = entry.partition("=")
    return Wanted(name, version)


def meant(asked: str, found: str) -> bool:
    """Whether version `found` is the one that is asked for; epoch and revision count only where they are asked for."""
    bare = found if ":" in asked else found.rpartition(":")[2]
    return not asked or bare == asked or bare.startswith(f"{asked}-")


def offered(policy: str) -> dict[str, list[tuple[str, int]]]:
    """Package to its versions with their priority, newest first, out of `apt-cache policy`."""
    found: dict[str, list[tuple[str, int]]] = {}
    versions: list[tuple[str, int]] = []
    for line in policy.splitlines():
        match = _VERSION.match(line)
        if match:
            versions.append((match[1], int(match[2])))
        elif line.endswith(":") and not line.startswith(" "):
            versions = found.setdefault(line[:-1].partition(":")[0], [])
    return found


def choose(item: Wanted, versions: Iterable[tuple[str, int]]) -> Optional[str]:  # noqa: UP045
    """The newest offered version that is meant and that no preference forbids, for apt's command line."""
    if not item.version:
        return item.name
    full = next((text for text, priority in versions if priority >= 0 and meant(item.version, text)), None)
    return f"{item.name}={full}" if full else None


def refusal(item: Wanted, versions: Iterable[tuple[str, int]]) -> str:
    """Why the version cannot be had."""
    texts = [text if priority >= 0 else f"{text} (kept out by apt's preferences)" for text, priority in versions]
    return f"{item.name}: version {item.version} is not offered; offered: {', '.join(texts[:6]) or 'none'}"


def changes(simulated: str) -> dict[str, str]:
    """Package to what `apt-get --simulate` would do to it: `install`, `change` or `remove`."""
    found = {}
    for line in simulated.splitlines():
        match = _CHANGE.match(line)
        if match:
            found[match[2]] = "remove" if match[1] == "Remv" else "change" if match[3] else "install"
    return found


def matching(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """The names that one of the patterns (* ? []) takes in, in order."""
    patterns = tuple(patterns)
    return sorted(name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns))


def forbidden(todo: Mapping[str, str], held: Iterable[str], own: Iterable[str], kept: Iterable[str]) -> list[str]:
    """Sentences about what must not be touched: what others hold, and what matches `kept`."""
    own, held = tuple(own), set(held)
    found = [
        f"would {todo[name]} {name}, which is on hold"
        for name in sorted(todo)
        if name in held and not matching([name], own)
    ]
    return found + [f"would {todo[name]} {name}, which it must leave alone" for name in matching(todo, kept)]

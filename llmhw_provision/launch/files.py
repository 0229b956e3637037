"""Files and their settings: each setting carries the rule that chose it and the source of the rule."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml

Value = str | int | float | bool | None | tuple[str, ...] | tuple[float, ...]


@dataclass(frozen=True)
class Setting:
    """One setting; `name` may have parts joined by dots."""

    name: str
    value: Value
    rule: str
    source: str


@dataclass(frozen=True)
class LaunchFile:
    """A file by its path below the folder of launch files."""

    path: str
    text: str
    settings: tuple[Setting, ...] = ()
    executable: bool = False


def header(identity: str, what: str, mark: str = "#") -> str:
    """The first lines of a file: what it is, of which plan."""
    return f"{mark} {what}; plan {identity}\n{mark} Written by llmhw-provision launch; why: launch --explain\n"


def as_yaml(settings: Iterable[Setting], head: str) -> str:
    """YAML with the rule of each setting behind it; parts of a name become nested mappings, without comments inside."""
    lines = [head]
    nested: dict[str, dict[str, Value]] = {}
    for item in settings:
        group, _, name = item.name.rpartition(".")
        if group:
            nested.setdefault(group, {})[name] = item.value
            continue
        lines.append(f"{_yaml({item.name: item.value}).rstrip()}  # {item.rule}\n")
    return "".join(lines) + (_yaml(nested) if nested else "")


def _yaml(data: dict[str, Any]) -> str:
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in data.items()}
    return str(yaml.dump(plain, Dumper=yaml.CSafeDumper, sort_keys=False, width=1000, default_flow_style=False))


def as_json(settings: Iterable[Setting], about: str = "") -> str:
    """JSON; parts of a name become nested objects. JSON has no comments: `about` goes into the key _comment."""
    found: dict[str, Any] = {"_comment": about} if about else {}
    for item in settings:
        *groups, name = item.name.split(".")
        place = found
        for group in groups:
            place = place.setdefault(group, {})
        place[name] = list(item.value) if isinstance(item.value, tuple) else item.value
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def arguments(settings: Iterable[Setting]) -> list[str]:
    """Command-line words; True is a flag alone, False and None are left out."""
    found: list[str] = []
    for item in settings:
        if item.value is None or item.value is False:
            continue
        found.append(f"--{item.name}")
        if item.value is True:
            continue
        found += map(str, item.value) if isinstance(item.value, tuple) else (str(item.value),)
    return found


def as_argument_file(settings: Iterable[Setting], head: str) -> str:
    """One option per line with its words, the rule in a comment above."""
    lines = [head]
    for item in settings:
        words = arguments([item])
        if words:
            lines.append(f"# {item.rule}\n{' '.join(words)}\n")
    return "".join(lines)

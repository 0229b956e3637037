"""What is installed in an environment: the packages, and whether their files are whole."""

from __future__ import annotations

import csv
import glob
import os
from collections.abc import Mapping
from typing import NamedTuple

from ansible.module_utils.python_env.locks import Pin, normalized


class Distribution(NamedTuple):
    """One installed package; `fault` names the first file that is missing or of another size, empty when whole."""

    version: str
    fault: str


class Difference(NamedTuple):
    """How an environment differs from its lock: names to install, to install again (with the fault), to remove."""

    missing: tuple[str, ...]
    damaged: Mapping[str, str]
    extra: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.damaged or self.extra)

    def sentence(self) -> str:
        """`lacks six; numpy/core.py is missing; has pip besides`."""
        parts = [f"lacks {_few(self.missing)}"] if self.missing else []
        parts += [_few(tuple(self.damaged.values()))] if self.damaged else []
        parts += [f"has {_few(self.extra)} besides"] if self.extra else []
        return "; ".join(parts)


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def distributions(folder: str) -> dict[str, Distribution]:
    """The packages below the environment `folder`, by normalized name, each checked against its RECORD by size."""
    found = {}
    for info in glob.glob(f"{folder}/lib/python3.*/site-packages/*.dist-info"):
        name, _, version = os.path.basename(info)[: -len(".dist-info")].rpartition("-")
        found[normalized(name)] = Distribution(version, _fault(info))
    return found


def _fault(info: str) -> str:
    packages = os.path.dirname(info)
    try:
        with open(os.path.join(info, "RECORD"), encoding="utf-8", newline="") as stream:
            rows = list(csv.reader(stream))
    except (OSError, ValueError, csv.Error):
        return f"{os.path.basename(info)}/RECORD cannot be read"
    for row in rows:
        if len(row) != 3:
            return f"{os.path.basename(info)}/RECORD is cut off"
        if row[0].endswith(".pyc"):
            continue
        try:
            size = os.stat(os.path.join(packages, row[0])).st_size
        except OSError:
            return f"{row[0]} is missing"
        if row[2] and int(row[2]) != size:
            return f"{row[0]} has {size} bytes, not {row[2]}"
    return ""


def difference(pins: Mapping[str, Pin], found: Mapping[str, Distribution]) -> Difference:
    """What must be done to make the packages that were found those of the lock."""
    return Difference(
        tuple(name for name, pin in pins.items() if name not in found),
        {
            name: item.fault or f"{name} is {item.version}, not {pins[name].version}"
            for name, item in found.items()
            if name in pins and (item.fault or not _same(item.version, pins[name].version))
        },
        tuple(name for name in found if name not in pins),
    )


def _same(left: str, right: str) -> bool:
    """Folders write + and - of a version as _."""
    return left.replace("_", "+") == right.replace("_", "+")


def linked(folder: str) -> tuple[int, int, int]:
    """Files below `folder`, how many of them are hard links to the cache, and bytes of all."""
    files = links = size = 0
    for where, _, names in os.walk(folder):
        for name in names:
            status = os.lstat(os.path.join(where, name))
            files += 1
            links += status.st_nlink > 1
            size += status.st_size
    return files, links, size

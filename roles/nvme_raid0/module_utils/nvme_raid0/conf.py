"""The two files the module keeps: ARRAY lines in mdadm.conf and the udev rule for read-ahead. Text in, text out."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .formats import array_name, mdadm_uuid, plain_uuid

RULE_HEAD = "# Written by llmhw-provision, role nvme_raid0; changes are overwritten.\n"


def with_array(text: str | None, *, name: str, uuid: str) -> str:
    """mdadm.conf with exactly one ARRAY line for the array `name` and `uuid`; every other line stays as it is.

    An older line for the same name or the same UUID is replaced where it stands.
    """
    wanted = f"ARRAY /dev/md/{name} metadata=1.2 UUID={mdadm_uuid(uuid)}\n"
    result: list[str] = []
    placed = False
    for entry in _entries(text or ""):
        if not _speaks_of(entry, name=name, uuid=uuid):
            result.append(entry)
        elif not placed:
            result.append(wanted)
            placed = True
    if not placed:
        if result and not result[-1].endswith("\n"):
            result[-1] += "\n"
        result.append(wanted)
    return "".join(result)


def array_uuid(text: str | None, name: str) -> str:
    """The UUID that mdadm.conf records for the array `name`, as 32 hex digits; empty if it records none."""
    for entry in _entries(text or ""):
        if _speaks_of(entry, name=name, uuid=""):
            for word in entry.split()[1:]:
                key, _, value = word.partition("=")
                if key.lower() == "uuid":
                    return plain_uuid(value)
    return ""


def _entries(text: str) -> list[str]:
    """The lines of the file; one that starts with a blank continues the one before."""
    found: list[str] = []
    for line in text.splitlines(keepends=True):
        if found and line[:1] in (" ", "\t") and line.strip() and not found[-1].startswith("#"):
            found[-1] += line
        else:
            found.append(line)
    return found


def _speaks_of(entry: str, *, name: str, uuid: str) -> bool:
    words = entry.split()
    # mdadm accepts its keywords in any case, shortened to three letters.
    if not words or len(words[0]) < 3 or not "array".startswith(words[0].lower()):
        return False
    for word in words[1:]:
        key, _, value = word.partition("=")
        key = key.lower()
        if key == "uuid" and plain_uuid(value) == uuid:
            return True
        if key == "name" and array_name(value) == name:
            return True
    return len(words) > 1 and words[1] in ("/dev/md/" + name, name)


def read_ahead_rule(values: Iterable[tuple[str, int]]) -> str:
    """The udev rule that gives each (file system UUID, KiB) its read-ahead; empty without any."""
    lines = [
        'ACTION=="add|change", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", ENV{ID_FS_UUID}=="%s", '
        'ATTR{queue/read_ahead_kb}="%d"\n' % (uuid, kib)
        for uuid, kib in values
        if re.match(r"^[0-9a-f-]{36}$", uuid)
    ]
    return RULE_HEAD + "".join(lines) if lines else ""

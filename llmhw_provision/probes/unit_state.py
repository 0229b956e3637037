"""The state of a service as `systemctl show`, `status`, `is-active` and `list-units --failed` tell it."""

from __future__ import annotations

import re

from llmhw_provision.probes.format import Format, holds, message
from llmhw_provision.probes.reading import last_line, plain_lines, unreadable
from llmhw_provision.probes.systemd import parse_units

_STATES = ("active", "reloading", "inactive", "failed", "activating", "deactivating", "maintenance", "unknown")
_ACTIVE = re.compile(r"^\s*Active: (\S+)(?: \(([^)]*)\))?")
_LOADED = re.compile(r"^\s*Loaded: (\S+)")
_FAILED = re.compile(r"^(?:[●*] )?\s*(\S+\.[a-z]+)\s+(\S+)\s+failed\s+failed\s")


def show_facts(raw: bytes) -> dict[str, object]:
    """The unit's states; several units by name."""
    units = parse_units(raw)
    found: dict[str, object] = {unit["Id"]: unit.get("ActiveState", "") for unit in units if "Id" in unit}
    first = units[0]
    names = {
        "LoadState": "load",
        "ActiveState": "state",
        "SubState": "sub",
        "UnitFileState": "enabled",
        "Result": "result",
    }
    return found | {name: first[key] for key, name in names.items() if key in first}


def status_facts(raw: bytes) -> dict[str, object]:
    """Loaded and active state of the unit."""
    found: dict[str, object] = {}
    for line in plain_lines("systemctl", raw):
        if match := _LOADED.match(line):
            found.setdefault("load", match[1])
        if match := _ACTIVE.match(line):
            found.setdefault("state", match[1])
            found.setdefault("sub", (match[2] or "").removeprefix("Result: "))
    if "state" not in found:
        raise unreadable("systemctl", last_line(raw), "no Active line")
    return found | {"active": found["state"] == "active", "verdict": "pass" if found["state"] == "active" else "fail"}


def word_facts(raw: bytes) -> dict[str, object]:
    """The answer of is-active; its exit status is 0 for active, 3 otherwise, 4 for no such unit."""
    words = [line for line in plain_lines("systemctl", raw) if line]
    if len(words) != 1 or words[0] not in _STATES:
        raise unreadable("systemctl", last_line(raw), "no state")
    rc = 0 if words[0] == "active" else 3
    return {"state": words[0], "active": words[0] == "active", "rc": rc}


def failed_facts(raw: bytes) -> dict[str, object]:
    """Names of failed units."""
    text = plain_lines("systemctl", raw)
    failed = [match[1] for line in text if (match := _FAILED.match(line))]
    counted = next(
        (re.match(r"^([0-9]+) loaded units listed", line) for line in reversed(text) if "listed" in line), None
    )
    if not counted or int(counted[1]) != len(failed):
        raise unreadable("systemctl", last_line(raw), "cut off")
    return {"failed": failed, "verdict": "fail" if failed else "pass"}


_MISSING: dict[str, object] = {"error": True, "rc": 4, "load": "not-found"}
_WORD = "|".join(_STATES).encode()
FORMATS = (
    Format("systemctl show", holds(rb"\A(\w+=.*\n)*?LoadState=\S+$"), show_facts),
    Format("systemctl status", holds(rb"^[ \t]*Loaded: \S+( \(|$)"), status_facts),
    Format("systemctl list-units --failed", holds(rb"^[ \t]*UNIT\s+LOAD\s+ACTIVE\s+SUB\s+DESCRIPTION"), failed_facts),
    Format("systemctl list-units none", holds(rb"^0 loaded units listed\."), failed_facts),
    Format("systemctl is-active", holds(rb"\A(" + _WORD + rb")\n\Z"), word_facts),
    Format("systemctl no unit", holds(rb"\AUnit \S+ could not be found\.$"), message("systemctl", _MISSING)),
)

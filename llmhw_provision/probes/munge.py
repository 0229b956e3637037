"""Whether credentials travel: the output of `munge -n | unmunge`. Exit statuses: munge's error numbers (munge.h)."""

from __future__ import annotations

import re

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format, holds
from llmhw_provision.probes.reading import plain_lines, unreadable

COMMAND = Command("munge", ("sh", "-c", "munge -n | unmunge"), 10)

_ERRORS = {
    "Internal error": 1,
    "Invalid argument": 2,
    "Exceeded maximum message length": 3,
    "Buffer overflow": 4,
    "Out of memory": 5,
    "Socket communication error": 6,
    "Munged communication error": 6,
    "Failed to access": 6,
    "Failed to connect to": 6,
    "Failed to receive": 6,
    "Socket timeout": 7,
    "Invalid credential format": 8,
    "Invalid credential version": 9,
    "Invalid cipher type": 10,
    "Invalid MAC type": 11,
    "Invalid compression type": 12,
    "Unrecognized security realm": 13,
    "Invalid credential": 14,
    "Expired credential": 15,
    "Rewound credential": 16,
    "Replayed credential": 17,
    "Unauthorized credential": 18,
}
_STATUS = re.compile(r"^(.+) \(([0-9]+)\)$")


def facts(raw: bytes) -> dict[str, object]:
    """The status and the exit status that goes with it; `ok` for success."""
    values: dict[str, str] = {}
    for line in plain_lines("unmunge", raw):
        key, colon, value = line.partition(":")
        if line.strip() and not colon:
            raise unreadable("unmunge", line)
        values[key.strip()] = value.strip()
    status = _STATUS.match(values.get("STATUS", ""))
    if not status or "LENGTH" not in values:
        raise unreadable("unmunge", values.get("STATUS", ""), "cut off")
    found: dict[str, object] = {"rc": int(status[2]), "ok": status[2] == "0", "status": status[1]}
    return found | {"encode_host": values.get("ENCODE_HOST", "").split(" ")[0], "error": status[2] != "0"}


def error_facts(raw: bytes) -> dict[str, object]:
    """The exit status that goes with the message."""
    line = next((text for text in plain_lines("unmunge", raw) if re.match(r"^(un)?munge: Error: ", text)), "")
    message = line.partition("Error: ")[2].rstrip()
    matching = [name for name in _ERRORS if message == name or message.startswith((f"{name} ", f"{name}:"))]
    if not matching:
        raise unreadable("unmunge", line, "unknown message")
    return {"rc": _ERRORS[max(matching, key=len)], "ok": False, "status": message, "error": True}


FORMATS = (
    Format("unmunge", holds(rb"\ASTATUS:\s+\S.* \([0-9]+\)$"), facts),
    Format("unmunge error", holds(rb"^(un)?munge: Error: "), error_facts),
)

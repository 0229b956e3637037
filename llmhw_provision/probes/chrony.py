"""Whether the clock follows a time source, from `chronyc tracking` and `timedatectl show`."""

from __future__ import annotations

import re

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format, holds, message
from llmhw_provision.probes.reading import last_line, number, pairs, plain_lines, unreadable, whole

COMMAND = Command("chrony", ("chronyc", "-n", "tracking"), 10)

_SYSTEM = re.compile(r"^([0-9.]+) seconds (slow|fast) of NTP time$")
_SOURCE = re.compile(r"^[\^=#]([*+\-?x~ ])\s*(\S+)\s+([0-9]+)\s+([0-9]+)\s+([0-7]+)\s+\S+\s+\S.*$")


def facts(raw: bytes) -> dict[str, object]:
    """Seconds the clock is ahead of NTP time (negative: behind), stratum, and whether it is synchronised."""
    values: dict[str, str] = {}
    for line in plain_lines("chronyc", raw):
        key, colon, value = line.partition(" : ")
        if not colon:
            raise unreadable("chronyc", line)
        values[key.strip()] = value.strip()
    offset = _SYSTEM.match(values.get("System time", ""))
    if not offset or "Leap status" not in values:
        raise unreadable("chronyc", values.get("System time", ""), "cut off")
    seconds = number("chronyc", offset[1], "System time") * (1 if offset[2] == "fast" else -1)
    return {
        "offset_s": seconds,
        "stratum": whole("chronyc", values.get("Stratum"), "Stratum"),
        "leap": values["Leap status"],
        "synchronised": values["Leap status"] != "Not synchronised",
        "reference": values.get("Reference ID", ""),
        "verdict": "pass" if values["Leap status"] != "Not synchronised" else "fail",
    }


def source_facts(raw: bytes) -> dict[str, object]:
    """The time sources and the one in use."""
    sources, selected = [], ""
    for line in plain_lines("chronyc sources", raw):
        match = _SOURCE.match(line)
        if match:
            sources.append(match[2])
            selected = match[2] if match[1] == "*" else selected
        elif line.strip() and not re.match(r"^(MS Name|=+|\s+\.|\s*/|\|\|?|[0-9]+ Number of sources)", line.strip()):
            raise unreadable("chronyc sources", line)
    return {"sources": sources, "selected": selected, "synchronised": bool(selected)}


def timedate_facts(raw: bytes) -> dict[str, object]:
    """Whether systemd holds the clock synchronised."""
    values = pairs("timedatectl", raw)
    if values.get("NTPSynchronized") not in ("yes", "no"):
        raise unreadable("timedatectl", raw.decode("utf-8", "replace"), "no NTPSynchronized")
    return {"synchronised": values["NTPSynchronized"] == "yes", "timezone": values.get("Timezone", "")}


def status_facts(raw: bytes) -> dict[str, object]:
    """The same from `timedatectl` for people; "NTP synchronized" until systemd 238."""
    values = {}
    for line in plain_lines("timedatectl", raw):
        key, _, value = line.partition(": ")
        values[key.strip()] = value.strip()
    said = values.get("System clock synchronized", values.get("NTP synchronized"))
    if said not in ("yes", "no"):
        raise unreadable("timedatectl", last_line(raw), "no synchronisation line")
    return {"synchronised": said == "yes", "timezone": values.get("Time zone", "").partition(" ")[0]}


FORMATS = (
    Format("chronyc tracking", holds(rb"\AReference ID\s+: "), facts),
    Format("chronyc sources", holds(rb"^MS Name/IP address\s+Stratum Poll Reach"), source_facts),
    Format("chronyc error", holds(rb"^506 Cannot talk to daemon"), message("chronyc", {"rc": 1, "error": True})),
    Format("timedatectl", holds(rb"\A\s*Local time: .*\n\s*Universal time: "), status_facts),
    Format("timedatectl show", holds(rb"\ATimezone=\S+\nLocalRTC="), timedate_facts),
)

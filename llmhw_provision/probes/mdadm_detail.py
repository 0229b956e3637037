"""Software RAID as people read it: `mdadm --detail` (any label width) and the facts of /proc/mdstat."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format, holds
from llmhw_provision.probes.mdadm import StatLine, parse_mdstat
from llmhw_provision.probes.reading import last_line, plain_lines, unreadable, whole

_PAIR = re.compile(r"^\s*([A-Z][\w ()/-]*?) : (.*?)\s*$")
_MEMBER = re.compile(r"^\s*([0-9]+|-)\s+[0-9]+\s+[0-9]+\s+([0-9]+|-)\s+(\S.*?)\s*$")
_GOOD = ("clean", "active", "active, checking", "clean, checking", "active, resyncing", "clean, resyncing")
_AUTO = re.compile(r"^md12[0-7]$")


@dataclass(frozen=True)
class Array:
    """One array; members in array order, without those removed."""

    device: str
    level: str
    state: str
    raid_devices: int
    chunk: str
    uuid: str
    members: tuple[str, ...]
    removed: int
    faulty: tuple[str, ...]


def command(device: str) -> Command:
    """Asks for the array at `device`."""
    return Command(f"mdadm-detail:{device}", ("mdadm", "--detail", device), 15)


def parse(raw: bytes) -> Array:
    """The array; raises ProbeError unless as many members are listed as it has."""
    text = plain_lines("mdadm --detail", raw)
    values: dict[str, str] = {}
    members: list[tuple[str, str]] = []
    below = False
    for line in text[1:]:
        if match := (_MEMBER.match(line) if below else _PAIR.match(line)):
            if below:
                members.append((match[2], match[3]))
            else:
                values[match[1]] = match[2]
        elif line.split() == ["Number", "Major", "Minor", "RaidDevice", "State"]:
            below = True
        elif line.strip():
            raise unreadable("mdadm --detail", line)
    if "Raid Level" not in values or "State" not in values or not below:
        raise unreadable("mdadm --detail", last_line(raw), "cut off")
    count = whole("mdadm --detail", values.get("Raid Devices"), "Raid Devices")
    slots = [member for member in members if member[0] != "-"]
    if len(slots) < count:
        raise unreadable("mdadm --detail", text[-1], f"{count} members announced, {len(slots)} listed")
    present = [state.split()[-1] for _, state in members if "/dev/" in state]
    return Array(
        device=text[0].rstrip(":"),
        level=values["Raid Level"],
        state=values["State"],
        raid_devices=count,
        chunk=values.get("Chunk Size", ""),
        uuid=values.get("UUID", "").partition(" ")[0],
        members=tuple(present),
        removed=sum(state in ("removed", "missing") for _, state in members),
        faulty=tuple(state.split()[-1] for _, state in members if state.startswith("faulty")),
    )


def facts(raw: bytes) -> dict[str, object]:
    """Level, state, members and a verdict on the array."""
    array = parse(raw)
    healthy = array.state in _GOOD and not array.removed and not array.faulty
    return {
        "device": array.device,
        "level": array.level,
        "devices": array.raid_devices,
        "state": array.state,
        "chunk": array.chunk,
        "uuid": array.uuid,
        "members": list(array.members),
        "removed": array.removed,
        "faulty": list(array.faulty),
        "verdict": "pass" if healthy else "fail",
    }


def mdstat_facts(raw: bytes) -> dict[str, object]:
    """Per array its level, state and members; an automatic name means that its ARRAY line was not used."""
    arrays = parse_mdstat(raw)
    found: dict[str, object] = {"arrays": [array.name for array in arrays]}
    for array in arrays:
        about = {"active": array.active, "members": list(array.members), "faulty": list(array.faulty)}
        about["degraded"] = array.degraded
        found[array.name] = about | ({"level": array.level} if array.level else {})
    if any(_AUTO.match(array.name) for array in arrays):
        found["verdict"] = "fail (name and count)"
    elif arrays:
        found["verdict"] = "pass" if all(_good(array) for array in arrays) else "fail"
    return found


def _good(array: StatLine) -> bool:
    return array.active and not array.faulty and not array.degraded


FORMATS = (
    Format("mdadm --detail", holds(rb"\A/dev/\S+:\r?\n\s*Version : "), facts),
    Format("/proc/mdstat", holds(rb"\APersonalities :"), mdstat_facts),
)

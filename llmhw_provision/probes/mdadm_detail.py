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


def examine_facts(raw: bytes) -> dict[str, object]:
    """What the superblock of one member says: its array, level, number of devices, place."""
    text = plain_lines("mdadm --examine", raw)
    values = {match[1].strip(): match[2] for match in map(_PAIR.match, text[1:]) if match}
    missing = [key for key in ("Raid Level", "Raid Devices", "Array State") if key not in values]
    if missing or sum(line.endswith(":") and line.startswith("/dev/") for line in text) != 1:
        raise unreadable("mdadm --examine", last_line(raw), f"no {', '.join(missing)}: cut off, or several members")
    identity = values.get("Array UUID", values.get("UUID", ""))
    role = re.match(r"^Active device ([0-9]+)$", values.get("Device Role", ""))
    return {
        "device": text[0].rstrip(":"),
        "level": values["Raid Level"],
        "devices": whole("mdadm --examine", values["Raid Devices"], "Raid Devices"),
        "uuid": identity.partition(" ")[0],
        "name": values.get("Name", "").partition(" ")[0],
        "state": values.get("State", ""),
        "role": int(role[1]) if role else values.get("Device Role", ""),
    }


def scan_facts(raw: bytes) -> dict[str, object]:
    """The ARRAY lines of `mdadm --detail --scan`: device and UUID of each array."""
    found: dict[str, object] = {}
    for line in plain_lines("mdadm --detail --scan", raw):
        words = line.split()
        uuid = next((word.partition("=")[2] for word in words if word.upper().startswith("UUID=")), "")
        if words[:1] != ["ARRAY"] or len(words) < 3 or not re.fullmatch(r"[0-9a-f]{8}(?::[0-9a-f]{8}){3}", uuid):
            raise unreadable("mdadm --detail --scan", line)
        found[words[1]] = uuid
    return {**found, "arrays": list(found)}


def _error(raw: bytes) -> dict[str, object]:
    return {"error": True, "rc": 1, "message": plain_lines("mdadm", raw)[0].removeprefix("mdadm: ").rstrip()}


def _good(array: StatLine) -> bool:
    return array.active and not array.faulty and not array.degraded


FORMATS = (
    Format("mdadm --detail", holds(rb"\A/dev/\S+:\r?\n\s*Version : "), facts),
    Format("mdadm --examine", holds(rb"\A/dev/\S+:\r?\n\s*Magic : [0-9a-f]+\r?\n"), examine_facts),
    Format("mdadm --detail --scan", holds(rb"\AARRAY /dev/\S+ .*UUID="), scan_facts),
    Format("mdadm error", holds(rb"\Amdadm: (cannot open |\S+ does not appear to be|No md superblock)"), _error),
    Format("/proc/mdstat", holds(rb"\APersonalities :"), mdstat_facts),
)

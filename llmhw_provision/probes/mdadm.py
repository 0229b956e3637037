"""Software RAID: arrays from the kernel (sysfs, /proc/mdstat) and from mdadm, and the ARRAY lines that name them.

An array is always found by UUID or name: /dev/md0 may be /dev/md127 after the next boot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.reading import lines, output, pairs, sections, unreadable, whole

_ATTRIBUTES = " ".join(
    f"md*/md/{name}" for name in ("level", "uuid", "raid_disks", "chunk_size", "array_state", "sync_action", "degraded")
)
_LOOP = """for s in /sys/class/block/md*; do [ -d "$s/md" ] || continue; n=${s##*/}; echo "== $n"
mdadm --detail --export "/dev/$n"; done"""
MDSTAT = Command("mdstat", ("sh", "-c", "if [ -e /proc/mdstat ]; then cat /proc/mdstat; fi"), 5)
KERNEL = Command(
    "md-sysfs",
    (
        "sh",
        "-c",
        f"cd /sys/class/block && grep -sH . {_ATTRIBUTES}; true",
    ),
    10,
)
DETAIL = Command(
    "mdadm-detail",
    (
        "sh",
        "-c",
        _LOOP,
    ),
    15,
)
_FILES = "/etc/mdadm/mdadm.conf /etc/mdadm/mdadm.conf.d/*.conf /etc/mdadm.conf /etc/mdadm.conf.d/*.conf"
CONF = Command(
    "mdadm-conf", ("sh", "-c", f'for f in {_FILES}; do [ -f "$f" ] && echo "== $f" && cat "$f"; done; true'), 5
)
COMMANDS = (MDSTAT, KERNEL, DETAIL, CONF)

_STAT = re.compile(
    r"^(md\S+) : (active|inactive|broken)((?: \([^)]*\))*)(?: ([a-z]+[0-9]*))?((?: \S+\[[0-9]+\](?:\([A-Z]\))*)*)\s*$"
)
_MEMBER = re.compile(r"(\S+)\[([0-9]+)\]((?:\([A-Z]\))*)")
_SYSFS = re.compile(r"^(md[^/]+)/md/(\w+):(.*)$")
_COUNTS = re.compile(r" \[([0-9]+)/([0-9]+)\] \[[U_]+\]")
_UUID = re.compile(r"^[0-9a-f]{8}(:[0-9a-f]{8}){3}$")


@dataclass(frozen=True)
class StatLine:
    """One array in /proc/mdstat. An inactive one has no level; its members are flagged (S); one that lost a member it
    cannot do without is not active either (the kernel writes `broken`)."""

    name: str
    active: bool
    level: str
    members: tuple[str, ...]
    faulty: tuple[str, ...]
    degraded: bool = False


@dataclass(frozen=True)
class Detail:
    """One array as `mdadm --detail --export` describes it."""

    level: str
    uuid: str
    name: str
    raid_devices: int
    members: tuple[str, ...]


@dataclass(frozen=True)
class ArrayLine:
    """One ARRAY line of mdadm.conf."""

    file: str
    device: str
    uuid: str


def parse_mdstat(raw: bytes) -> tuple[StatLine, ...]:
    """The arrays the kernel knows; none when the md module is not loaded."""
    text = lines("/proc/mdstat", raw)
    if text and not text[0].startswith("Personalities :"):
        raise unreadable("/proc/mdstat", text[0])
    if text and not text[-1].startswith("unused devices:"):
        raise unreadable("/proc/mdstat", text[-1], "cut off")
    found: list[StatLine] = []
    for line in text[1:-1]:
        if not line or line[0].isspace():
            counts = _COUNTS.search(line)
            if counts and found and int(counts[2]) < int(counts[1]):
                found[-1] = replace(found[-1], degraded=True)
            continue
        match = _STAT.match(line)
        if not match:
            raise unreadable("/proc/mdstat", line)
        name, state, _, level, members = match.groups()
        parts = _MEMBER.findall(members)
        found.append(
            StatLine(
                name=name,
                active=state == "active",
                level=level or "",
                members=tuple(device for device, _, _ in sorted(parts, key=lambda part: int(part[1]))),
                faulty=tuple(sorted(device for device, _, flags in parts if "(F)" in flags)),
            )
        )
    return tuple(found)


def parse_kernel(raw: bytes) -> dict[str, dict[str, str]]:
    """Attributes of each md device in sysfs, by kernel name."""
    found: dict[str, dict[str, str]] = {}
    for line in lines("sysfs md", raw):
        match = _SYSFS.match(line)
        if not match:
            raise unreadable("sysfs md", line)
        found.setdefault(match[1], {})[match[2]] = match[3].strip()
    return found


def parse_detail(raw: bytes) -> dict[str, Detail]:
    """The arrays by kernel name, members in array order (kernel names)."""
    found: dict[str, Detail] = {}
    for kernel_name, text in sections("mdadm --detail", raw).items():
        values = pairs("mdadm --detail", ("\n".join(text) + "\n").encode())
        if not values:
            continue  # the array stopped between the listing and the question
        uuid = values.get("MD_UUID", "")
        if not _UUID.match(uuid):
            raise unreadable("mdadm --detail", f"{kernel_name} MD_UUID={uuid}")
        found[kernel_name] = Detail(
            level=values.get("MD_LEVEL", ""),
            uuid=uuid,
            name=values.get("MD_NAME", "").rpartition(":")[2] or values.get("MD_DEVNAME", ""),
            raid_devices=whole("mdadm --detail", values.get("MD_DEVICES"), f"{kernel_name} MD_DEVICES"),
            members=_members(values),
        )
    return found


def _members(values: dict[str, str]) -> tuple[str, ...]:
    found: list[tuple[int, str]] = []
    for key, device in values.items():
        match = re.match(r"^MD_DEVICE_(.+)_DEV$", key)
        if match:
            role = values.get(f"MD_DEVICE_{match[1]}_ROLE", "spare")
            found.append((int(role) if role.isdecimal() else 1_000_000, device.removeprefix("/dev/")))
    return tuple(name for _, name in sorted(found))


def parse_conf(raw: bytes) -> tuple[ArrayLine, ...]:
    """The ARRAY lines of all mdadm.conf files, continuation lines joined."""
    found: list[ArrayLine] = []
    for file, text in sections("mdadm.conf", raw).items():
        joined: list[str] = []
        for line in text:
            if line[:1].isspace() and joined:
                joined[-1] += " " + line.strip()
            elif line.strip() and not line.startswith("#"):
                joined.append(line)
        found += [_array_line(file, line) for line in joined if line.split()[0].upper() == "ARRAY"]
    return tuple(found)


def _array_line(file: str, line: str) -> ArrayLine:
    words = line.split("#")[0].split()[1:]
    device = next((word for word in words if "=" not in word), "")
    uuid = next((word[5:] for word in words if word.lower().startswith("uuid=")), "")
    return ArrayLine(file, device, same_form(uuid))


def same_form(uuid: str) -> str:
    """An array UUID as mdadm writes it (8:8:8:8), whichever way its 32 digits are grouped; empty when it is none."""
    digits = re.sub(r"[^0-9a-f]", "", uuid.lower())
    return ":".join(digits[index : index + 8] for index in range(0, 32, 8)) if len(digits) == 32 else ""


def mdstat(evidence: Evidence) -> tuple[StatLine, ...]:
    """The arrays in the host's /proc/mdstat."""
    return parse_mdstat(output(evidence, MDSTAT.key))


def kernel(evidence: Evidence) -> dict[str, dict[str, str]]:
    """What the host's kernel says of each array."""
    return parse_kernel(output(evidence, KERNEL.key))


def details(evidence: Evidence) -> dict[str, Detail]:
    """What mdadm says of each array; empty without mdadm, when the kernel has no arrays either."""
    result = evidence.get(DETAIL.key)
    if result is not None and result.missing and not mdstat(evidence):
        return {}
    return parse_detail(output(evidence, DETAIL.key))


def array_lines(evidence: Evidence) -> tuple[ArrayLine, ...]:
    """The ARRAY lines of the host."""
    return parse_conf(output(evidence, CONF.key))

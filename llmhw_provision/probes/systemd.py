"""Units as systemd has them loaded, from `systemctl show`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.reading import lines, output, unreadable

_PROPERTIES = (
    "Id,LoadState,ActiveState,UnitFileState,FragmentPath,Where,Type,WantedBy,RequiredBy,NeedDaemonReload,"
    "JobRunningTimeoutUSec"
)
# After a mount, What= shows the device that was found; the unit file says by which name it is looked for.
_MOUNT = f"""systemctl show --no-pager -p {_PROPERTIES} "$1"
w=$(sed -n 's/^What=//p' "/etc/systemd/system/$1" 2>/dev/null)
echo; echo "FileWhat=$w"
case $w in /dev/*) systemctl show --no-pager -p {_PROPERTIES} "$(systemd-escape -p --suffix=device "$w")";; esac"""
FSTRIM = "fstrim.timer"
TIMER = Command("fstrim", ("systemctl", "show", "--no-pager", "-p", _PROPERTIES, FSTRIM), 10)
FAILED = Command("failed-units", ("systemctl", "list-units", "--failed", "--plain", "--no-legend", "--no-pager"), 10)

_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)(us|ms|s|min|h|d|w)(?:\s+|$)")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


@dataclass(frozen=True)
class MountUnit:
    """The unit that mounts a path, and the device unit it waits for."""

    properties: dict[str, str]
    file_what: str
    device: dict[str, str]

    @property
    def timeout_s(self) -> float | None:
        """Seconds that boot waits for the device; None: for ever."""
        return span(self.device.get("JobRunningTimeoutUSec", "infinity"))


def unit_name(path: str) -> str:
    """Name of the mount unit of `path`, escaped as systemd-escape does."""
    parts = "-".join(_escaped(part) for part in path.strip("/").split("/"))
    return f"{parts}.mount"


def _escaped(part: str) -> str:
    text = "".join(c if c.isascii() and (c.isalnum() or c in ":_.") else f"\\x{ord(c):02x}" for c in part)
    return "\\x2e" + text[1:] if text.startswith(".") else text


def mount_command(path: str) -> Command:
    """Asks for the mount unit of `path`."""
    return Command(f"mount-unit:{path}", ("sh", "-c", _MOUNT, "sh", unit_name(path)), 15)


def parse_units(raw: bytes) -> tuple[dict[str, str], ...]:
    """Properties of each unit, one dict per block of `systemctl show`."""
    found: list[dict[str, str]] = [{}]
    for line in lines("systemctl", raw):
        if not line:
            found.append({})
            continue
        key, equals, value = line.partition("=")
        if not equals or not key.isalnum():
            raise unreadable("systemctl", line)
        found[-1][key] = value
    units = tuple(unit for unit in found if unit)
    if not units or "LoadState" not in units[0]:
        raise unreadable("systemctl", raw.decode("utf-8", "replace")[:80], "no LoadState")
    return units


def parse_mount(raw: bytes) -> MountUnit:
    """The mount unit and its device unit."""
    unit, *rest = parse_units(raw)
    merged = {key: value for part in rest for key, value in part.items()}
    if "FileWhat" not in merged:
        raise unreadable("systemctl", "no What of the unit file", "cut off")
    return MountUnit(unit, merged.pop("FileWhat"), merged)


def span(text: str) -> float | None:
    """Seconds of a systemd time span such as `1min 30s`; None for infinity."""
    if text == "infinity":
        return None
    parts = _SPAN.findall(text)
    if not parts or _SPAN.sub("", text).strip():
        raise unreadable("systemctl", text, "not a time span")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def parse_failed(raw: bytes) -> tuple[str, ...]:
    """Names of failed units."""
    found = []
    for line in lines("systemctl", raw):
        words = line.replace("●", "").split()
        if len(words) < 4 or "." not in words[0]:
            raise unreadable("systemctl", line)
        found.append(words[0])
    return tuple(sorted(found))


def mount_unit(evidence: Evidence, path: str) -> MountUnit:
    """The unit that mounts `path`."""
    return parse_mount(output(evidence, mount_command(path).key))


def fstrim(evidence: Evidence) -> dict[str, str]:
    """Properties of fstrim.timer."""
    return parse_units(output(evidence, TIMER.key))[0]


def failed(evidence: Evidence) -> tuple[str, ...]:
    """Failed units of the host."""
    return parse_failed(output(evidence, FAILED.key))

"""Sensors and events of the management controller, from `ipmitool sdr`, `sdr elist`, `sensor` and `sel list`.

The status `ok` says nothing of a discrete sensor: a power supply's hex value or words tell whether it works.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format, holds, message
from llmhw_provision.probes.reading import plain_lines, unreadable

SENSORS = Command("ipmi-sdr", ("ipmitool", "sdr", "elist"), 60)
EVENTS = Command("ipmi-sel", ("ipmitool", "sel", "list"), 60)
COMMANDS = (SENSORS, EVENTS)

_STATUS = ("ok", "ns", "nc", "cr", "nr", "us", "lnc", "lcr", "lnr", "unc", "ucr", "unr", "na")
FAULTY = ("nc", "cr", "nr", "lnc", "lcr", "lnr", "unc", "ucr", "unr")
_SUPPLY = re.compile(r"^(PS|PSU|PWS|Power Supply|Pwr Supply)[ _-]?[0-9]", re.IGNORECASE)
_WORDS = re.compile(r"Failure detected|Predictive failure|AC lost|lost or out-of-range|Config Error|Inactive", re.I)
_UNSENT = re.compile(r"^Unable to send command: ")  # stands between the rows where both streams go to one file
_POWER = re.compile(r"^\s*(Instantaneous|Minimum|Maximum|Average) .*?:\s+([0-9]+) Watts\s*$")
_PRESENT = 0x01


@dataclass(frozen=True)
class Sensor:
    """One sensor: status as ipmitool abbreviates it, reading as printed."""

    name: str
    status: str
    reading: str

    @property
    def supply_fault(self) -> bool:
        """Whether a discrete power supply sensor shows anything but presence (IPMI table 42-3, type 08h)."""
        if not _SUPPLY.match(self.name):
            return False
        bits = re.match(r"^0x([0-9a-f]+)$", self.reading.lower())
        return bool(int(bits[1], 16) & ~_PRESENT) if bits else bool(_WORDS.search(self.reading))


def parse_sensors(raw: bytes) -> tuple[Sensor, ...]:
    """The sensors of `sdr` (3 columns), `sdr elist` (5) or `sensor` (10)."""
    text = plain_lines("ipmitool", raw)
    return tuple(_sensor(line) for line in text if line.strip() and not _UNSENT.match(line))


def _sensor(line: str) -> Sensor:
    cells = [cell.strip() for cell in line.split("|")]
    if len(cells) == 3:
        name, reading, status = cells
    elif len(cells) == 5:
        name, _, status, _, reading = cells
    elif len(cells) == 10:
        name, reading, _, status = cells[:4]
        status = {"0x0100": "ok"}.get(status, "ok" if status.startswith("0x") else status)
    else:
        raise unreadable("ipmitool", line)
    if status not in _STATUS:
        raise unreadable("ipmitool", line, f"status {status!r}")
    return Sensor(name, status, reading)


def sensor_facts(raw: bytes) -> dict[str, object]:
    """Names of sensors out of bounds (`bad`, by status), without reading (`ns`), and of failed power supplies."""
    sensors = parse_sensors(raw)
    supplies = [sensor.name for sensor in sensors if sensor.supply_fault]
    found: dict[str, object] = {
        "sensors": [sensor.name for sensor in sensors],
        "psu_fault": supplies,
        "bad": [one.name for one in sensors if one.status in FAULTY or one.supply_fault],
    }
    for status in _STATUS:
        found[status] = [sensor.name for sensor in sensors if sensor.status == status]
    return found | {"verdict": "fail" if found["bad"] else "pass"}


def power_facts(raw: bytes) -> dict[str, object]:
    """Watts of the whole machine, from `ipmitool dcmi power reading`: now, least, most, mean."""
    text = plain_lines("ipmitool dcmi", raw)
    found = {match[1].lower(): int(match[2]) for match in map(_POWER.match, text) if match}
    state = next((line.partition(":")[2].strip() for line in text if "Power reading state is:" in line), "")
    if len(found) != 4 or not state:
        raise unreadable("ipmitool dcmi", text[-1] if text else "", "cut off")
    names = {"instantaneous": "power_w", "minimum": "power_min_w", "maximum": "power_max_w", "average": "power_mean_w"}
    return {**{name: found[key] for key, name in names.items()}, "state": state}


def event_facts(raw: bytes) -> dict[str, object]:
    """The events, and of them those that tell of memory errors and lost power."""
    events = []
    for line in plain_lines("ipmitool sel", raw):
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) < 5 or not re.match(r"^[0-9a-f]+$", cells[0]):
            raise unreadable("ipmitool sel", line)
        events.append(" | ".join(cells[3:]))
    return {
        "events": events,
        "uncorrectable_ecc": sum("Uncorrectable ECC" in event for event in events),
        "correctable_ecc": sum("Correctable ECC" in event for event in events),
        "ac_lost": sum("AC lost" in event for event in events),
    }


_ROW = rb"\A[^|\n]+\|[^|\n]+\|\s*(ok|ns|nc|cr|nr|us|lnc|lcr|lnr|unc|ucr|unr)\s*(\|[^|\n]*\|[^|\n]*)?$"
FORMATS = (
    Format("ipmitool sel list", holds(rb"\A\s*[0-9a-f]+ \| +(([0-9]{2}/){2}[0-9]{2,4}|Pre-Init)"), event_facts),
    Format("ipmitool sel empty", holds(rb"\ASEL has no entries\s*\Z"), message("ipmitool sel", {"events": []})),
    Format("ipmitool sdr", holds(_ROW), sensor_facts),
    Format("ipmitool dcmi power reading", holds(rb"\A\s*Instantaneous power reading:\s+[0-9]+ Watts"), power_facts),
    Format("ipmitool sensor", holds(rb"\A[^|\n]+\|[^|\n]+\|[^|\n]+\|\s*(\w+)\s*(\|[^|\n]+){6}$"), sensor_facts),
    Format(
        "ipmitool without device",
        holds(rb"\ACould not open device at /dev/ipmi"),
        message("ipmitool", {"rc": 1, "error": True}),
    ),
)

"""The state of one adapter port as NVIDIA's `mlxlink` reports it, text or `--json`."""

from __future__ import annotations

import re

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format, holds
from llmhw_provision.probes.reading import json_object, plain_lines, table, unreadable, whole

_PAIR = re.compile(r"^(\S[^:]*?)\s*: (.*?)\s*$")


def command(device: str) -> Command:
    """Asks for the first port of `device` (a PCI address or mlx5_N); needs root and MFT."""
    return Command(f"mlxlink:{device}", ("mlxlink", "-d", device, "--port_type", "NETWORK"), 30)


def facts(raw: bytes) -> dict[str, object]:
    """State, speed, width, opcode of the troubleshooting block, and a verdict."""
    values: dict[str, str] = {}
    for line in plain_lines("mlxlink", raw):
        match = _PAIR.match(line)
        if match:
            values.setdefault(match[1], match[2])
        elif line.strip() and not re.match(r"^(-+|[\w .,/()-]+)$", line.strip()):
            raise unreadable("mlxlink", line)
    return _facts(values)


def json_facts(raw: bytes) -> dict[str, object]:
    """As `facts`, from `mlxlink --json`."""
    result = table(json_object("mlxlink", raw).get("result"), "mlxlink", "result")
    sections = table(result.get("output"), "mlxlink", "output")
    values = [section for section in sections.values() if isinstance(section, dict)]
    return _facts({key: str(value) for section in values for key, value in section.items()})


def _facts(values: dict[str, str]) -> dict[str, object]:
    needed = ("State", "Physical state", "Speed", "Width", "Status Opcode", "Recommendation")
    missing = [key for key in needed if key not in values]
    if missing:
        raise unreadable("mlxlink", f"no {', '.join(missing)}", "cut off")
    opcode = whole("mlxlink", values["Status Opcode"], "Status Opcode")
    width = values["Width"]
    healthy = values["State"] in ("Active", "LinkUp") and opcode == 0 and width not in ("1x", "2x", "N/A")
    return {
        "state": values["State"],
        "phys": values["Physical state"],
        "speed": values["Speed"],
        "width": width,
        "fec": values.get("FEC", ""),
        "opcode": opcode,
        "recommendation": values["Recommendation"],
        "verdict": "pass" if healthy else "fail",
    }


FORMATS = (
    Format("mlxlink", holds(rb"^(\x1b\[[0-9;]*m)?Operational Info(\x1b\[[0-9;]*m)?\s*$"), facts),
    Format("mlxlink --json", holds(rb'\A\s*\{[\s\S]*?"Operational Info"\s*:\s*\{'), json_facts),
)

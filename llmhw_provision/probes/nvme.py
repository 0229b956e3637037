"""NVMe drives from nvme-cli: `nvme list` (table, flat and nested JSON) and `nvme smart-log`.

Sizes below zero (32-bit overflow in old builds) are handed on as they are and never used: lsblk -b gives sizes.
"""

from __future__ import annotations

import re
from typing import Any

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format, holds, message
from llmhw_provision.probes.reading import grouped, json_object, last_line, plain_lines, rows, unreadable, whole

LIST = Command("nvme-list", ("nvme", "list", "-o", "json"), 20)
KELVIN = 273

_ROW = re.compile(r"^(/dev/nvme\S+)\s+(?:/dev/ng\S+\s+)?(\S+)\s+(.+)$")
_SMART = re.compile(r"^([A-Za-z][\w /()-]*?)\s*:\s*(.*?)\s*$")


def smart_command(device: str) -> Command:
    """Asks `device` for its SMART log."""
    return Command(f"nvme-smart:{device}", ("nvme", "smart-log", "-o", "json", device), 20)


def list_facts(raw: bytes) -> dict[str, object]:
    """The drives: `devices` (paths); model, serial, physical_size in bytes of a single one."""
    found: list[dict[str, Any]] = []
    for item in rows(json_object("nvme list", raw).get("Devices"), "nvme list", "Devices"):
        found += _nested(item) if "Subsystems" in item else [_flat(item)]
    result: dict[str, object] = {"devices": [drive["path"] for drive in found], "drives": len(found)}
    if len(found) == 1:
        result |= {"physical_size": found[0]["size"], "model": found[0]["model"], "serial": found[0]["serial"]}
    negative = [drive["path"] for drive in found if isinstance(drive["size"], int) and drive["size"] < 0]
    return result | {"overflow": negative}


def _flat(item: dict[str, Any]) -> dict[str, Any]:
    path, size = item.get("DevicePath"), item.get("PhysicalSize")
    if not isinstance(path, str) or not isinstance(size, int):
        raise unreadable("nvme list", str(item)[:100], "no DevicePath or PhysicalSize")
    return {"path": path, "size": size, "model": item.get("ModelNumber", ""), "serial": item.get("SerialNumber", "")}


def _nested(item: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for subsystem in rows(item["Subsystems"], "nvme list", "Subsystems"):
        controllers = rows(subsystem.get("Controllers"), "nvme list", "Controllers")
        spaces = list(rows(subsystem.get("Namespaces") or [], "nvme list", "Namespaces"))
        spaces += [
            space for one in controllers for space in rows(one.get("Namespaces") or [], "nvme list", "Namespaces")
        ]
        about = controllers[0] if controllers else {}
        for space in spaces:
            named = {**about, **space, "DevicePath": f"/dev/{space.get('NameSpace')}"}
            found.append(_flat(named))
    return found


def table_facts(raw: bytes) -> dict[str, object]:
    """The drives of the table that `nvme list` prints, in both layouts (with and without a Generic column)."""
    text = plain_lines("nvme list", raw)
    start = next((index for index, line in enumerate(text) if line.startswith("Node ")), len(text))
    if len(text) < start + 2 or not text[start + 1].startswith("-----"):
        raise unreadable("nvme list", last_line(raw), "cut off")
    devices, serials = [], []
    for line in text[start + 2 :]:
        match = _ROW.match(line)
        if match:
            devices.append(match[1])
            serials.append(match[2])
        elif line.strip():
            raise unreadable("nvme list", line)
    return {"devices": devices, "drives": len(devices), "serials": serials}


def smart_facts(raw: bytes) -> dict[str, object]:
    """Temperature in Celsius (the JSON has Kelvin), spare and wear in percent, media errors, warning bits."""
    values = json_object("nvme smart-log", raw)
    warning = values.get("critical_warning")
    if isinstance(warning, dict):  # with -v
        warning = warning.get("value")
    kelvin = whole("nvme smart-log", values.get("temperature"), "temperature")
    return _judged(
        kelvin - KELVIN,
        whole("nvme smart-log", warning, "critical_warning"),
        {key: values.get(key) for key in ("media_errors", "percent_used", "avail_spare", "num_err_log_entries")},
    )


def _judged(celsius: int, warning: int, wear: dict[str, Any]) -> dict[str, object]:
    """A warning bit or lost data fails a drive; failed commands (num_err_log_entries) say nothing of its media."""
    found = {key: whole("nvme smart-log", value, key) for key, value in wear.items()}
    bad = bool(warning or found["media_errors"])
    return {"temp_c": celsius, "critical_warning": warning, **found, "verdict": "fail" if bad else "pass"}


def smart_text(raw: bytes) -> dict[str, object]:
    """As `smart_facts`, from the text form."""
    values: dict[str, str] = {}
    for line in plain_lines("nvme smart-log", raw)[1:]:
        if match := _SMART.match(line):
            values[match[1]] = match[2]
        elif line.strip():
            raise unreadable("nvme smart-log", line)
    names = {"media_errors": "media_errors", "percent_used": "percentage_used", "avail_spare": "available_spare"}
    names["num_err_log_entries"] = "num_err_log_entries"
    degrees = re.match(r"^([0-9]+) ?(?:°C|C)", values.get("temperature", ""))
    if not degrees:
        raise unreadable("nvme smart-log", f"temperature {values.get('temperature', '')!r}", "cut off")
    warning = values.get("critical_warning", "")
    number = int(warning, 16) if re.match(r"^0x[0-9a-f]+$", warning) else whole("nvme smart-log", warning, "warning")
    wear = {key: grouped("nvme smart-log", values.get(name, "").rstrip("%"), name) for key, name in names.items()}
    return _judged(int(degrees[1]), number, dict(wear))


_NONE: dict[str, object] = {"rc": 1, "devices": [], "drives": 0}
FORMATS = (
    Format("nvme list -o json", holds(rb'\A\s*\{\s*"Devices"\s*:'), list_facts),
    Format("nvme list", holds(rb"^Node\s+(Generic\s+)?SN\s+Model\s"), table_facts),
    Format("nvme smart-log -o json", holds(rb'\A\s*\{\s*"critical_warning"\s*:'), smart_facts),
    Format("nvme smart-log", holds(rb"\ASmart Log for NVME device:"), smart_text),
    Format(
        "nvme list none",
        holds(rb"\A(Failed to scan topology: .+|No NVMe devices detected\.?)\s*\n\Z"),
        message("nvme list", _NONE),
    ),
)

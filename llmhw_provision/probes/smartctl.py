"""A drive's own health from `smartctl`, JSON (`-j`, since 7.0) or text."""

from __future__ import annotations

import re
from typing import Any

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format, holds
from llmhw_provision.probes.reading import grouped, json_object, last_line, plain_lines, table, unreadable, whole

_HEALTH = re.compile(r"^SMART (?:overall-health self-assessment test result|Health Status): (\S+)")
_PAIR = re.compile(r"^([A-Z][\w /()-]*?):\s+(.*?)\s*$")
_FAILED = re.compile(r"^Smartctl open device: .* failed: ")
_OPEN_FAILED, _NOT_READ = 0x02, 0x03  # bits of the exit status, smartctl(8)
_NVME = {
    "temp_c": "Temperature",
    "media_errors": "Media and Data Integrity Errors",
    "percent_used": "Percentage Used",
    "avail_spare": "Available Spare",
    "spare_threshold": "Available Spare Threshold",
    "unsafe_shutdowns": "Unsafe Shutdowns",
    "power_on_hours": "Power On Hours",
}


def command(device: str) -> Command:
    """Asks `device` for identity, health and attributes; needs root. The exit status is a bit mask, not a verdict."""
    return Command(f"smartctl:{device}", ("sh", "-c", 'smartctl -j -H -i -A "$1"; true', "sh", device), 30)


def json_facts(raw: bytes) -> dict[str, object]:
    """Model, serial, passed, temperature; of NVMe also wear and media errors."""
    document = json_object("smartctl", raw)
    about = table(document.get("smartctl"), "smartctl", "smartctl")
    found: dict[str, object] = {"rc": whole("smartctl", about.get("exit_status"), "exit_status")}
    messages = [str(item.get("string", "")) for item in about.get("messages") or [] if isinstance(item, dict)]
    if messages:
        found["messages"] = messages
    for key, name in (("model_name", "model"), ("serial_number", "serial"), ("firmware_version", "firmware")):
        if isinstance(document.get(key), str):
            found[name] = document[key]
    if whole("smartctl", about.get("exit_status"), "exit_status") & _NOT_READ:
        found["error"] = True
    status = document.get("smart_status")
    if isinstance(status, dict) and isinstance(status.get("passed"), bool):
        found |= {"passed": status["passed"], "verdict": "pass" if status["passed"] else "fail"}
    return _judged(found | _temperature(document) | _log(document.get("nvme_smart_health_information_log")))


def _judged(found: dict[str, object]) -> dict[str, object]:
    """A drive that calls itself healthy fails by its own counters: warning bits, lost data, spare below threshold."""
    counters = ("critical_warning", "media_errors")
    spare, least = found.get("avail_spare"), found.get("spare_threshold")
    worn = isinstance(spare, int) and isinstance(least, int) and spare < least
    return found | ({"verdict": "fail"} if worn or any(found.get(name) for name in counters) else {})


def _temperature(document: dict[str, Any]) -> dict[str, object]:
    value = document.get("temperature")
    return {"temp_c": whole("smartctl", value["current"], "temperature")} if isinstance(value, dict) and value else {}


def _log(log: object) -> dict[str, object]:
    if not isinstance(log, dict):
        return {}
    names = {"media_errors": "media_errors", "percent_used": "percentage_used", "avail_spare": "available_spare"}
    names |= {"spare_threshold": "available_spare_threshold", "unsafe_shutdowns": "unsafe_shutdowns"}
    names |= {"critical_warning": "critical_warning", "power_on_hours": "power_on_hours"}
    return {key: whole("smartctl", log.get(name), name) for key, name in names.items() if name in log}


def facts(raw: bytes) -> dict[str, object]:
    """As `json_facts`, from the text form."""
    values: dict[str, str] = {}
    found: dict[str, object] = {}
    for line in plain_lines("smartctl", raw):
        if match := _HEALTH.match(line):
            good = match[1] in ("PASSED", "OK")
            found |= {"passed": good, "verdict": "pass" if good else "fail"}
        elif match := _PAIR.match(line):
            values.setdefault(match[1], match[2])
    failed = next((line for line in plain_lines("smartctl", raw) if _FAILED.match(line)), "")
    if failed:
        return {"error": True, "rc": _OPEN_FAILED, "messages": [failed.rstrip()]}
    if "passed" not in found and "Device Model" not in values and "Model Number" not in values:
        raise unreadable("smartctl", last_line(raw), "no health and no model")
    for name, key in (("Model Number", "model"), ("Device Model", "model"), ("Serial Number", "serial")):
        if name in values:
            found[key] = values[name]
    for key, name in _NVME.items():
        if name in values:
            digits = re.match(r"^[0-9,]+", values[name])
            found[key] = grouped("smartctl", digits[0] if digits else values[name], name)
    if re.match(r"^0x[0-9a-fA-F]+$", values.get("Critical Warning", "")):
        found["critical_warning"] = int(values["Critical Warning"], 16)
    return _judged(found)


FORMATS = (
    Format("smartctl -j", holds(rb'\A\s*\{[\s\S]*?"smartctl"\s*:\s*\{'), json_facts),
    Format("smartctl", holds(rb"\Asmartctl [0-9.]+ [0-9-]+ r?[0-9]*.*\["), facts),
)

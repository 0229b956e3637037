"""The drives' own health, their PCIe links and those of the network adapters, and the management controller."""

from __future__ import annotations

from llmhw_provision.checks.gpu_views import gpus_of, judged
from llmhw_provision.checks.model import Check, Outcome, failed, passed, warned
from llmhw_provision.checks.views import NotThere, loses
from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.plan.model import ExpectedDisk, HostPlan
from llmhw_provision.probes import dmesg, ipmi, lspci, nvme
from llmhw_provision.probes.lspci import Function
from llmhw_provision.probes.reading import output

# NVM Express base specification, SMART log page 02h: bits of critical_warning.
_BITS = {
    0: "spare blocks used up",
    1: "too hot",
    2: "unreliable after errors",
    3: "read only",
    4: "backup of its cache failed",
    5: "persistent memory read only",
}
_WEAR = 100  # percent of the endurance that the vendor promises (the same log page)
_ENDPOINTS = ("Non-Volatile memory controller", "Infiniband controller", "Ethernet controller")
_LOG = ("nvme_timeout", "nvme_down", "io_error")


def _nvme(host: HostPlan) -> tuple[ExpectedDisk, ...]:
    return tuple(disk for disk in host.disks if "/nvme-" in disk.by_id)


def _disk(host: HostPlan, serial: str) -> ExpectedDisk:
    return next(disk for disk in host.disks if disk.serial == serial)


def _asked(host: HostPlan) -> tuple[str, ...]:
    return tuple(disk.serial for disk in _nvme(host)) if host.expected and host.expected.smart else ()


def health(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """The drive warns of nothing, has lost nothing and is not worn out."""
    key = nvme.smart_command(_disk(host, subject).by_id).key
    result = evidence.get(key)
    if result is not None and b"No such file" in result.stderr:
        raise NotThere(f"no drive with serial {subject}")
    found = nvme.smart_facts(output(evidence, key))
    warning, lost, worn = (int(str(found[name])) for name in ("critical_warning", "media_errors", "percent_used"))
    expected = "no warning, no media error"
    told = [text for bit, text in _BITS.items() if warning >> bit & 1]
    if warning:
        text = ", ".join(told) or f"critical warning {warning:#x}"
        hot = told == [_BITS[1]]
        return failed(text + ("" if hot else _stakes(host, subject)), expected, "hot" if hot else "")
    if lost:
        return failed(f"{lost} media errors{_stakes(host, subject)}", expected, "media")
    if worn >= _WEAR:
        return warned(f"{worn} % of its endurance used", expected, "worn")
    return passed(f"{worn} % used, {found['temp_c']} °C", expected)


def _stakes(host: HostPlan, serial: str) -> str:
    text = loses(host, serial)
    return f"; if it dies, {text}" if text else ""


def log(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The kernel log tells of no drive that does not answer."""
    found = [name for name in dmesg.parse(output(evidence, dmesg.COMMAND.key)).other if name in _LOG]
    expected = "no drive error since boot"
    return (
        failed(", ".join(name.replace("_", " ") for name in found), expected) if found else passed(expected, expected)
    )


def links(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Drives and network adapters have all lanes and the speed that they can do. Bridges may be slower by design."""
    functions = [one for one in lspci.functions(evidence) if one.kind in _ENDPOINTS and one.speed]
    narrow = {one.address: _link(one) for one in functions if _below(one.width, one.width_max, one.remarks[1])}
    if narrow:
        return judged(narrow, "", "all lanes, full speed", variant="width")
    slow = {one.address: _link(one) for one in functions if _below(one.speed, one.speed_max, one.remarks[0])}
    return judged(slow, f"{len(functions)} devices", "all lanes, full speed")


def _below(current: str, most: str, remark: str) -> bool:
    return remark == "downgraded" or (bool(most) and _amount(current) < _amount(most))


def _amount(text: str) -> float:
    digits = text.removeprefix("x").removesuffix("GT/s")
    return float(digits) if digits.replace(".", "", 1).isdigit() else 0.0


def _link(one: Function) -> str:
    kind = "drive" if one.kind == _ENDPOINTS[0] else "network adapter"
    return f"{kind} at {one.speed} {one.width}, can do {one.speed_max or '?'} {one.width_max or '?'}"


def sensors(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """No sensor of the management controller is out of bounds, and every power supply works."""
    found = ipmi.parse_sensors(output(evidence, ipmi.SENSORS.key))
    bad = {one.name: f"{one.reading}, {one.status}" for one in found if one.name in _faulty(found)}
    supplies = any(one.supply_fault for one in found)
    return judged(bad, f"{len(found)} sensors", "none out of bounds", variant="power" if supplies else "")


def _faulty(found: tuple[ipmi.Sensor, ...]) -> list[str]:
    return [one.name for one in found if one.status in ipmi.FAULTY or one.supply_fault]


def events(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The event log of the management controller holds no memory error that could not be corrected."""
    raw = output(evidence, ipmi.EVENTS.key)
    if raw.strip() == b"SEL has no entries":
        return passed("no entries", "no uncorrectable memory error")
    found = ipmi.event_facts(raw)
    expected = "no uncorrectable memory error, no lost power"
    if found["uncorrectable_ecc"]:
        return failed(f"{found['uncorrectable_ecc']} uncorrectable memory errors", expected)
    if found["ac_lost"]:
        return warned(f"{found['ac_lost']}× power lost", expected, "power")
    return passed("neither", expected)


def _machine(host: HostPlan) -> tuple[str, ...]:
    gpus = gpus_of(host)
    return ("",) if gpus is not None and gpus.driver is not None else ()


def _any(host: HostPlan) -> tuple[str, ...]:
    return ("",) if host.expected is not None else ()


def _managed(host: HostPlan) -> tuple[str, ...]:
    return ("",) if host.expected and host.expected.management_controller else ()


def commands(host: HostPlan) -> tuple[Command, ...]:
    """What must be read on the host."""
    wanted = [nvme.smart_command(_disk(host, serial).by_id) for serial in _asked(host)]
    return (*wanted, *ipmi.COMMANDS) if _managed(host) else tuple(wanted)


CHECKS = (
    Check("drive-health", "drives", ("quick",), "major", "drives", "nvme-smart:{disk}", _asked, health),
    Check("drive-log", "drives", ("before", "quick"), "critical", "drives", "dmesg", _any, log),
    Check("pcie-links", "drives", ("quick",), "major", "drives", "lspci", _machine, links),
    Check("bmc-sensors", "host", ("quick",), "major", "bmc", "ipmi-sdr", _managed, sensors),
    Check("bmc-events", "host", ("quick",), "major", "bmc", "ipmi-sel", _managed, events),
)

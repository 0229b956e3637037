"""The drives' own health, their PCIe links and those of the network adapters, and the management controller."""

from __future__ import annotations

from llmhw_provision.checks.gpu_views import gpus_of, judged
from llmhw_provision.checks.model import Check, Outcome, failed, passed, warned
from llmhw_provision.checks.views import NotThere, loses
from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.plan.model import ExpectedDisk, HostPlan
from llmhw_provision.probes import dmesg, ipmi, lspci, nvme, smartctl
from llmhw_provision.probes.lspci import Function
from llmhw_provision.probes.reading import output, unreadable

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


def _drives(host: HostPlan, *, nvme: bool) -> tuple[str, ...]:
    asked = host.expected is not None and host.expected.smart
    found = [disk for disk in host.disks if disk.serial and disk.by_id and asked]
    return tuple(disk.serial for disk in found if ("/nvme-" in disk.by_id) == nvme)


def _disk(host: HostPlan, serial: str) -> ExpectedDisk:
    return next(disk for disk in host.disks if disk.serial == serial)


def _asked(host: HostPlan) -> tuple[str, ...]:
    return _drives(host, nvme=True)


def _others(host: HostPlan) -> tuple[str, ...]:
    return _drives(host, nvme=False)


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


def other_health(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """A drive that is not NVMe passes its own health test."""
    found = smartctl.json_facts(output(evidence, smartctl.command(_disk(host, subject).by_id).key))
    if "passed" not in found:
        raise unreadable("smartctl", str(found.get("messages", "")), "no health status")
    if not found["passed"]:
        return failed(f"its own test fails{_stakes(host, subject)}", "passes its own test")
    return passed(f"passes, {found['temp_c']} °C" if "temp_c" in found else "passes", "passes its own test")


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
    """No drive or adapter has a poorer link than its equals; a link that is poor on all of them is the slots' design.

    Bridges and adapters of other makers (a server's own Ethernet) may be slower than they could by design.
    """
    functions = [one for one in lspci.functions(evidence) if _asked_for(one)]
    expected = "equal devices have equal links, as good as they can"
    poor = [one for one in functions if _narrow(one) or _below(one.speed, one.speed_max, one.remarks[0])]
    alone = [one for one in poor if any(other.name == one.name and _rank(other) > _rank(one) for other in functions)]
    if alone:
        bad = {one.address: _link(one) for one in alone}
        return judged(bad, "", expected, variant="width" if any(map(_narrow, alone)) else "")
    all_of_them = {one.address: _link(one) for one in poor}
    return judged(all_of_them, f"{len(functions)} devices", expected, variant="slots", status="warn")


def _asked_for(one: Function) -> bool:
    drive = one.kind == _ENDPOINTS[0]
    return bool(one.speed) and (drive or (one.kind in _ENDPOINTS and "Mellanox" in one.name))


def _narrow(one: Function) -> bool:
    return _below(one.width, one.width_max, one.remarks[1])


def _rank(one: Function) -> tuple[float, float]:
    return _amount(one.width), _amount(one.speed)


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
    wanted += [smartctl.command(_disk(host, serial).by_id) for serial in _others(host)]
    return (*wanted, *ipmi.COMMANDS) if _managed(host) else tuple(wanted)


CHECKS = (
    Check("drive-health", "drives", ("quick",), "major", "drives", "nvme-smart:{disk}", _asked, health),
    Check("drive-test", "drives", ("quick",), "major", "drives", "smartctl:{disk}", _others, other_health),
    Check("drive-log", "drives", ("before", "quick"), "critical", "drives", "dmesg", _any, log),
    Check("pcie-links", "drives", ("quick",), "major", "drives", "lspci", _machine, links),
    Check("bmc-sensors", "host", ("quick",), "major", "bmc", "ipmi-sdr", _managed, sensors),
    Check("bmc-events", "host", ("quick",), "major", "bmc", "ipmi-sel", _managed, events),
)

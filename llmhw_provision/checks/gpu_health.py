"""The GPUs' own state: memory errors, clocks, heat, power, and what the kernel log tells of them."""

from __future__ import annotations

from llmhw_provision.checks.gpu_views import (
    facts,
    gpus_of,
    judged,
    planned,
    rows,
    with_driver,
    with_gpus,
    with_switch,
)
from llmhw_provision.checks.model import Check, Outcome, failed, passed, warned
from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import dmesg, nvidia_csv
from llmhw_provision.probes import nvidia_query as query
from llmhw_provision.probes.reading import output, unreadable

# Drivers round the limit; the lowest step that people set is 5 W.
_POWER = 0.01
# Between front and rear row of an air-cooled board lie 10 to 15 K. Own judgement, no vendor states a limit.
_HOTTER_K = 20
_BUSIER = 1.5  # a GPU that draws so many times what the others draw is at work, and they are not
_UNCORRECTABLE = (
    *("sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_sec_ded", "dram_uncorrectable"),
)
_WAITS = ("remap_pending", "retired_pending", "channel_repair_pending", "tpc_repair_pending")
# NVIDIA's Xid catalogue, in few words: what the number stands for, and which of our causes it belongs to.
_XIDS: dict[int, tuple[str, str]] = {
    13: ("graphics engine exception", "application"),
    31: ("memory page fault", "application"),
    43: ("GPU stopped processing", "application"),
    45: ("preemptive cleanup", "application"),
    46: ("GPU stopped processing", "bus"),
    48: ("double bit ECC error", "memory"),
    61: ("internal micro-controller halt", "firmware"),
    62: ("internal micro-controller halt", "firmware"),
    63: ("row remapping recorded, waits for a reset", "remap"),
    64: ("row remapping failed", "memory"),
    74: ("NVLink error", "nvlink"),
    79: ("fallen off the bus", "bus"),
    92: ("high single bit ECC error rate", "memory"),
    94: ("contained memory error", "contained"),
    95: ("uncontained memory error", "memory"),
    109: ("context switch timeout", "firmware"),
    110: ("security fault", "firmware"),
    119: ("GSP does not answer", "firmware"),
    120: ("GSP error", "firmware"),
    136: ("link training failed", "nvlink"),
    140: ("unrecovered ECC error", "memory"),
    143: ("GPU initialisation error", "firmware"),
    154: ("recovery action needed", "reset"),
    155: ("NVLink software-defined error", "nvlink"),
    156: ("resource retirement", "memory"),
    158: ("GPU fatal timeout", "firmware"),
}
# Which cause is told when there are several: the one that explains the others first.
_ORDER = ("bus", "memory", "nvlink", "firmware", "reset", "remap", "contained", "application")
_MILD = ("remap", "contained", "application")


def ecc(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """ECC is on where the card has it, and has met no error that it could not correct since the driver was loaded."""
    bad, old = {}, {}
    expected = "ECC on, no uncorrectable error"
    for gpu, values in facts(evidence).items():
        if "ecc_mode" not in values:
            raise unreadable("nvidia-smi -q", gpu, "no ECC Mode")
        if values["ecc_mode"] != "Enabled" or values.get("ecc_pending", "Enabled") != "Enabled":
            return failed(f"{gpu}: {values['ecc_mode']}, pending {values.get('ecc_pending')}", expected, "off")
        counts = {span: _sum(values, span) for span in ("volatile", "aggregate")}
        if counts["volatile"] is None and counts["aggregate"] is None:
            raise unreadable("nvidia-smi -q", gpu, "no ECC Errors")
        if counts["volatile"]:
            bad[gpu] = f"{counts['volatile']} uncorrectable"
        elif values.get("sram_threshold_exceeded") == "Yes":
            bad[gpu] = "SRAM threshold exceeded"
        elif counts["aggregate"]:
            old[gpu] = f"{counts['aggregate']} uncorrectable in its life, none since the driver was loaded"
    if old and not bad:
        return judged(old, "", expected, variant="history", status="warn")
    return judged(bad, "on, no uncorrectable error", expected)


def _sum(values: dict[str, object], span: str) -> int | None:
    """Uncorrectable errors of one counting span; None when the card shows none of the counters."""
    counts = [values[f"{name}_{span}"] for name in _UNCORRECTABLE if isinstance(values.get(f"{name}_{span}"), int)]
    return sum(int(str(count)) for count in counts) if counts else None


def remap(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """No memory waits for its repair, and no repair has failed. In MIG mode the driver does not tell."""
    expected = "no repair pending, none failed"
    pending, lost, silent = {}, {}, []
    found = facts(evidence)
    for gpu, values in found.items():
        if "remap_failure" not in values and "retired_pending" not in values:
            raise unreadable("nvidia-smi -q", gpu, "neither Remapped Rows nor Retired Pages")
        if values.get("remap_failure") == "Yes":
            lost[gpu] = "remapping failed"
        elif any(values.get(name) == "Yes" for name in _WAITS):
            what = [name.replace("_", " ") for name in _WAITS if values.get(name) == "Yes"]
            pending[gpu] = ", ".join(what)
        elif values.get("remap_failure") is None and values.get("retired_pending", "N/A") == "N/A":
            silent.append(gpu)
    if lost:
        return judged(lost, "", expected, variant="failed")
    if silent and not planned(host).mig and not pending:
        raise unreadable("nvidia-smi -q", f"{', '.join(silent)} Remapped Rows N/A", "not in MIG mode")
    good = "not told in MIG mode" if silent else f"none on {len(found)} GPUs"
    return judged(pending, good, expected)


def slowdown(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Nothing slows the clocks down but idleness and the power limit."""
    bad: dict[str, str] = {}
    found = facts(evidence)
    for gpu, values in found.items():
        reasons = values.get("slowdown")
        if not isinstance(reasons, list):
            raise unreadable("nvidia-smi -q", gpu, "no clock reasons")
        if reasons:
            bad[gpu] = ", ".join(map(str, reasons))
    variant = "brake" if any("Brake" in text for text in bad.values()) else ""
    return judged(bad, f"none on {len(found)} GPUs", "no slowdown", variant=variant)


def temperature(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """No GPU is far hotter than others that draw as much; what is too hot slows down, which another check tells."""
    degrees, watts = {}, {}
    for gpu, row in rows(evidence).items():
        value = nvidia_csv.number(row["temperature.gpu"])
        if value is None:
            raise unreadable("nvidia-smi", f"{gpu} temperature {row['temperature.gpu']}")
        degrees[gpu], watts[gpu] = value, nvidia_csv.number(row["power.draw"]) or 0
    middle = sorted(degrees.values())[len(degrees) // 2]
    usual = sorted(watts.values())[len(watts) // 2]
    far = [gpu for gpu, value in degrees.items() if value > middle + _HOTTER_K and watts[gpu] <= usual * _BUSIER]
    hot = {gpu: f"{degrees[gpu]} °C, the others about {middle}" for gpu in far}
    found = f"{min(degrees.values())} to {max(degrees.values())} °C"
    return judged(hot, found, f"within {_HOTTER_K} K of others that draw as much")


def power(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """No power limit is below the planned one."""
    wanted = planned(host).power_limit_w or 0
    limits = {}
    for gpu, row in rows(evidence).items():
        value = nvidia_csv.number(row["power.limit"])
        if value is None:
            raise unreadable("nvidia-smi", f"{gpu} power.limit {row['power.limit']}")
        limits[gpu] = value
    bad = {gpu: f"{value:g} W" for gpu, value in limits.items() if value < wanted * (1 - _POWER)}
    text = ", ".join(f"{value:g} W" for value in sorted(set(limits.values())))
    return judged(bad, text, f"{wanted} W or more")


def xids(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The driver has reported no fault of a GPU since boot; faults of applications and waiting remaps are warnings."""
    log = dmesg.parse(output(evidence, dmesg.COMMAND.key))
    expected = "no Xid since boot"
    seen: dict[str, str] = {}
    causes = set()
    for event in log.xids:
        words, cause = _XIDS.get(event.number, ("", "firmware" if event.number in dmesg.HARDWARE else "application"))
        causes.add(cause)
        seen.setdefault(f"Xid {event.number} at {event.pci}", words or "not in our list")
    for address in log.fallen:
        causes.add("bus")
        if not any(key.startswith("Xid 79") for key in seen):
            seen[address] = "fallen off the bus"
    if not seen:
        return passed(expected, expected)
    worst = min(causes, key=_ORDER.index)
    first = sorted(seen.items(), key=lambda item: _rank(item[0]))
    return judged(dict(first), "", expected, variant=worst, status="warn" if worst in _MILD else "fail")


def _rank(key: str) -> int:
    number = int(key.split()[1]) if key.startswith("Xid ") else 79
    return _ORDER.index(_XIDS.get(number, ("", "application"))[1])


def sxids(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The NVSwitches have reported no error since boot; one that is not fatal is a warning."""
    events = dmesg.parse(output(evidence, dmesg.COMMAND.key)).sxids
    expected = "no SXid since boot"
    fatal = {f"SXid {event.number} at {event.pci}": "fatal" for event in events if event.fatal}
    if fatal:
        return judged(fatal, "", expected)
    mild = {f"SXid {event.number} at {event.pci}": "not fatal" for event in events}
    return judged(mild, expected, expected, variant="mild", status="warn")


def pcie_errors(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The kernel has logged no PCIe error; corrected ones cost speed and are a warning."""
    log = dmesg.parse(output(evidence, dmesg.COMMAND.key))
    expected = "no PCIe error since boot"
    if log.uncorrected:
        return failed(f"uncorrected, from {', '.join(dict.fromkeys(log.uncorrected))}", expected)
    if log.corrected:
        each = {name: f"{log.corrected.count(name)} corrected" for name in dict.fromkeys(log.corrected)}
        return judged(each, "", expected, variant="corrected", status="warn")
    return passed(expected, expected)


def machine_errors(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The processors have reported no hardware error, and memory none that could not be corrected."""
    other = dmesg.parse(output(evidence, dmesg.COMMAND.key)).other
    expected = "no hardware error since boot"
    if "edac_uncorrected" in other:
        return failed("uncorrectable memory error (EDAC)", expected)
    return (
        warned("machine check events", expected, "events") if "machine_check" in other else passed(expected, expected)
    )


def _limited(host: HostPlan) -> tuple[str, ...]:
    gpus = gpus_of(host)
    return ("",) if gpus is not None and gpus.driver is not None and gpus.power_limit_w is not None else ()


def _corrected(host: HostPlan) -> tuple[str, ...]:
    gpus = gpus_of(host)
    return ("",) if gpus is not None and gpus.driver is not None and gpus.ecc else ()


def _hardware(host: HostPlan) -> tuple[str, ...]:
    return ("",) if host.expected is not None else ()


_MEMORY, _HEAT, _XID = "gpu-memory", "gpu-thermal", "gpu-xid"
_Q, _ROWS, _LOG = query.COMMAND.key, nvidia_csv.QUERY.key, dmesg.COMMAND.key
CHECKS = (
    Check("gpu-ecc", "gpu", ("quick",), "critical", _MEMORY, _Q, _corrected, ecc),
    Check("gpu-remap", "gpu", ("quick",), "critical", _MEMORY, _Q, _corrected, remap),
    Check("gpu-slowdown", "gpu", ("quick",), "major", _HEAT, _Q, with_driver, slowdown),
    Check("gpu-temperature", "gpu", ("quick",), "major", _HEAT, _ROWS, with_driver, temperature),
    Check("gpu-power", "gpu", ("quick",), "major", _HEAT, _ROWS, _limited, power),
    Check("gpu-xid", "gpu", ("before", "quick"), "critical", _XID, _LOG, with_gpus, xids),
    Check("gpu-sxid", "gpu", ("quick",), "critical", "gpu-fabric", _LOG, with_switch, sxids),
    Check("pcie-errors", "host", ("before", "quick"), "major", _XID, _LOG, _hardware, pcie_errors),
    Check("host-errors", "host", ("before", "quick"), "critical", "bmc", _LOG, _hardware, machine_errors),
)

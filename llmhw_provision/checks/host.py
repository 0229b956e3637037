"""The host itself: system, memory, units."""

from __future__ import annotations

import re

from llmhw_provision.checks.model import Check, Outcome, compared, failed, passed, warned
from llmhw_provision.checks.views import volumes, whole_host
from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import system, systemd
from llmhw_provision.probes.reading import ProbeError
from llmhw_provision.units import memory

# One DIMM of 32 is 3.1 %; kernels differ by well under 0.5 % in what they keep for themselves.
_WARN, _FAIL = 0.005, 0.02


def operating_system(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The release that the plan was made for; a point release (24.04.1 → 24.04.2) is no difference."""
    found = system.os_of(evidence).pretty_name
    if _release(found) == _release(host.os):
        return passed(found, host.os)
    return failed(found, host.os)


def _release(pretty: str) -> str:
    return re.sub(r"([0-9]+\.[0-9]+)\.[0-9]+", r"\1", pretty)


def total_memory(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Memory as it was when the plan was made."""
    found = system.memory_of(evidence)
    change = (found - host.memory_bytes) / max(host.memory_bytes, 1)
    texts = memory(found), memory(host.memory_bytes)
    if change < -_FAIL:
        return failed(*texts)
    return warned(*texts, "changed") if abs(change) > _WARN else passed(*texts)


def same_nature(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """A plan made from a virtual machine belongs to one, and a plan for a server to a server."""
    kind = system.virtualization(evidence)
    expected = "a virtual machine" if host.rehearsal else "a machine of its own"
    found = f"a virtual machine ({kind})" if kind != "none" else "a machine of its own"
    return passed(found, expected) if (kind != "none") == host.rehearsal else failed(found, expected)


def is_rehearsal(host: HostPlan, evidence: Evidence) -> bool:
    """Whether nothing read here is a measurement: planned or read as a virtual machine, or answered by stand-ins."""
    if host.rehearsal or evidence.origin == "stand-in":
        return True
    try:
        return system.virtualization(evidence) != "none"
    except ProbeError:
        return False  # the check host-nature says that it could not run


def failed_units(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """No unit has failed."""
    found = systemd.failed(evidence)
    shown = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
    return warned(shown, "none") if found else passed("none", "none")


def trim_timer(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Freed blocks are given back to the drives every week."""
    unit = systemd.fstrim(evidence)
    if unit["LoadState"] != "loaded":
        return failed(f"fstrim.timer is {unit['LoadState']}", "enabled, active")
    return compared(f"{unit.get('UnitFileState', '')}, {unit.get('ActiveState', '')}", "enabled, active")


def _with_os(host: HostPlan) -> tuple[str, ...]:
    return ("",) if host.os else ()


def _with_trim(host: HostPlan) -> tuple[str, ...]:
    return ("",) if any(item.trim == "weekly" for item in volumes(host)) else ()


CHECKS = (
    Check("host-os", "host", ("before", "quick"), "major", "host-differs", "os-release", _with_os, operating_system),
    Check("host-memory", "host", ("before", "quick"), "major", "host-differs", "meminfo", whole_host, total_memory),
    Check("host-nature", "host", ("before", "quick"), "critical", "host-differs", "virt", whole_host, same_nature),
    Check("host-units", "host", ("quick",), "minor", "host-units", "failed-units", whole_host, failed_units),
    Check("host-trim", "host", ("quick",), "minor", "host-units", "fstrim", _with_trim, trim_timer),
)

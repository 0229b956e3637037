"""The watch that tells of lost drives while nobody runs verify: it is on, it looks, and it has found nothing."""

from __future__ import annotations

from llmhw_provision.checks.model import Check, Outcome, failed, passed
from llmhw_provision.checks.views import volume_names
from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import volume_watch
from llmhw_provision.probes.reading import ProbeError

# It looks every 60 s; a look takes 10 s at most for each file system that does not answer.
_OLD_S = 300
# The first look after a start waits for the mounts, and these for their devices (600 s at most).
_FIRST_S = 900


def watched(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The timer runs, its last look is fresh, saw every planned volume, and found no fault."""
    names = volume_names(host)
    expected = f"looks every minute, no fault of {', '.join(names)}"
    found = volume_watch.watch(evidence)
    timer = found.timer
    if (timer.get("UnitFileState"), timer.get("ActiveState")) != ("enabled", "active"):
        shown = f"{timer.get('UnitFileState') or timer['LoadState']}, {timer.get('ActiveState', '')}"
        return failed(f"{volume_watch.TIMER} is {shown}", expected, "off")
    look = found.look
    if look is None:
        if found.uptime_s < _FIRST_S:
            raise ProbeError(f"volume-watch: no look yet, {found.uptime_s} s after the start of the machine")
        return failed("it has never looked since the machine was started", expected, "off")
    age = found.uptime_s - look.uptime_s
    if age > _OLD_S:
        return failed(f"its last look was {age // 60} min ago", expected, "off")
    if look.faults:
        return failed("; ".join(look.faults), expected)
    unseen = [name for name in names if name not in look.volumes]
    if unseen:
        return failed(f"does not look at {', '.join(unseen)}", expected, "off")
    return passed(f"no fault of {', '.join(look.volumes)}", expected)


def _with_volumes(host: HostPlan) -> tuple[str, ...]:
    return ("",) if volume_names(host) else ()


CHECKS = (
    Check(
        "volume-watch",
        "array",
        ("quick",),
        "critical",
        "storage-replace-drive",
        "volume-watch",
        _with_volumes,
        watched,
    ),
)

"""Slurm as the node sees it: registered with all GPUs, its controller up, its credentials good."""

from __future__ import annotations

import re

from llmhw_provision.checks.gpu_views import gpus_of
from llmhw_provision.checks.model import Check, Outcome, failed, passed
from llmhw_provision.checks.services import services_of
from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import munge, slurm, slurm_node
from llmhw_provision.probes.reading import output, unreadable

_SLURM_LOG = Command(
    "slurm-log",
    ("sh", "-c", "journalctl -q -b -o cat --no-pager -n 300 -u slurmd -u slurmctld; true"),
    20,
)
_MUNGE = {14: "key", 15: "clock", 16: "clock", 6: "down", 7: "down"}
# Flags of a node that takes jobs (scontrol(1), node state flags)
_HARMLESS = {"PLANNED", "CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE", "COMPLETING", "RESERVED", "BLOCKED"}
_HEALTHY = ("IDLE", "MIXED", "ALLOCATED", "COMPLETING", "RESERVED", "PLANNED")


def node(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """Slurm uses the node: registered, not drained, with all its GPUs."""
    found = {one.name: one for one in slurm_node.parse(output(evidence, slurm_node.COMMAND.key))}
    gpus = gpus_of(host)
    wanted = gpus.count if gpus else 0
    expected = "in use or idle" + (f", {wanted} GPUs" if wanted else "")
    one = found.get(subject)
    if one is None:
        return failed("not known to Slurm", expected, "unknown")
    text = "+".join((one.state, *one.flags)) + f", {one.gpus} GPUs" + (f": {one.reason}" if one.reason else "")
    if "gres/gpu count reported lower" in one.reason or (wanted and one.gpus < wanted):
        return failed(text, expected, "gpus")
    if "INVALID_REG" in one.flags:
        return failed(text, expected, "invalid")
    if "NOT_RESPONDING" in one.flags or one.state in ("DOWN", "UNKNOWN"):
        return failed(text, expected, "down")
    if "Low RealMemory" in one.reason:
        return failed(text, expected, "memory")
    if one.state not in _HEALTHY or set(one.flags) - _HARMLESS:
        return failed(text, expected)
    return passed(text, expected)


def gres(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """slurmd itself finds as many GPUs as are planned."""
    gpus = gpus_of(host)
    wanted = gpus.count if gpus else 0
    expected = f"{wanted} GPUs"
    result = evidence.get(slurm.GRES.key)
    if result is None:
        raise unreadable("slurmd -G", "", "not read")
    said = result.stdout + result.stderr
    if re.search(rb"^slurmd: (error|fatal): ", said, re.MULTILINE):
        cause = slurm.error_facts(said)
        return failed(str(cause["message"]), expected, "device" if "gres.conf" in str(cause["error"]) else "")
    output(evidence, slurm.GRES.key)
    found = slurm.gres_facts(said)["count"]
    return passed(f"{found} GPUs", expected) if found == wanted else failed(f"{found} GPUs", expected)


def controller(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Slurm's controller answers the node."""
    result = evidence.get(slurm.PING.key)
    expected = "up"
    if result is not None and re.search(rb"(error|fatal): ", result.stderr):
        return failed(str(slurm.error_facts(result.stderr)["message"]), expected, "configuration")
    down = result is not None and result.stdout.startswith(b"Slurmctld(")  # it ends with 1 when one is down
    found = slurm.ping_facts(result.stdout if result and down else output(evidence, slurm.PING.key))
    states = found["controllers"]
    named = ", ".join(f"{name} is {state}" for name, state in states.items()) if isinstance(states, dict) else ""
    return passed(named, expected) if found["up"] else failed(named, expected)


_LOG_CAUSES = {"clock_skew": "clock", "invalid_credential": "key", "munge_down": "munge", "autodetect": "autodetect"}
_LOG_CAUSES |= {"dbus": "dbus", "cgroup": "cgroup", "low_real_memory": "memory", "gres_count": "gpus"}
_LOG_CAUSES |= {"waiting for gres.conf file": "device", "can't stat gres.conf file": "device"}


def slurm_log(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Slurm's daemons have logged no error whose cause we know."""
    raw = output(evidence, _SLURM_LOG.key)
    expected = "no known error since boot"
    found = slurm.error_facts(raw)
    cause = _LOG_CAUSES.get(str(found.get("error")))
    return failed(str(found["error"]).replace("_", " "), expected, cause) if cause else passed("none", expected)


def credentials(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """munge makes a credential and reads it back."""
    result = evidence.get(munge.COMMAND.key)
    if result is not None and re.search(rb"^(un)?munge: Error: ", result.stdout + b"\n" + result.stderr, re.MULTILINE):
        found = munge.error_facts(result.stdout + result.stderr)
    elif result is not None and result.stdout.startswith(b"STATUS:"):
        found = munge.facts(result.stdout)
    else:
        output(evidence, munge.COMMAND.key)
        raise unreadable("unmunge", "")
    code = int(str(found["rc"]))
    return passed("Success", "Success") if code == 0 else failed(str(found["status"]), "Success", _MUNGE.get(code, ""))


def _slurm(host: HostPlan) -> tuple[str, ...]:
    name = services_of(host).slurm_node
    return (name,) if name else ()


def _slurmd(host: HostPlan) -> tuple[str, ...]:
    return ("",) if _slurm(host) else ()


def _scheduled(host: HostPlan) -> tuple[str, ...]:
    return ("",) if _slurm(host) and gpus_of(host) else ()


def _munge(host: HostPlan) -> tuple[str, ...]:
    return ("",) if services_of(host).munge else ()


def commands(host: HostPlan) -> tuple[Command, ...]:
    """What must be read on the host."""
    wanted = [slurm_node.COMMAND, slurm.PING, _SLURM_LOG] if _slurm(host) else []
    wanted += [slurm.GRES] if _scheduled(host) else []
    return (*wanted, munge.COMMAND) if _munge(host) else tuple(wanted)


_PAGE = "slurm"
CHECKS = (
    Check("slurm-node", "services", ("quick",), "major", _PAGE, slurm_node.COMMAND.key, _slurm, node),
    Check("slurm-gres", "services", ("quick",), "major", _PAGE, slurm.GRES.key, _scheduled, gres),
    Check("slurm-controller", "services", ("quick",), "critical", _PAGE, slurm.PING.key, _slurmd, controller),
    Check("slurm-log", "services", ("quick",), "major", _PAGE, _SLURM_LOG.key, _slurmd, slurm_log),
    Check("munge", "services", ("quick",), "critical", _PAGE, munge.COMMAND.key, _munge, credentials),
)

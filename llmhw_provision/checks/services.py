"""What must run beside Slurm and the engines: units, and DCGM, which must find the GPUs healthy."""

from __future__ import annotations

from llmhw_provision.checks.gpu_views import gpus_of, judged
from llmhw_provision.checks.model import Check, Outcome, failed, passed, warned
from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.expected import ExpectedServices
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import dcgm, dcgm_diag, systemd
from llmhw_provision.probes.reading import ProbeError, output, unreadable

_UNITS = "service-units"


def services_of(host: HostPlan) -> ExpectedServices:
    """The planned services; none at all where nothing is expected."""
    return (host.expected.services if host.expected else None) or ExpectedServices()


def units(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The unit is active."""
    found = {unit.get("Id", ""): unit for unit in systemd.parse_units(output(evidence, _UNITS))}
    unit = found.get(subject)
    if unit is None:
        raise unreadable("systemctl", subject, "not in the answer")
    if unit["LoadState"] != "loaded":
        return failed(unit["LoadState"], "active", "absent")
    state = unit.get("ActiveState", "")
    return passed(state, "active") if state == "active" else failed(state, "active")


def dcgm_health(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """DCGM's host engine answers and finds the GPUs healthy."""
    result = evidence.get(dcgm.HEALTH.key)
    expected = "Healthy"
    if result is not None and b"Error: " in result.stdout + result.stderr:
        error = str(dcgm.facts_error(result.stdout + result.stderr)["error"])
        return failed(error.replace("_", " "), expected, "engine" if error == "host_engine_down" else "watches")
    found = dcgm.facts_health(output(evidence, dcgm.HEALTH.key))
    incidents = found["incidents"]
    text = "; ".join(str(one) for one in incidents[:4]) if isinstance(incidents, list) else ""
    state = str(found["overall"])
    if state == "Warning":
        return warned(f"{state}: {text}", expected)
    return passed(state, expected) if state == "Healthy" else failed(f"{state}: {text}", expected)


def dcgm_links(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """No NVLink that DCGM watches is down: its own diagnosis passes with all of them down."""
    found = dcgm.facts_link_status(output(evidence, dcgm.NVLINK.key))
    down = found["inactive"]
    bad = {str(name): f"links {', '.join(map(str, links))} down" for name, links in _lists(down)}
    return judged(bad, f"{found['up']} up", "none down")


def _lists(value: object) -> list[tuple[str, list[object]]]:
    return list(value.items()) if isinstance(value, dict) else []


def diagnosis(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """DCGM's own diagnosis passes. A test that was skipped has not passed: on GeForce all of them are, status 0."""
    result = evidence.get(dcgm_diag.QUICK.key)
    raw = result.stdout if result else b""
    form = next((form for form in dcgm_diag.FORMATS if form.recognise(raw)), None)  # it ends with a status of its own
    found = form.facts(raw) if form else dcgm_diag.facts_json(output(evidence, dcgm_diag.QUICK.key))
    expected = "every test passes"
    said = {name: ", ".join(map(str, _listed(found[name]))) for name in ("fail", "warn", "skipped")}
    messages = "; ".join(map(str, _listed(found["messages"])[:2]))
    if found["verdict"] == "fail":
        return failed(f"{said['fail'] or found.get('error')}" + (f": {messages}" if messages else ""), expected)
    if found["verdict"] == "not tested":
        raise ProbeError(f"dcgmi diag tested nothing: {said['skipped'] or 'no test'} skipped")
    if found["verdict"] == "warn":
        return warned(said["warn"] or messages, expected)
    return passed("passes" + (f"; skipped: {said['skipped']}" if said["skipped"] else ""), expected)


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []


def _dcgm(host: HostPlan) -> tuple[str, ...]:
    return ("",) if services_of(host).dcgm else ()


def _dcgm_links(host: HostPlan) -> tuple[str, ...]:
    gpus = gpus_of(host)
    return ("",) if services_of(host).dcgm and gpus and gpus.nvlink in ("switch", "mesh") and not gpus.mig else ()


def _planned_units(host: HostPlan) -> tuple[str, ...]:
    return services_of(host).units


def commands(host: HostPlan) -> tuple[Command, ...]:
    """What must be read on the host."""
    wanted: list[Command] = []
    names = _planned_units(host)
    if names:
        show = ("systemctl", "show", "--no-pager", "-p", "Id,LoadState,ActiveState,SubState,UnitFileState", *names)
        wanted.append(Command(_UNITS, show, 15))
    wanted += [dcgm.HEALTH] if _dcgm(host) else []
    return (*wanted, dcgm.NVLINK) if _dcgm_links(host) else tuple(wanted)


def lengthy(host: HostPlan) -> tuple[Command, ...]:
    """What is read at level standard only: it takes minutes."""
    return (dcgm_diag.QUICK,) if _dcgm(host) else ()


CHECKS = (
    Check("service-unit", "services", ("quick",), "major", "services", _UNITS, _planned_units, units),
    Check("dcgm-health", "services", ("quick",), "major", "services", dcgm.HEALTH.key, _dcgm, dcgm_health),
    Check("dcgm-diag", "services", ("standard",), "major", "services", dcgm_diag.QUICK.key, _dcgm, diagnosis),
    Check("dcgm-links", "services", ("quick",), "major", "gpu-links", dcgm.NVLINK.key, _dcgm_links, dcgm_links),
)

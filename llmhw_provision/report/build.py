"""From a finished run of the checks to its Report."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from llmhw_provision import __version__
from llmhw_provision.checks.host import is_rehearsal
from llmhw_provision.checks.model import Finding, Level
from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import HostPlan, Plan
from llmhw_provision.probes import system
from llmhw_provision.probes.reading import ProbeError
from llmhw_provision.report.model import REHEARSAL, HostResult, Report, Version, Waiver, verdict

_PARTS = ("pytest-testinfra", "pytest", "ansible-core")


def build_report(
    plan: Plan,
    evidence: Mapping[str, Evidence],
    findings: tuple[Finding, ...],
    *,
    level: Level,
    date: str,
    seconds: float,
    waivers: tuple[Waiver, ...] = (),
) -> Report:
    """The report of one verify; same findings, same verdict."""
    hosts = tuple(_host(host, evidence[host.name]) for host in plan.hosts)
    rehearsal = any(host.rehearsal for host in hosts)
    return Report(
        schema=1,
        mark=REHEARSAL if rehearsal else "",
        verdict=verdict(findings, rehearsal=rehearsal, waivers=waivers),
        site=plan.site,
        plan=plan.identity,
        workload=plan.workload,
        level=level,
        date=date,
        seconds=round(seconds, 1),
        hosts=hosts,
        findings=findings,
        waivers=waivers,
        notes=plan.notes,
        versions=_versions(),
    )


def _host(host: HostPlan, evidence: Evidence) -> HostResult:
    try:
        found = system.os_of(evidence)
        shown = f"{found.pretty_name}, kernel {found.kernel}"
    except ProbeError:
        shown = ""
    return HostResult(
        name=host.name,
        address=host.address,
        machine=host.machine or "",
        system=shown,
        rehearsal=is_rehearsal(host, evidence),
        read_at=evidence.read_at,
        problem=evidence.problem,
        evidence=f"evidence/{host.name}.json",
    )


def _versions() -> tuple[Version, ...]:
    found = [Version(name="llmhw-provision", version=__version__)]
    found.append(Version(name="Python", version=platform.python_version()))
    for name in _PARTS:
        try:
            found.append(Version(name=name, version=version(name)))
        except PackageNotFoundError:
            found.append(Version(name=name, version="not installed"))
    return tuple(found)

"""The report for the terminal: one line per host, then a block for each thing to look at."""

from __future__ import annotations

from typing import get_args

from llmhw_provision.checks.model import Area, Finding
from llmhw_provision.report.model import HostResult, Report

AREAS: tuple[Area, ...] = get_args(Area)
_ORDER = ("fail", "could-not-run", "warn")
_WORDS = {"fail": "FAIL", "could-not-run": "COULD NOT RUN", "warn": "WARN", "pass": "PASS"}


def render_text(report: Report) -> str:
    """The whole text; ends with the verdict."""
    lines = [f"{report.mark}: the figures below are no measurements" if report.mark else ""]
    lines += [_host_line(report, host) for host in report.hosts]
    for host in report.hosts:
        lines += _blocks(report, host)
    lines += ["", f"{report.verdict}  site {report.site} · plan {report.plan} · level {report.level}"]
    return "\n".join(lines).lstrip("\n")


def _host_line(report: Report, host: HostResult) -> str:
    mine = [finding for finding in report.findings if finding.host == host.name]
    parts = [host.name]
    for area in AREAS:
        asked = [finding for finding in mine if finding.area == area]
        if asked:
            good = sum(finding.status in ("pass", "warn") for finding in asked)
            parts.append(f"{area} {good}/{len(asked)}")
    return "   ".join([*parts, worst(mine), f"({report.seconds:.1f} s)"])


def worst(findings: list[Finding]) -> str:
    """The word for the worst of `findings`."""
    found = {finding.status for finding in findings}
    return next((_WORDS[status] for status in _ORDER if status in found), "PASS" if findings else "NOTHING ASKED")


def _blocks(report: Report, host: HostResult) -> list[str]:
    if host.problem:
        hint = next((finding.next_step for finding in report.findings if finding.host == host.name), "")
        return ["", f"  COULD NOT RUN  {host.problem}", f"        next: {hint}"]
    mine = [finding for finding in report.findings if finding.host == host.name]
    lines: list[str] = []
    for status in ("fail", "warn"):
        for finding in mine:
            if finding.status == status:
                lines += ["", *_block(finding)]
    unasked: dict[str, list[Finding]] = {}
    for finding in mine:
        if finding.status == "could-not-run":
            unasked.setdefault(finding.found, []).append(finding)
    for reason, findings in unasked.items():
        lines += ["", *_unasked(reason, findings)]
    return lines


def _unasked(reason: str, findings: list[Finding]) -> list[str]:
    """One block for all questions that the same reason left without an answer."""
    first = findings[0]
    lines = [f"  {_WORDS[first.status]}  {reason}: {len(findings)} of the checks have no answer"]
    lines += [f"        {finding.title}" for finding in findings]
    return [*lines, f"        next: {first.next_step} · evidence {first.evidence}"]


def _block(finding: Finding) -> list[str]:
    return [
        f"  {_WORDS[finding.status]}  {finding.title}: {finding.found}; expected {finding.expected}",
        f"        likely: {finding.cause}",
        f"        next: {finding.next_step} · runbook {finding.runbook} · evidence {finding.evidence}",
    ]

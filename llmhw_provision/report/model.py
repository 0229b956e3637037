"""report.json: what was asked, what was found, and the verdict."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from llmhw_provision.checks.model import Finding, Level
from llmhw_provision.documents import Record
from llmhw_provision.plan.model import Note

Verdict = Literal["ACCEPTED", "ACCEPTED WITH WAIVERS", "REJECTED", "INCOMPLETE", "REHEARSAL PASSED"]
REHEARSAL: Literal["REHEARSAL, not a measurement"] = "REHEARSAL, not a measurement"


class Waiver(Record):
    """A failure that the customer accepts, with the reason and who said so."""

    host: str
    check: str
    subject: str = ""
    reason: str
    by: str


class HostResult(Record):
    """One host of the report."""

    name: str
    address: str
    machine: str = Field(default="", description="catalogue machine it was sold as")
    system: str = Field(default="", description="operating system and kernel as read; empty when unreachable")
    rehearsal: bool
    read_at: str = Field(default="", description="UTC time of the reading; empty when unreachable")
    problem: str = Field(default="", description="why nothing could be read")
    evidence: str = Field(description="file with everything the host said, beside this report")


class Version(Record):
    """Version of something that took part."""

    name: str
    version: str


class Report(Record):
    """report.json."""

    format: Literal[1] = Field(alias="schema")
    mark: Literal["", "REHEARSAL, not a measurement"] = Field(description="empty for a real machine")
    verdict: Verdict
    site: str
    plan: str = Field(description="identity of the plan")
    workload: str
    level: Level
    date: str = Field(description="UTC")
    seconds: float
    hosts: tuple[HostResult, ...]
    findings: tuple[Finding, ...]
    waivers: tuple[Waiver, ...] = ()
    notes: tuple[Note, ...] = Field(description="what the plan says, with rule and source")
    versions: tuple[Version, ...] = ()


def verdict(findings: tuple[Finding, ...], *, rehearsal: bool, waivers: tuple[Waiver, ...] = ()) -> Verdict:
    """The verdict: one failure rejects; what could not be run leaves it open; a rehearsal is never accepted."""
    waived = {(waiver.host, waiver.check, waiver.subject) for waiver in waivers}
    failures = [finding for finding in findings if finding.status == "fail"]
    if any((finding.host, finding.check, finding.subject) not in waived for finding in failures):
        return "REJECTED"
    if not findings or any(finding.status == "could-not-run" for finding in findings):
        return "INCOMPLETE"
    if rehearsal:
        return "REHEARSAL PASSED"
    return "ACCEPTED WITH WAIVERS" if failures else "ACCEPTED"

"""What is looked at before anything changes: the checks of level `before`, and the disks through their own module."""

from __future__ import annotations

import io
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from llmhw_provision.checks.model import Finding
from llmhw_provision.checks.table import commands, judge_all
from llmhw_provision.checks.views import volume_names
from llmhw_provision.documents import Record, dump_json, write_atomic
from llmhw_provision.errors import InputError, Problem
from llmhw_provision.evidence import Evidence, read_site
from llmhw_provision.evidence_file import save
from llmhw_provision.run import folder, lock, outcome, process
from llmhw_provision.run.command import Choice
from llmhw_provision.run.orders import Order
from llmhw_provision.run.playing import Playing
from llmhw_provision.run.progress import Lines
from llmhw_provision.site import Site

INTERRUPT = "--allow-interrupt"


class Preflight(Record):
    """preflight.json."""

    format: int = Field(default=1, alias="schema")
    plan: str = Field(description="identity of the plan")
    folder: str
    seconds: float
    hosts: tuple[str, ...]
    allow_interrupt: bool
    findings: tuple[Finding, ...]
    disks: tuple[outcome.Failure, ...] = Field(description="what the disk module refuses, in check mode")

    @property
    def refusals(self) -> tuple[Problem, ...]:
        """Everything that stands against the start, the same reason of several hosts once; empty when nothing does."""
        bad = [found for found in self.findings if found.status in ("fail", "could-not-run")]
        reasons = [(found.host, _sentence(found), _advice(found)) for found in bad]
        for failure in self.disks:
            reasons += [(failure.host, problem.message, problem.hint) for problem in failure.problems]
        return tuple(
            Problem(f"{', '.join(hosts)}: {message}" if hosts[0] else message, hint)
            for (message, hint), hosts in _grouped(reasons).items()
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What somebody should look at, which stops nothing."""
        found = [(item.host, _sentence(item), "") for item in self.findings if item.status == "warn"]
        return tuple(f"{', '.join(hosts)}: {text}" for (text, _), hosts in _grouped(found).items())


def _sentence(found: Finding) -> str:
    if found.check == "access":
        return found.found.removeprefix(f"{found.host} ").removeprefix(f"{found.host}: ")
    return f"{found.title}: {found.found}; expected {found.expected}"


def _advice(found: Finding) -> str:
    return f"{found.next_step} · runbook {found.runbook}"


def _grouped(reasons: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str], list[str]]:
    groups: dict[tuple[str, str], list[str]] = {}
    for host, message, hint in reasons:
        groups.setdefault((message, hint), []).append(host)
    return groups


@dataclass(frozen=True)
class Look:
    """One preflight: what it may overrule, and how it gets through to the hosts."""

    order: Order
    site: Site
    content: Path
    allow_interrupt: bool = False


def look(wanted: Look) -> Preflight:
    """Looks at all hosts under the site's lock, changes none; what was read is kept in a folder of its own."""
    order = wanted.order
    same_hosts(order, wanted.site)
    runs, began = order.site / "runs", time.monotonic()
    with lock.held(runs, verb="preflight") as held, process.Stops().counted() as stops:
        made = folder.create(runs, verb="preflight")
        asked = {host.name: commands(host, "before") for host in order.hosts}
        evidence = read_site(wanted.site, order.site, asked, password=order.password)
        for name, each in evidence.items():
            save(each, made.path / "evidence" / f"{name}.json")
        findings = [found for host in order.hosts for found in judge_all(host, evidence[host.name], "before")]
        work = Playing(order, wanted.content, made, held, stops, Lines(io.StringIO()))
        try:
            refused = refused_disks(work, evidence)
        finally:
            shutil.rmtree(made.scratch, ignore_errors=True)
        if stops.count:
            raise InputError("stopped before anything was changed", "")
    result = Preflight(
        plan=order.plan.identity,
        folder=str(made.path.relative_to(order.site)),
        seconds=round(time.monotonic() - began, 1),
        hosts=tuple(asked),
        allow_interrupt=wanted.allow_interrupt,
        findings=tuple(allowed(found) if wanted.allow_interrupt else found for found in findings),
        disks=refused,
    )
    write_atomic(made.path / "preflight.json", dump_json(result))
    return result


def allowed(found: Finding) -> Finding:
    """The finding where interruption is allowed: whoever uses the machine is a warning then."""
    if found.area == "use" and found.status == "fail":
        return found.model_copy(update={"status": "warn"})
    return found


def same_hosts(order: Order, site: Site) -> None:
    """Raises InputError when a host of the plan is not in site.yaml."""
    known = {host.name for host in site.hosts}
    missing = [host.name for host in order.hosts if host.name not in known]
    if missing:
        raise InputError(f"host {missing[0]!r} of plan.json is not in site.yaml", "run plan again")


def refused_disks(work: Playing, evidence: dict[str, Evidence]) -> tuple[outcome.Failure, ...]:
    """What the one module that may write to disks refuses; asked only of hosts that answered and have volumes."""
    hosts = tuple(h.name for h in work.order.hosts if volume_names(h) and not evidence[h.name].problem)
    if not hosts:
        return ()
    tally = outcome.Tally()
    choice = Choice(check=True, limit=hosts, tags=("nvme_raid0_assert",))
    status = work.play(work.content / "playbooks" / "storage.yml", choice, tally)
    return work.failures(tally, status)

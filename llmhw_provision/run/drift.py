"""drift: what differs from the plan now, by the quick checks and by what apply would change; alters nothing."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field

from llmhw_provision.checks.model import Finding
from llmhw_provision.checks.table import commands, judge_all
from llmhw_provision.documents import Record, dump_json, write_atomic
from llmhw_provision.errors import InputError
from llmhw_provision.evidence import Evidence, read_site
from llmhw_provision.evidence_file import save
from llmhw_provision.run import folder, lock, outcome, process
from llmhw_provision.run.command import Choice
from llmhw_provision.run.orders import Order
from llmhw_provision.run.playing import Playing
from llmhw_provision.run.preflight import same_hosts
from llmhw_provision.run.progress import Watcher
from llmhw_provision.run.text import label, plural
from llmhw_provision.site import Site

State = Literal["as-planned", "differs", "unknown"]
NO_DRIFT, DRIFT, ANSIBLE_FAILED = 0, 3, 4
_SHOWN = 12  # lines of one task's difference


class HostDrift(Record):
    """One host: unknown when it could not be read or Ansible did not reach its end there."""

    host: str
    state: State
    findings: tuple[Finding, ...] = Field(description="quick checks that did not pass")
    changes: tuple[outcome.Change, ...] = Field(description="what apply would change")
    failures: tuple[outcome.Failure, ...]


class Drift(Record):
    """drift.json."""

    format: Literal[1] = Field(default=1, alias="schema")
    site: str
    plan: str = Field(description="identity of the plan")
    started: str = Field(description="UTC")
    seconds: float
    folder: str
    hosts: tuple[HostDrift, ...]
    failures: tuple[outcome.Failure, ...] = Field(description="why Ansible itself gave up, without a host to blame")

    @property
    def exit_code(self) -> int:
        """0: all hosts are as planned; 4: Ansible failed; 3: a host differs, or cannot be told."""
        if self.failures or any(item.status == "failed" for host in self.hosts for item in host.failures):
            return ANSIBLE_FAILED
        return NO_DRIFT if all(host.state == "as-planned" for host in self.hosts) else DRIFT


@dataclass(frozen=True)
class Played:
    """What Ansible said in check mode."""

    tally: outcome.Tally
    failures: tuple[outcome.Failure, ...]


def look(order: Order, site: Site, *, content: Path, watcher: Watcher) -> Drift:
    """Reads all hosts and asks Ansible in check mode what it would change, under the site's lock; keeps the record."""
    same_hosts(order, site)
    runs, began, started = order.site / "runs", time.monotonic(), datetime.now(UTC)
    with lock.held(runs, verb="drift") as held, process.Stops().counted() as stops:
        made = folder.create(runs, verb="drift")
        write_atomic(made.plan, dump_json(order.plan))
        evidence = read_site(
            site, order.site, {host.name: commands(host, "quick") for host in order.hosts}, password=order.password
        )
        for name, each in evidence.items():
            save(each, made.path / "evidence" / f"{name}.json")
        try:
            with watcher:
                played = _play(Playing(order, content, made, held, stops, watcher), evidence)
        finally:
            shutil.rmtree(made.scratch, ignore_errors=True)
        if stops.count:
            raise InputError("stopped; nothing was changed", "")
        result = Drift(
            site=order.plan.site,
            plan=order.plan.identity,
            started=f"{started:%Y-%m-%dT%H:%M:%SZ}",
            seconds=round(time.monotonic() - began, 1),
            folder=str(made.path.relative_to(order.site)),
            hosts=tuple(judged(order, evidence, played)),
            failures=tuple(item for item in played.failures if not item.host),
        )
        write_atomic(made.path / "drift.json", dump_json(result))
    return result


def _play(work: Playing, evidence: dict[str, Evidence]) -> Played:
    """The roles in check mode, on the hosts that answered."""
    reached = tuple(host.name for host in work.order.hosts if not evidence[host.name].problem)
    tally = outcome.Tally()
    if not reached:
        return Played(tally, ())
    everyone = len(reached) == len(work.order.plan.hosts)
    choice = Choice(check=True, diff=True, limit=() if everyone else reached)
    status = work.play(work.content / "playbooks" / "site.yml", choice, tally)
    return Played(tally, work.failures(tally, status))


def judged(order: Order, evidence: Mapping[str, Evidence], played: Played) -> Iterator[HostDrift]:
    """Each host of the order; as planned when every quick check passed and Ansible came to its end without a change."""
    for host in order.hosts:
        found = judge_all(host, evidence[host.name], "quick")
        bad = tuple(item for item in found if item.status in ("fail", "could-not-run"))
        changes = tuple(outcome.change(event) for event in played.tally.changes if event.host == host.name)
        failures = tuple(item for item in played.failures if item.host == host.name)
        ended = played.tally.host(host.name).state == "done" and not failures
        state: State = "as-planned" if ended and not bad and not changes else "differs"
        if state == "differs" and not changes and not any(item.status == "fail" for item in bad):
            state = "unknown"
        yield HostDrift(host=host.name, state=state, findings=bad, changes=changes, failures=failures)


def words(found: Drift, *, quiet: bool = False) -> Iterator[str]:
    """What differs, host by host; `quiet` leaves out hosts that are as planned."""
    for host in found.hosts:
        if host.state != "as-planned":
            yield f"{host.host}: " + ("differs from the plan" if host.state == "differs" else "cannot be told")
            yield from _differences(host)
        elif not quiet:
            yield f"{host.host}: as planned"
    for failure in found.failures:
        yield from (f"ansible: {problem.message}" for problem in failure.problems)
    if not quiet or found.exit_code:
        count = sum(host.state != "as-planned" for host in found.hosts)
        total = plural(len(found.hosts), "host")
        yield f"{count} of {total} not as planned · plan {found.plan} · {found.folder}"


def _differences(host: HostDrift) -> Iterator[str]:
    for item in host.findings:
        if item.status == "fail":
            yield f"  {item.title}: found {item.found}; expected {item.expected}"
            yield f"    likely: {item.cause} · next: {item.next_step} · runbook {item.runbook}"
    for reason in dict.fromkeys(item.found for item in host.findings if item.status == "could-not-run"):
        yield f"  could not be read: {reason}"
    for change in host.changes:
        yield f"  apply would change: {label(change.role, change.task)}"
        yield from (f"    {sentence}" for sentence in change.actions)
        lines = change.diff.rstrip("\n").splitlines()
        yield from (f"    {line}" for line in lines[:_SHOWN])
        if len(lines) > _SHOWN:
            yield f"    ... {len(lines) - _SHOWN} more lines in drift.json"
    for failure in host.failures:
        for problem in failure.problems:
            yield f"  {failure.status}: {label(failure.role, failure.task)}: {problem.message}"

"""Earlier runs of a site: what they were, how they ended, what is left of the last one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from llmhw_provision.documents import Model, read
from llmhw_provision.errors import InputError
from llmhw_provision.plan.model import Plan
from llmhw_provision.run import folder
from llmhw_provision.run.command import Choice
from llmhw_provision.run.orders import PLAYBOOKS, OrderFile
from llmhw_provision.run.outcome import Result
from llmhw_provision.run.preflight import Preflight

_NAME = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ)-([a-z]+)(?:-\d+)?$")
CUT = "cut off"


@dataclass(frozen=True)
class Entry:
    """One run: its folder, what it was and how it ended, in words."""

    name: str
    verb: str
    state: str
    plan: str
    hosts: str
    seconds: float | None


@dataclass(frozen=True)
class Left:
    """What an unfinished run still has to do."""

    run: str
    limit: tuple[str, ...]
    tags: tuple[str, ...]
    allow_reboot: bool

    def choice(self, *, diff: bool) -> Choice:
        """The choice that does it."""
        return Choice(diff=diff, limit=self.limit, tags=self.tags)


def entries(runs: Path) -> tuple[Entry, ...]:
    """All runs, oldest first; one that left no result was cut off (or still works: see `runs/.lock`)."""
    found = [path for path in runs.glob("*") if path.is_dir() and _NAME.match(path.name)] if runs.is_dir() else []
    return tuple(_entry(path) for path in sorted(found, key=_age))


def _age(path: Path) -> tuple[str, int]:
    stem, _, number = path.name.rpartition("-")
    return (stem, int(number)) if number.isdigit() else (path.name, 1)


def _entry(path: Path) -> Entry:
    match = _NAME.match(path.name)
    verb = match[2] if match else ""
    if verb in PLAYBOOKS and (result := result_of(path)):
        hosts = ", ".join(f"{host.host} {host.state}" for host in result.hosts)
        state = f"{result.state}{' (check)' if result.check else ''}"
        return Entry(path.name, verb, state, result.plan, hosts, result.seconds)
    if verb == "preflight" and (first := _read(path / "preflight.json", Preflight)):
        state = f"{len(first.refusals)} against the start" if first.refusals else "ok"
        return Entry(path.name, verb, state, first.plan, ", ".join(first.hosts), first.seconds)
    if verb == "drift" and (path / "drift.json").is_file():
        from llmhw_provision.run.drift import Drift

        if seen := _read(path / "drift.json", Drift):
            hosts = ", ".join(f"{host.host} {host.state}" for host in seen.hosts)
            return Entry(
                path.name, verb, "no drift" if seen.exit_code == 0 else "drift", seen.plan, hosts, seen.seconds
            )
    if verb == "verify" and (path / "report.json").is_file():
        from llmhw_provision.report.folder import read_report

        report = read_report(path)
        names = ", ".join(host.name for host in report.hosts)
        return Entry(path.name, verb, report.verdict, report.plan, names, report.seconds)
    asked = _read(path / "order.json", OrderFile)
    return Entry(path.name, verb, CUT, asked.plan if asked else "", "", None)


def _read(path: Path, model: type[Model]) -> Model | None:
    try:
        return read(path, model)
    except InputError:
        return None


def result_of(path: Path) -> Result | None:
    """The result in a run's folder; None when the run was cut off before it wrote one."""
    return _read(path / "result.json", Result)


def _newest(runs: Path) -> list[Path]:
    """Folders of apply, newest first."""
    return sorted((each.path for each in folder.earlier(runs, verb="apply")), key=_age, reverse=True)


def unfinished(site: Path, *, allow_reboot: bool = False) -> Left:
    """What the last apply left undone; raises InputError when it is done, or was of another plan.

    Hosts on which every role reached its end are left out. All roles begin anew on the others: each looks at the
    state of the machine and does what is missing, so nothing need be remembered about the step that was cut.
    """
    runs, plan = site / "runs", read(site / "plan.json", Plan)
    orders = ((path, _read(path / "order.json", OrderFile)) for path in _newest(runs))
    path, asked = next(((path, order) for path, order in orders if order and not order.check), (runs, None))
    if asked is None:
        raise InputError(f"{runs}: there is no run to go on with", "run apply without --resume")
    if asked.plan != plan.identity:
        raise InputError(
            f"{path.name} was of plan {asked.plan}, but plan.json is {plan.identity}",
            "run apply without --resume; it begins anew with this plan, and keeps what is there already",
        )
    result = result_of(path)
    if result is not None and result.state == "done" and result.exit_code == 0 and not allow_reboot:
        raise InputError(f"{path.name} is done: nothing is left to do", "run apply without --resume")
    names = asked.limit or tuple(host.name for host in plan.hosts)
    reboot = asked.allow_reboot or allow_reboot
    if result is not None:
        wanting = {host.host for host in result.hosts if reboot and host.reboot_reasons}
        done = {host.host for host in result.hosts if host.state == "done"} - wanting
        names = tuple(name for name in names if name not in done)
    return Left(path.name, names, asked.tags, reboot)

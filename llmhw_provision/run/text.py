"""What apply says before, and after: the same words as in result.json."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from llmhw_provision.plan.model import HostPlan, Plan
from llmhw_provision.run.history import Entry
from llmhw_provision.run.outcome import Change, Failure, HostResult, Result
from llmhw_provision.run.preflight import Preflight
from llmhw_provision.run.progress import clock_text
from llmhw_provision.units import disk, memory

_NAMED = 6


def roles(host: HostPlan) -> tuple[str, ...]:
    """Names of the roles that run on `host`."""
    return tuple(name for name in type(host.roles).model_fields if getattr(host.roles, name) is not None)


def plural(count: int, noun: str) -> str:
    """`1 host`, `2 hosts`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def overview(plan: Plan, hosts: Sequence[HostPlan], *, check: bool, allow_reboot: bool = False) -> Iterator[str]:
    """Lines that say what will happen, before anything does."""
    yield f"site {plan.site} · {plural(len(hosts), 'host')} · plan {plan.identity}"
    width = max(len(host.name) for host in hosts)
    for host in hosts:
        yield from _host(host, width)
    if not any(host.erases for host in hosts):
        yield "will erase nothing" if not check else "would erase nothing"
    if any(host.reboots for host in hosts) and not check:
        rebooted = ", ".join(host.name for host in hosts if host.reboots)
        yield (
            f"will reboot if it is needed: {rebooted}"
            if allow_reboot
            else "will reboot nothing (--allow-reboot would, once, where it is needed)"
        )
    if check:
        yield "check: nothing is altered"


def _host(host: HostPlan, width: int) -> Iterator[str]:
    names = roles(host)
    disks = f"{plural(len(host.disks), 'disk')}, {disk(sum(each.size_bytes for each in host.disks))}"
    reboots = f", {plural(host.reboots, 'reboot')}" if host.reboots else ""
    facts = f"{host.os}, {memory(host.memory_bytes)}, {disks}"
    mark = "  REHEARSAL (virtual machine)" if host.rehearsal else ""
    yield f"  {host.name:<{width}}  {host.address}  {facts}    {plural(len(names), 'role')}{reboots}{mark}"
    indent = " " * (width + 4)
    yield f"{indent}roles: {', '.join(names) or 'none'}"
    for sentence in host.creates:
        yield f"{indent}creates: {sentence}"


def preflight(found: Preflight) -> Iterator[str]:
    """One line that says how it went, and a line per warning; refusals are errors and are said as such."""
    count = len({(item.check, item.subject) for item in found.findings}) + (1 if found.disks else 0)
    bad = len(found.refusals)
    said = f"{plural(bad, 'problem')}, nothing was changed" if bad else "ok"
    yield f"preflight  {plural(count, 'check')} on {plural(len(found.hosts), 'host')}  {said}  ({found.seconds:.1f} s)"
    yield from (f"warning: {warning}" for warning in found.warnings)
    if bad:
        yield f"what the hosts said: {found.folder}"


def table(found: Sequence[Entry]) -> Iterator[str]:
    """One line per run."""
    rows = [
        (e.name, e.state, e.plan, clock_text(e.seconds) if e.seconds is not None else "-", e.hosts or "-")
        for e in found
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(5)] if rows else []
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def files(path: Path) -> Iterator[str]:
    """The commands that do the same by hand, and where the rest lies."""
    if (path / "command.txt").is_file():
        yield from (f"$ {line}" for line in (path / "command.txt").read_text(encoding="utf-8").splitlines())
    yield f"files: {path}: {', '.join(sorted(each.name for each in path.iterdir()))}"


def erasures(hosts: Sequence[HostPlan]) -> tuple[str, ...]:
    """One loud line per thing that cannot be undone."""
    return tuple(f"ERASES FOR GOOD on {host.name}: {sentence}" for host in hosts for sentence in host.erases)


def ending(result: Result) -> Iterator[str]:
    """One line per host, then what the user has to do next, if anything."""
    width = max((len(host.host) for host in result.hosts), default=0)
    verb = "would change" if result.check else "changed"
    for host in result.hosts:
        counts = f"{plural(host.tasks, 'task')}, {host.changed} {verb}" + (
            f", {host.failed} failed" if host.failed else ""
        )
        yield f"  {host.host:<{width}}  {host.state.upper() if host.state != 'done' else 'done'}  {counts}"
    for host in result.hosts:
        yield from (f"warning: {host.host}: {warning}" for warning in host.warnings)
    yield f"{_state(result)} in {clock_text(result.seconds)} · {result.folder}"
    yield from _reboots(result.hosts, result.verb)
    if result.state != "done" and not result.check:
        again = f"{result.verb} --resume" if result.verb == "apply" else result.verb
        yield f"hint: llmhw-provision {again} goes on with what is left, once the cause is gone"


def _state(result: Result) -> str:
    if result.state == "done":
        return "check done, nothing was altered" if result.check else "done"
    return {"failed": "failed", "unreachable": "not all machines were reached", "unfinished": "stopped"}[result.state]


def _reboots(hosts: Sequence[HostResult], verb: str) -> Iterator[str]:
    wanting = [host for host in hosts if host.reboot_reasons]
    for host in wanting:
        for reason in host.reboot_reasons:
            yield f"reboot wanted: {host.host}: {reason}"
    if wanting:
        yield f"hint: llmhw-provision {verb} --allow-reboot reboots these hosts"


def changes(result: Result) -> Iterator[str]:
    """What apply would change (or changed), per host: task, the module's sentences, differences if asked for."""
    for host in result.hosts:
        found = [change for change in result.changes if change.host == host.host]
        yield f"{host.host}: {plural(len(found), 'task')} {'would change it' if result.check else 'changed it'}"
        for change in found:
            yield from _change(change)


def _change(change: Change) -> Iterator[str]:
    yield f"  {label(change.role, change.task)}"
    for sentence in change.actions:
        yield f"    {sentence}"
    for line in change.diff.rstrip("\n").splitlines():
        yield f"    {line}"


def failures(result: Result) -> Iterator[str]:
    """One block per cause; hosts that failed for the same cause share it."""
    groups: dict[tuple[object, ...], list[Failure]] = {}
    for failure in result.failures:
        key = (failure.status, failure.role, failure.task, failure.problems)
        groups.setdefault(key, []).append(failure)
    for group in groups.values():
        yield from _block(group, result)


def _block(group: list[Failure], result: Result) -> Iterator[str]:
    first = group[0]
    yield ""
    if first.host:
        yield f"{first.status}: {_hosts([failure.host for failure in group])}"
        yield f"  task: {label(first.role, first.task)}  ({_short(first.path)})"
    for problem in first.problems:
        head, *rest = problem.message.splitlines() or [""]
        yield f"error: {head}"
        yield from (f"       {line}" for line in rest)
        if problem.hint:
            yield f"hint: {problem.hint}"
    for failure in group[:_NAMED]:
        where = f":{failure.log_line}" if failure.log_line else ""
        yield f"log: {result.folder}/ansible.log{where}"


def _hosts(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def label(role: str, task: str) -> str:
    """`role · task`, or the task alone outside of a role."""
    return f"{role} · {task}" if role else task


def _short(path: str) -> str:
    """From `roles/` or `playbooks/` on: what a person needs to find the line."""
    for start in ("/roles/", "/playbooks/"):
        at = path.rfind(start)
        if at >= 0:
            return path[at + 1 :]
    return Path(path).name

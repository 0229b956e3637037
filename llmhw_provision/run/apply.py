"""apply: carries plan.json out on the machines, and keeps a record of it."""

from __future__ import annotations

import re
import shlex
import shutil
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from llmhw_provision.documents import dump_json, read, write_atomic
from llmhw_provision.errors import InputError, Problem
from llmhw_provision.plan.model import HostPlan, Plan
from llmhw_provision.run import events, folder, lock, outcome, process
from llmhw_provision.run.command import Choice, Command, Recording, ansible_playbook, build
from llmhw_provision.run.progress import Watcher

_PLAN_LINE = re.compile(r"""^llmhw_plan:\s*["']?([0-9a-f]+)["']?\s*$""", re.MULTILINE)
_ERROR_LINE = re.compile(r"^(?:\[ERROR\]|ERROR!):? *(\S.*(?:\nOrigin: .*)?)$", re.MULTILINE)
_REASONS = Path(__file__).resolve().parent / "reboot_reasons.yml"


@dataclass(frozen=True, kw_only=True)
class Order:
    """What apply is asked to do."""

    site: Path
    plan: Plan
    choice: Choice
    allow_reboot: bool = False

    @property
    def hosts(self) -> tuple[HostPlan, ...]:
        """The hosts it concerns."""
        return tuple(host for host in self.plan.hosts if not self.choice.limit or host.name in self.choice.limit)


def prepare(site: Path, *, choice: Choice, allow_reboot: bool = False) -> Order:
    """The order for `site`, once plan.json and the inventory are known to belong together; starts nothing."""
    site = site.resolve()
    plan = read(site / "plan.json", Plan)
    if plan.origin == "purchase":
        raise InputError(
            f"{site / 'plan.json'}: made from catalogue machines, not from machines that were read",
            f"llmhw-provision discover --site {shlex.quote(str(site))}, then llmhw-provision plan",
        )
    _same_plan(site, plan)
    known = [host.name for host in plan.hosts]
    problems = [
        Problem(f"--limit {name}: the plan has no such host", f"hosts: {', '.join(known)}")
        for name in choice.limit
        if name not in known
    ]
    if problems:
        raise InputError.of(problems)
    return Order(site=site, plan=plan, choice=choice, allow_reboot=allow_reboot)


def _same_plan(site: Path, plan: Plan) -> None:
    """The inventory must have been written from this very plan.json."""
    again = "run llmhw-provision plan again; it writes plan.json and the inventory together"
    for name in ("hosts.yml", "group_vars/all.yml"):
        if not (site / "inventory" / name).is_file():
            raise InputError(f"{site / 'inventory' / name}: no such file", again)
    path = site / "inventory" / "group_vars" / "all.yml"
    found = _PLAN_LINE.search(path.read_text(encoding="utf-8", errors="replace"))
    if found is None:
        raise InputError(f"{path}: does not say which plan it was written from (llmhw_plan)", again)
    if found[1] != plan.identity:
        raise InputError(f"{path}: written from plan {found[1]}, but plan.json is {plan.identity}", again)


@dataclass(frozen=True)
class _Run:
    """One run under way."""

    order: Order
    content: Path
    folder: folder.RunFolder
    lock: lock.Lock
    stops: process.Stops
    watcher: Watcher

    def command(self, playbook: Path, choice: Choice, record: Path) -> Command:
        recording = Recording(events=record, log=self.folder.log, scratch=self.folder.scratch)
        return build(
            playbook,
            site=self.order.site,
            content=self.content,
            hosts=len(self.order.hosts),
            choice=choice,
            recording=recording,
            program=ansible_playbook(),
        )

    def play(self, playbook: Path, choice: Choice, tally: outcome.Tally) -> int:
        """Runs one playbook to its end, counting and showing its events; Ansible's exit status."""
        command = self.command(playbook, choice, self.folder.events)
        with self.folder.command.open("a", encoding="utf-8") as file:
            file.write(command.line() + "\n")
        tail = events.Tail(self.folder.events, skip=True)
        told = self.stops.count

        def tick() -> None:
            nonlocal told
            for event in tail.new():
                tally.add(event)
                self.watcher.show(event)
            self.watcher.tick()
            if self.stops.count > told:
                told = self.stops.count
                self.watcher.note(_stop_text(told))

        return process.run(command, log=self.folder.log, lock=self.lock, stops=self.stops, tick=tick)


def _stop_text(count: int) -> str:
    if count > 1:
        return "killed; the next apply finishes the job"
    return "stopping after SIGINT to Ansible; the next apply finishes the job (Ctrl-C again kills it now)"


def run(order: Order, watcher: Watcher, *, content: Path) -> outcome.Result:
    """Carries `order` out under the site's lock with the playbooks below `content`.

    Writes and returns the result, whatever Ansible made of it.
    """
    runs = order.site / "runs"
    with lock.held(runs, verb="apply") as held, process.Stops().counted() as stops:
        made = folder.create(runs, verb="apply")
        write_atomic(made.plan, dump_json(order.plan))
        work = _Run(order, content, made, held, stops, watcher)
        try:
            result = _carry_out(work)
        finally:
            shutil.rmtree(made.scratch, ignore_errors=True)
        write_atomic(made.result, dump_json(result))
        return result


def _carry_out(work: _Run) -> outcome.Result:
    order, tally = work.order, outcome.Tally()
    started, began = datetime.now(UTC), time.monotonic()
    playbooks = work.content / "playbooks"
    with work.watcher:
        status = work.play(playbooks / "site.yml", order.choice, tally)
        well = status == 0 and tally.ended and not work.stops.count
        if well and order.allow_reboot and not order.choice.check:
            allowed = replace(order.choice, tags=(), variables=(("llmhw_allow_reboot", "true"),))
            status = work.play(playbooks / "reboot.yml", allowed, tally)
        asked = well and not order.choice.check and not work.stops.count
        reasons = _reboot_reasons(work) if asked else {}
    hosts = tuple(tally.host(host.name, reboot_reasons=reasons.get(host.name, ())) for host in order.hosts)
    failures = _failures(work, tally, status)
    state = outcome.worst([*(host.state for host in hosts), *(failure.status for failure in failures)])
    return outcome.Result(
        verb="apply",
        site=order.plan.site,
        plan=order.plan.identity,
        check=order.choice.check,
        limit=order.choice.limit,
        tags=order.choice.tags,
        started=f"{started:%Y-%m-%dT%H:%M:%SZ}",
        seconds=round(time.monotonic() - began, 1),
        state=state,
        exit_code=outcome.exit_code(state, status=status, stopped=bool(work.stops.count)),
        ansible=tally.ansible,
        folder=_shown(order.site, work.folder.path),
        hosts=hosts,
        failures=failures,
        changes=tuple(map(outcome.change, tally.changes)),
    )


def _reboot_reasons(work: _Run) -> dict[str, tuple[str, ...]]:
    """Per host the sentences that roles left under /run/llmhw/reboot-required.d; empty when they cannot be read."""
    choice = Choice(limit=work.order.choice.limit)
    command = work.command(_REASONS, choice, work.folder.reboot_reasons)
    process.run(command, log=work.folder.log, lock=work.lock, stops=work.stops, tick=work.watcher.tick)
    found = events.read(work.folder.reboot_reasons)
    handed = [event.handed_over("llmhw_reboot_reasons") for event in found if isinstance(event, events.Stats)]
    return {host: tuple(line for line in lines if line.strip()) for each in handed for host, lines in each.items()}


def _failures(work: _Run, tally: outcome.Tally, status: int) -> tuple[outcome.Failure, ...]:
    log = work.folder.log.read_bytes() if work.folder.log.is_file() else b""
    rank = {host.name: at for at, host in enumerate(work.order.hosts)}
    failed = sorted(tally.failures.values(), key=lambda event: rank.get(event.host, len(rank)))
    found = tuple(
        outcome.failure(
            event,
            log_line=folder.log_line(log, end=event.log, host=event.host),
            unreachable_hint=_reach_hint(work.order.site, event.host),
        )
        for event in failed
    )
    if found or work.stops.count or (status == 0 and tally.ended and tally.results()):
        return found
    return (_ansible_failure(work, log, status, tally),)


def _ansible_failure(work: _Run, log: bytes, status: int, tally: outcome.Tally) -> outcome.Failure:
    """Ansible gave up without a host to blame, or ran nothing at all."""
    text = log.decode("utf-8", errors="replace")
    said = list(dict.fromkeys(match[1] for match in _ERROR_LINE.finditer(text)))
    if status == 0 and tally.ended:
        tags = ", ".join(work.order.choice.tags)
        problem = Problem(f"no task carries the tag {tags}" if tags else "no task ran", "roles are tags; see the plan")
    elif status < 0:
        problem = Problem(f"ansible-playbook was killed by signal {-status}", "run apply again; it finishes the job")
    else:
        cause = "\n".join(said) or f"ansible-playbook ended with status {status} and no record of its end"
        problem = Problem(cause, "the command is in command.txt beside the log")
    line = folder.log_line(b"\n" + log, end=len(log) + 1, host="")
    return outcome.Failure(
        host="", status="failed", role="", task="", path="", problems=(problem,), log_line=max(0, line - 1)
    )


def _reach_hint(site: Path, host: str) -> str:
    config = f"-F {shlex.quote(str(site / 'ssh_config'))} " if (site / "ssh_config").is_file() else ""
    return f"is it up, and is the address right? try: ssh {config}{host} true"


def _shown(site: Path, path: Path) -> str:
    """The run folder as seen from the site's folder."""
    return str(path.relative_to(site))

"""apply and rollback: carry an order out on the machines, and keep a record of it."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from llmhw_provision.documents import dump_json, write_atomic
from llmhw_provision.run import folder, lock, outcome, process, record
from llmhw_provision.run.command import Choice
from llmhw_provision.run.orders import PLAYBOOKS, Order, recorded
from llmhw_provision.run.playing import Playing
from llmhw_provision.run.progress import Watcher


def run(order: Order, watcher: Watcher, *, content: Path) -> outcome.Result:
    """Carries `order` out under the site's lock with the playbooks below `content`.

    Writes and returns the result, whatever Ansible made of it.
    """
    runs = order.site / "runs"
    with lock.held(runs, verb=order.verb) as held, process.Stops().counted() as stops:
        made = folder.create(runs, verb=order.verb)
        write_atomic(made.plan, dump_json(order.plan))
        write_atomic(made.order, dump_json(recorded(order)))
        work = Playing(order, content, made, held, stops, watcher)
        try:
            result = _carry_out(work)
        finally:
            shutil.rmtree(made.scratch, ignore_errors=True)
        write_atomic(made.result, dump_json(result))
        return result


def _carry_out(work: Playing) -> outcome.Result:
    order, tally = work.order, outcome.Tally()
    started, began = datetime.now(UTC), time.monotonic()
    with work.watcher:
        status = _roles(work, tally)
        if order.allow_reboot and _done(work, tally) and not order.choice.check:
            allowed = replace(_only(work, tally), tags=(), variables=(("llmhw_allow_reboot", "true"),))
            status = work.play(work.content / "playbooks" / "reboot.yml", allowed, tally) or status
        closing = _close(work, tally)
    hosts = tuple(
        tally.host(
            host.name,
            reboot_reasons=closing.reboot_reasons.get(host.name, ()),
            warnings=closing.warnings.get(host.name, ()),
        )
        for host in order.hosts
    )
    failures = work.failures(tally, status)
    state = outcome.worst([*(host.state for host in hosts), *(failure.status for failure in failures)])
    return outcome.Result(
        verb=order.verb,
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
        folder=str(work.folder.path.relative_to(order.site)),
        hosts=hosts,
        failures=failures,
        changes=tuple(map(outcome.change, tally.changes)),
    )


def _roles(work: Playing, tally: outcome.Tally) -> int:
    """Runs all roles; hosts that were lost on the way are tried again, alone, after a pause. Ansible's exit status."""
    playbook, choice = work.content / "playbooks" / PLAYBOOKS[work.order.verb], work.order.choice
    status = work.play(playbook, choice, tally)
    for seconds in work.order.retry_after_s:
        lost = tally.lost()
        if not lost or not tally.ended or work.stops.count:
            break
        work.watcher.note(f"{', '.join(lost)}: connection lost; trying again in {seconds:.0f} s")
        if not work.pause(seconds):
            break
        tally.forget(lost)
        status = work.play(playbook, replace(choice, limit=lost), tally)
    return status


def _done(work: Playing, tally: outcome.Tally) -> tuple[str, ...]:
    """Hosts on which every role reached its end; none once somebody wants to stop."""
    if work.stops.count or not tally.ended or not tally.results():
        return ()
    return tuple(host.name for host in work.order.hosts if tally.host(host.name).state == "done")


def _only(work: Playing, tally: outcome.Tally) -> Choice:
    """The choice, narrowed to the hosts that are done."""
    done = _done(work, tally)
    whole = len(done) == len(work.order.hosts)
    return replace(work.order.choice, limit=work.order.choice.limit if whole else done)


def _close(work: Playing, tally: outcome.Tally) -> record.Left:
    """Asks the hosts that are done whether they want a reboot, and leaves the record of what was installed."""
    done = _done(work, tally)
    if not done or work.order.choice.check:
        return record.Left({}, {})
    choice = Choice(limit=_only(work, tally).limit)
    # neither a part of the roles nor a way back makes the plan's state
    whole = not work.order.choice.tags and work.order.verb == "apply"
    return record.leave(work, choice, done if whole else ())

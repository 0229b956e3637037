"""How a run ended: result.json, counted from its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from llmhw_provision.documents import Record
from llmhw_provision.errors import Problem
from llmhw_provision.run import events

State = Literal["done", "failed", "unreachable", "unfinished"]
DONE, UNREACHABLE, FAILED, STOPPED = 0, 3, 4, 130


class HostResult(Record):
    """How the run ended on one host, with the number of tasks by how they ended."""

    host: str
    state: State = Field(description="unfinished: the run was stopped before this host's end")
    tasks: int = Field(description="tasks that ran on this host; the next five add up to it, less `ignored`")
    ok: int
    changed: int = Field(description="with --check: what apply would change")
    skipped: int
    failed: int = Field(description="including failures that a rescue block then handled")
    unreachable: int
    ignored: int
    warnings: tuple[str, ...] = Field(default=(), description="sentences that modules want a person to read")
    reboot_reasons: tuple[str, ...] = Field(default=(), description="why this host wants a reboot after the run")


class Change(Record):
    """One task that changed a host; with --check that would change it."""

    host: str
    role: str
    task: str
    actions: tuple[str, ...] = Field(description="sentences from the module: what it did")
    diff: str


class Failure(Record):
    """Why one host did not reach the end."""

    host: str = Field(description="empty: Ansible itself failed, before or beside the hosts")
    status: Literal["failed", "unreachable"]
    role: str
    task: str
    path: str = Field(description="file:line of the task")
    problems: tuple[Problem, ...] = Field(description="at least one cause")
    log_line: int = Field(description="line of ansible.log; 0 when not found")


class Result(Record):
    """result.json."""

    format: Literal[1] = Field(default=1, alias="schema")
    verb: str
    site: str
    plan: str = Field(description="identity of the plan")
    check: bool
    limit: tuple[str, ...]
    tags: tuple[str, ...]
    started: str = Field(description="UTC")
    seconds: float
    state: State = Field(description="the worst of the hosts")
    exit_code: int
    ansible: str = Field(description="version of ansible-core")
    folder: str
    hosts: tuple[HostResult, ...]
    failures: tuple[Failure, ...]
    changes: tuple[Change, ...]


@dataclass
class Tally:
    """Counts events as they come; knows which failure stopped which host."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    changes: list[events.TaskResult] = field(default_factory=list)
    failures: dict[str, events.TaskResult] = field(default_factory=dict)
    warnings: dict[str, list[str]] = field(default_factory=dict)
    ansible: str = ""
    ended: bool = False
    _since_start: set[str] = field(default_factory=set)

    def add(self, event: events.Event) -> None:
        """Counts one more event."""
        if isinstance(event, events.Start):
            self.ansible, self.ended, self._since_start = event.ansible, False, set()
        elif isinstance(event, events.TaskResult):
            self._result(event)
        elif isinstance(event, events.Stats):
            self.ended = True
            for host in self._since_start - event.given_up():
                self.failures.pop(host, None)  # a rescue block handled it

    def _result(self, event: events.TaskResult) -> None:
        self.counts.setdefault(event.host, Counter())[event.status] += 1
        if event.role:  # outside of our roles only Ansible itself warns, and that is in the log
            said = self.warnings.setdefault(event.host, [])
            said += [warning for warning in event.warnings if warning not in said]
        if event.status == "changed":
            self.changes.append(event)
        if event.status in ("failed", "unreachable"):
            self.failures[event.host] = event
            self._since_start.add(event.host)

    def results(self) -> int:
        """Tasks that ended, over all hosts."""
        return sum(counter.total() for counter in self.counts.values())

    def lost(self) -> tuple[str, ...]:
        """Hosts that ended unreachable."""
        return tuple(host for host, event in self.failures.items() if event.status == "unreachable")

    def forget(self, hosts: Iterable[str]) -> None:
        """Takes back that `hosts` failed: they are tried again."""
        for host in hosts:
            self.failures.pop(host, None)

    def host(self, name: str, *, reboot_reasons: Sequence[str] = (), warnings: Sequence[str] = ()) -> HostResult:
        """How `name` ended."""
        n = self.counts.get(name, Counter())
        failure = self.failures.get(name)
        state: State = "done" if self.ended else "unfinished"
        if failure is not None:
            state = "unreachable" if failure.status == "unreachable" else "failed"
        return HostResult(
            host=name,
            state=state,
            tasks=n.total(),
            ok=n["ok"],
            changed=n["changed"],
            skipped=n["skipped"],
            failed=n["failed"],
            unreachable=n["unreachable"],
            ignored=n["ignored"],
            warnings=(*self.warnings.get(name, ()), *warnings),
            reboot_reasons=tuple(reboot_reasons),
        )


def worst(states: Iterable[State]) -> State:
    """The state of the whole run."""
    found = set(states)
    order: tuple[State, ...] = ("failed", "unreachable", "unfinished")
    return next((state for state in order if state in found), "done")


def exit_code(state: State, *, status: int, stopped: bool) -> int:
    """Exit status of the verb: `state` first, then Ansible's own exit `status`."""
    if stopped:
        return STOPPED
    by_state = {"failed": FAILED, "unreachable": UNREACHABLE, "unfinished": FAILED, "done": DONE}
    return by_state[state] or (FAILED if status else DONE)


def failure(event: events.TaskResult, *, log_line: int, unreachable_hint: str) -> Failure:
    """The failure that `event` reports."""
    down = event.status == "unreachable"
    return Failure(
        host=event.host,
        status="unreachable" if down else "failed",
        role=event.role,
        task=event.task,
        path=event.path,
        problems=event.problems or _problems(event, unreachable_hint if down else ""),
        log_line=log_line,
    )


# What programs say that our modules only pass on.
_KNOWN = {
    "No space left on device": "make room there: df -h on the host shows which file system is full",
    "SHA1 is not considered secure": "the archive's key is an old one; take the archive made for this distribution",
}


def _problems(event: events.TaskResult, hint: str) -> tuple[Problem, ...]:
    """Causes from the message of a module that names no `problems`.

    Our modules write each reason on a line of its own and end with a line `hint: ...`, which belongs to all of them;
    any other message is one cause, however many lines it has.
    """
    reasons, mark, last = event.message.rpartition("\nhint: ")
    if not mark:
        known = next((advice for words, advice in _KNOWN.items() if words in event.message), "")
        return (Problem(event.message or "failed without saying why", event.hint or hint or known),)
    *first, final = reasons.splitlines() or ["failed without saying why"]
    return (*(Problem(line) for line in first), Problem(final, last))


def change(event: events.TaskResult) -> Change:
    """The change that `event` reports."""
    return Change(host=event.host, role=event.role, task=event.task, actions=event.actions, diff=event.diff)

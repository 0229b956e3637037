"""What is seen while a run works: bars on a terminal, one line per change elsewhere. Always on standard error."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol, Self, TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from llmhw_provision.run import events
from llmhw_provision.run.estimate import Clock, Timeline

_MOST_ROWS = 16
_ALL = ""


class Watcher(Protocol):
    """Is told what happens, and shows it."""

    def show(self, event: events.Event) -> None:
        """Something happened."""

    def note(self, text: str) -> None:
        """A sentence for the user, now."""

    def tick(self) -> None:
        """Time has passed."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def watcher(stream: TextIO, *, roles: Mapping[str, tuple[str, ...]], earlier: Timeline | None) -> Watcher:
    """The fitting watcher for `stream`; `roles` per host are what the plan will run there."""
    console = Console(file=stream)
    if console.is_terminal and not console.is_dumb_terminal:
        return Bars(console, roles=roles, earlier=earlier)
    return Lines(stream)


class Lines:
    """Plain lines: each role as it begins, each task that changed or failed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._role = ""
        self._check = False

    def show(self, event: events.Event) -> None:
        """Prints a line where the event deserves one."""
        if isinstance(event, events.Start):
            self._check = event.check
            self._print(event, f"{event.playbook} begins{' (check: nothing is altered)' if event.check else ''}")
        elif isinstance(event, events.TaskStart) and event.role and event.role != self._role:
            self._role = event.role
            self._print(event, event.role)
        elif isinstance(event, events.Retry):
            self._print(event, f"  {event.host}  attempt {event.attempts} failed  {event.label}")
        elif isinstance(event, events.TaskResult) and event.status not in ("ok", "skipped"):
            status = "would change" if self._check and event.status == "changed" else event.status
            self._print(event, f"  {event.host}  {status}  {event.label}  ({event.seconds:.1f} s)")

    def note(self, text: str) -> None:
        """Prints the sentence."""
        self._stream.write(text + "\n")
        self._stream.flush()

    def tick(self) -> None:
        """Nothing: lines do not move."""

    def _print(self, event: events.Event, text: str) -> None:
        at = datetime.fromtimestamp(event.time, UTC)
        self.note(f"{at:%H:%M:%S}Z {text}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is left on the screen to tidy."""


class Bars:
    """One bar per host (one for all when they are many).

    Counts tasks when an earlier run tells how many there are, else roles, whose number the plan tells.
    """

    def __init__(self, console: Console, *, roles: Mapping[str, tuple[str, ...]], earlier: Timeline | None) -> None:
        self._roles, self._earlier = roles, earlier
        self._clock = Clock(earlier) if earlier else None
        self._began = time.monotonic()
        self._seen: dict[str, set[str]] = {host: set() for host in roles}
        self._now: events.TaskStart | None = None
        columns = ("{task.fields[host]}", "{task.fields[doing]}", "{task.fields[count]}", "{task.fields[clock]}")
        host, doing, count, clock = (TextColumn(column) for column in columns)
        bar = BarColumn(bar_width=20)
        self._bars = Progress(TextColumn(" "), host, bar, doing, count, clock, console=console, refresh_per_second=4)
        names = list(roles) if len(roles) <= _MOST_ROWS else [_ALL]
        self._rows: dict[str, TaskID] = {name: self._row(name) for name in names}

    def _row(self, name: str) -> TaskID:
        hosts = [name] if name else list(self._roles)
        tasks = sum(self._earlier.tasks.get(host, 0) for host in hosts) if self._earlier else 0
        total = tasks or sum(len(self._roles[host]) for host in hosts) or 1
        shown = escape(name) or f"{len(hosts)} hosts"
        return self._bars.add_task("", total=total, host=shown, doing="", count="", clock="")

    def show(self, event: events.Event) -> None:
        """Moves the bar of the event's host."""
        if isinstance(event, events.TaskStart):
            self._now = event
            if self._clock:
                self._clock.add(event)
        elif isinstance(event, events.TaskResult):
            self._ended(event)
        elif isinstance(event, events.Stats):
            self._now = self._clock = None

    def _ended(self, event: events.TaskResult) -> None:
        row = self._rows.get(event.host, self._rows.get(_ALL))
        if row is None or event.host not in self._seen:
            return
        roles = self._seen[event.host]
        fresh = event.role in self._roles[event.host] and event.role not in roles
        roles.add(event.role)
        if self._earlier or fresh:
            self._bars.advance(row)
        if event.status in ("failed", "unreachable"):
            self._bars.update(row, doing=f"[bold red]{event.status}[/] {escape(event.label)}")

    def note(self, text: str) -> None:
        """Prints the sentence above the bars."""
        self._bars.console.print(escape(text), highlight=False, soft_wrap=True)

    def tick(self) -> None:
        """Moves the clock."""
        elapsed = time.monotonic() - self._began
        left = self._clock.left_s(elapsed) if self._clock else None
        clock = f"{clock_text(elapsed)}{f'   about {left_text(left)} left' if left is not None else ''}"
        for task in self._bars.tasks:
            done, total = int(task.completed), int(task.total or 1)
            unit = "" if self._earlier else " roles"
            stopped = "red" in task.fields["doing"]
            doing = task.fields["doing"] if stopped else escape(self._now.label) if self._now else ""
            self._bars.update(task.id, doing=doing, count=f"{min(done, total)}/{total}{unit}", clock=clock)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()


def clock_text(seconds: float) -> str:
    """`4:12`, `1:04:12` from an hour on."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def left_text(seconds: float) -> str:
    """`20 s` in steps of ten, `3 min` from 90 seconds on."""
    return f"{round(seconds / 60)} min" if seconds >= 90 else f"{max(10, round(seconds, -1)):.0f} s"

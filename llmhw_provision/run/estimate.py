"""How far a run is, judged by an earlier run of the same kind on the same site."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from llmhw_provision.documents import read
from llmhw_provision.errors import InputError
from llmhw_provision.run import events, folder
from llmhw_provision.run.command import Choice
from llmhw_provision.run.outcome import Result

Key = tuple[str, str, int]
_LOOKED_AT = 5
_SETTLED_S = 10.0
_SETTLED_SHARE = 0.1


@dataclass(frozen=True)
class Timeline:
    """An earlier run: when each task began (seconds after the start), how long it took, tasks per host."""

    began: dict[Key, float]
    total_s: float
    tasks: dict[str, int]


class Clock:
    """Compares the present run with an earlier one, task by task."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._seen: Counter[tuple[str, str]] = Counter()
        self._reached = 0.0

    def add(self, event: events.TaskStart) -> None:
        """Notes that a task has begun."""
        self._seen[event.role, event.task] += 1
        key = (event.role, event.task, self._seen[event.role, event.task])
        self._reached = max(self._reached, self._timeline.began.get(key, 0.0))

    def left_s(self, elapsed_s: float) -> float | None:
        """Seconds left; None in the first tenth and the first ten seconds, where a guess would be worthless.

        Rule: what was left in the earlier run, stretched by how much faster or slower this one has been so far.
        """
        total = self._timeline.total_s
        if elapsed_s < _SETTLED_S or self._reached < _SETTLED_SHARE * total:
            return None
        return (total - self._reached) * elapsed_s / self._reached


def earlier(runs: Path, *, verb: str, plan: str, choice: Choice) -> Timeline | None:
    """The newest complete run that did the same to the same hosts; None when there is none."""
    for run in folder.earlier(runs, verb=verb)[:_LOOKED_AT]:
        try:
            result = read(run.result, Result)
        except InputError:
            continue
        same = (result.check, result.limit, result.tags) == (choice.check, choice.limit, choice.tags)
        if same and result.plan == plan and result.state == "done":
            return timeline(events.read(run.events))
    return None


def timeline(found: tuple[events.Event, ...]) -> Timeline | None:
    """What `found` tells of a run's course; None when it is empty."""
    if not found:
        return None
    seen: Counter[tuple[str, str]] = Counter()
    tasks: Counter[str] = Counter()
    began: dict[Key, float] = {}
    for event in found:
        if isinstance(event, events.TaskStart):
            seen[event.role, event.task] += 1
            began[event.role, event.task, seen[event.role, event.task]] = event.time - found[0].time
        elif isinstance(event, events.TaskResult):
            tasks[event.host] += 1
    return Timeline(began, found[-1].time - found[0].time, dict(tasks))

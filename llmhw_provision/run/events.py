"""The lines that the callback writes, as typed events; foreign and cut lines are passed over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from llmhw_provision.errors import Problem

Status = Literal["ok", "changed", "failed", "ignored", "skipped", "unreachable"]


class _Event(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    time: float = Field(description="seconds since 1970 UTC, by the clock of the machine that runs Ansible")


class _OfTask(_Event):
    role: str
    task: str
    path: str = Field(default="", description="file:line of the task")

    @property
    def label(self) -> str:
        """`role · task`, or the task alone outside of a role."""
        return f"{self.role} · {self.task}" if self.role else self.task


class Start(_Event):
    """A playbook began."""

    event: Literal["start"]
    playbook: str
    check: bool
    diff: bool
    ansible: str


class Play(_Event):
    """A play began."""

    event: Literal["play"]
    play: str


class TaskStart(_OfTask):
    """A task began on the hosts of its play."""

    event: Literal["task"]
    handler: bool


class Retry(_OfTask):
    """An attempt failed and will be repeated."""

    event: Literal["retry"]
    host: str
    attempts: int
    retries: int


class TaskResult(_OfTask):
    """A task ended on one host."""

    event: Literal["result"]
    host: str
    status: Status
    seconds: float
    log: int = Field(default=0, description="bytes that ansible.log held when the task had ended")
    hidden: bool = False
    message: str = ""
    hint: str = ""
    problems: tuple[Problem, ...] = ()
    actions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    diff: str = ""


class Stats(_Event):
    """A playbook reached its end; without this event the run was cut short."""

    event: Literal["stats"]
    hosts: dict[str, dict[str, int]]
    custom: dict[str, Any] = {}

    def given_up(self) -> frozenset[str]:
        """Hosts that Ansible counts as failed or unreachable; a failure that a rescue block handled is not one."""
        return frozenset(host for host, n in self.hosts.items() if n.get("failures") or n.get("unreachable"))

    def handed_over(self, name: str) -> Mapping[str, tuple[str, ...]]:
        """Per host the lines that a play handed over under `name` with set_stats."""
        found = {host: data.get(name) for host, data in self.custom.items() if isinstance(data, dict)}
        return {host: tuple(map(str, lines)) for host, lines in found.items() if isinstance(lines, list)}


Event = Start | Play | TaskStart | Retry | TaskResult | Stats
_ADAPTER: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="event")])


def parse(line: str | bytes) -> Event | None:
    """The event on one line; None for a line that is cut or is not ours."""
    try:
        return _ADAPTER.validate_json(line)
    except ValidationError:
        return None


def read(path: Path) -> tuple[Event, ...]:
    """All events of a file, in order; none when there is no file."""
    return tuple(Tail(path).new())


class Tail:
    """Follows a file of events while it is written."""

    def __init__(self, path: Path, *, skip: bool = False) -> None:
        """`skip`: pass over what the file holds already."""
        self._path = path
        self._offset = path.stat().st_size if skip and path.exists() else 0

    def new(self) -> Iterator[Event]:
        """Events whose lines were completed since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        complete = data[: data.rfind(b"\n") + 1]
        self._offset += len(complete)
        for line in complete.splitlines():
            event = parse(line)
            if event is not None:
                yield event

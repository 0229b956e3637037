"""Playbooks of one run: started, watched, counted, and what stopped a host said in words."""

from __future__ import annotations

import re
import shlex
import time
from dataclasses import dataclass
from pathlib import Path

from llmhw_provision.errors import Problem
from llmhw_provision.run import events, folder, lock, outcome, process
from llmhw_provision.run.command import Choice, Command, Recording, ansible_playbook, build
from llmhw_provision.run.orders import Order
from llmhw_provision.run.progress import Watcher

_ERROR_LINE = re.compile(r"^(?:\[ERROR\]|ERROR!):? *(\S.*(?:\nOrigin: .*)?)$", re.MULTILINE)
_TICK_S = 0.1


@dataclass(frozen=True)
class Playing:
    """One run under way."""

    order: Order
    content: Path
    folder: folder.RunFolder
    lock: lock.Lock
    stops: process.Stops
    watcher: Watcher

    def command(self, playbook: Path, choice: Choice, record: Path) -> Command:
        """The command that runs `playbook` and appends its events to `record`."""
        recording = Recording(events=record, log=self.folder.log, scratch=self.folder.scratch)
        return build(
            playbook,
            site=self.order.site,
            content=self.content,
            hosts=len(self.order.hosts),
            choice=choice,
            recording=recording,
            program=ansible_playbook(),
            password=self.order.password,
        )

    def play(self, playbook: Path, choice: Choice, tally: outcome.Tally) -> int:
        """Runs one playbook to its end, counting and showing its events; Ansible's exit status."""
        command = self.command(playbook, choice, self.folder.events)
        with self.folder.command.open("a", encoding="utf-8") as file:
            file.write(command.line() + "\n")
        self.watcher.note(f"$ {command.line()}")
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

    def ask(self, playbook: Path, choice: Choice, record: Path) -> tuple[events.Event, ...]:
        """Runs a playbook that only asks, or writes down; its events, which do not count as the run's."""
        command = self.command(playbook, choice, record)
        process.run(command, log=self.folder.log, lock=self.lock, stops=self.stops, tick=self.watcher.tick)
        return events.read(record)

    def pause(self, seconds: float) -> bool:
        """Whether `seconds` have passed without a wish to stop."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.stops.count:
                return False
            time.sleep(_TICK_S)
            self.watcher.tick()
        return not self.stops.count

    def failures(self, tally: outcome.Tally, status: int) -> tuple[outcome.Failure, ...]:
        """Why each host that did not reach the end stopped; a failure without a host when Ansible itself gave up."""
        log = self.folder.log.read_bytes() if self.folder.log.is_file() else b""
        rank = {host.name: at for at, host in enumerate(self.order.hosts)}
        failed = sorted(tally.failures.values(), key=lambda event: rank.get(event.host, len(rank)))
        found = tuple(
            outcome.failure(
                event,
                log_line=folder.log_line(log, end=event.log, host=event.host),
                unreachable_hint=_reach_hint(self.order.site, event.host),
            )
            for event in failed
        )
        if found or self.stops.count or (status == 0 and tally.ended and tally.results()):
            return found
        return (_ansible_failure(self.order.choice.tags, log, status, tally),)


def _stop_text(count: int) -> str:
    if count > 1:
        return "killed; the next apply finishes the job"
    given = f"SIGINT to Ansible, killed in {process.GRACE_S:.0f} s if it goes on"
    return f"stopping: {given}; the next apply finishes the job (Ctrl-C again kills it now)"


def _ansible_failure(tags: tuple[str, ...], log: bytes, status: int, tally: outcome.Tally) -> outcome.Failure:
    """Ansible gave up without a host to blame, or ran nothing at all."""
    text = log.decode("utf-8", errors="replace")
    said = list(dict.fromkeys(match[1] for match in _ERROR_LINE.finditer(text)))
    if status == 0 and tally.ended:
        named = ", ".join(tags)
        problem = Problem(
            f"no task carries the tag {named}" if named else "no task ran", "roles are tags; see the plan"
        )
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

"""Running ansible-playbook: its own session, signals passed on, nothing left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from llmhw_provision.run.command import Command
from llmhw_provision.run.lock import Lock

_TICK_S = 0.1
# Ansible's handler raises an exception, which Python drops where it falls into a hook of fork: then nothing ends.
GRACE_S = 5.0


class Stops:
    """Counts how often the user asked to stop (Ctrl-C, SIGTERM, a lost terminal)."""

    def __init__(self) -> None:
        self.count = 0

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - signal's signature
        self.count += 1

    @contextlib.contextmanager
    def counted(self) -> Iterator[Stops]:
        """Within this block a stop is counted and does not end us; outside of the main thread nothing changes."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # it is under nohup, which wants us to go on
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, self._handle) for number in numbers}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def run(command: Command, *, log: Path, lock: Lock, stops: Stops, tick: Callable[[], None]) -> int:
    """Exit status of `command`; its output goes to the end of `log`, `tick` is called about ten times a second.

    The first stop sends SIGINT, on which Ansible ends its workers; the second, or GRACE_S without an end, kills it and
    all it started.
    """
    already = stops.count
    if already:
        return 130
    with log.open("ab") as output:
        process = subprocess.Popen(
            command.argv,
            cwd=command.cwd,
            env=command.environment(os.environ),
            stdin=subprocess.PIPE if command.given else subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(lock.descriptor,),
        )
    lock.started_ansible(process.pid)
    try:
        if process.stdin:
            with contextlib.suppress(BrokenPipeError), process.stdin:  # it says in its log why it did not read on
                process.stdin.write(command.given.encode())
        asked_at = None
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_TICK_S)
            tick()
            if process.returncode is not None:
                return process.returncode
            if stops.count and asked_at is None:
                asked_at = time.monotonic()
                process.send_signal(signal.SIGINT)
            if asked_at is not None and (stops.count >= 2 or time.monotonic() - asked_at > GRACE_S):
                kill_tree(process.pid)
    finally:
        if process.poll() is None:
            kill_tree(process.pid)
            process.wait()
        lock.started_ansible(None)


def kill_tree(pid: int) -> None:
    """Kills `pid` and everything it started, also what has made a session of its own (Ansible's workers do)."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)  # it shall start nothing more while we look
    for each in [*reversed(_descendants(pid)), pid]:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    """Processes below `pid`, parents first; empty where there is no /proc."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        parent = waiting.pop(0)
        for path in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                children = [int(word) for word in path.read_text().split()]
                found += children
                waiting += children
    return found

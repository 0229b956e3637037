"""One apply per site folder at a time; the kernel frees the lock when its last holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from llmhw_provision.errors import InputError


@dataclass(frozen=True)
class Holder:
    """Who holds the lock; the text in the file, for people and for the refusal."""

    verb: str
    pid: int
    host: str
    user: str
    started: str
    ansible_pid: int | None = None


class Lock:
    """A held lock. Its descriptor goes to ansible-playbook too: while that lives, no second one may start."""

    def __init__(self, descriptor: int, holder: Holder) -> None:
        self.descriptor = descriptor
        self._holder = holder
        self.started_ansible(None)

    def started_ansible(self, pid: int | None) -> None:
        """Notes the process that alters machines, so that a refusal can name it."""
        text = json.dumps(asdict(self._holder) | {"ansible_pid": pid}) + "\n"
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, text.encode(), 0)


@contextlib.contextmanager
def held(runs: Path, *, verb: str) -> Iterator[Lock]:
    """The lock of the site whose run folders lie in `runs`; raises InputError naming the holder when it is taken."""
    path = runs / ".lock"
    try:
        runs.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written: {error.strerror}", "run as the owner of the site's folder"
        ) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _refusal(runs, _holder(descriptor)) from None
        yield Lock(descriptor, _ourselves(verb))
    finally:
        os.close(descriptor)


def _ourselves(verb: str) -> Holder:
    started = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return Holder(verb, os.getpid(), socket.gethostname(), getpass.getuser(), started)


def _holder(descriptor: int) -> Holder | None:
    try:
        return Holder(**json.loads(os.pread(descriptor, 4096, 0)))
    except (ValueError, TypeError):
        return None


def _refusal(runs: Path, holder: Holder | None) -> InputError:
    if holder is None:
        return InputError(f"{runs.parent}: another run is at work on this site", "wait until it has ended")
    who = f"{holder.user}@{holder.host} since {holder.started}"
    if holder.host == socket.gethostname() and not _alive(holder.pid) and holder.ansible_pid:
        return InputError(
            f"{runs.parent}: {holder.verb} of {who} died; its ansible-playbook (pid {holder.ansible_pid}) still works",
            f"wait until it has ended, or stop it with: kill -INT {holder.ansible_pid}",
        )
    return InputError(
        f"{runs.parent}: {holder.verb} is already at work on this site: pid {holder.pid}, {who}",
        "wait until it has ended, or stop it with Ctrl-C where it runs",
    )


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

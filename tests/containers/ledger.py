"""Which labs exist on this machine, and which of them have lost their process.

A lab holds a flock on a file in its folder. The kernel drops it when the process ends, however it ends, so a
folder whose lock can be had is a lab to remove. No process id is trusted: they are reused.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.containers.identity import STATE, Identity


class Claim:
    """One lab's place in the ledger, held until ``release`` or the end of the process."""

    def __init__(self, disks: Path) -> None:
        """Take a new name; call it under ``machine_lock``."""
        self.identity = Identity.new(disks)
        self.identity.folder.mkdir(mode=0o700)
        self._lock = _try_lock(self.identity.lock)
        self.identity.write(os.getpid())
        self.identity.work.mkdir(parents=True, mode=0o700)

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextlib.contextmanager
def machine_lock() -> Iterator[None]:
    """Only one process at a time claims, reaps, or alters what labs share."""
    STATE.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(STATE / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def abandoned() -> tuple[Identity, ...]:
    """The labs whose process is gone; call it under ``machine_lock``."""
    found = []
    for folder in _folders():
        lock = _try_lock(folder / "lock")
        if lock is None:
            continue
        os.close(lock)
        identity = Identity.read(folder)
        if identity is None:  # died between mkdir and write: nothing else was made yet
            shutil.rmtree(folder, ignore_errors=True)
        else:
            found.append(identity)
    return tuple(found)


def is_empty() -> bool:
    """Whether no lab is left; call it under ``machine_lock``."""
    return not _folders()


def _folders() -> list[Path]:
    return sorted(path for path in STATE.iterdir() if path.is_dir())


def _try_lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor

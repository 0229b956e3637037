"""How the daemons among the stand-ins live: forked, with a pid file, until they are told to end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

_ENDS = {signal.SIGTERM, signal.SIGINT}


def background(pid_file: Path | None, work: Callable[[], None]) -> int:
    """Does `work` in the background and waits there for the end; 0 in the foreground, once the pid is written."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    child = os.fork()
    if child:
        if pid_file:
            pid_file.parent.mkdir(parents=True, exist_ok=True)
            pid_file.write_text(f"{child}\n")
        return 0
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    work()
    signal.sigwait(_ENDS)
    if pid_file:
        pid_file.unlink(missing_ok=True)
    return 0

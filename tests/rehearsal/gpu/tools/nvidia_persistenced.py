"""Stand-in of the rehearsal machine for nvidia-persistenced: holds the device nodes open, as long as it lives."""

from __future__ import annotations

import os
import sys
import syslog
from functools import partial
from pathlib import Path

from .background import background

VERSION = "@VERSION@"
RUN = Path("/run/nvidia-persistenced")


def _devices() -> list[str]:
    return sorted(str(path) for path in Path("/dev").glob("nvidia[0-9]*") if path.name[6:].isdecimal())


def _open() -> str:
    """Opens the nodes; what is wrong with them, or nothing."""
    wanted = ["/dev/nvidiactl", *_devices()]
    if len(wanted) == 1:
        return "Failed to query NVIDIA devices. Please ensure that the NVIDIA device files (/dev/nvidia*) exist, and that user 0 has read and write permissions for those files."  # noqa: E501
    for path in wanted:
        try:
            os.open(path, os.O_RDWR)
        except OSError as error:
            return f"Failed to open {path}: {error.strerror}"
    return ""


def main(words: list[str]) -> int:
    """Goes into the background once the devices are open."""
    if "-v" in words or "--version" in words:
        print(f"nvidia-persistenced:  version {VERSION}")
        return 0
    syslog.openlog("nvidia-persistenced", syslog.LOG_PID, syslog.LOG_DAEMON)
    syslog.syslog(f"Verbose syslog connection opened; started (version {VERSION})")
    wrong = _open()
    if wrong:
        syslog.syslog(syslog.LOG_ERR, wrong)
        print(f"nvidia-persistenced failed to initialize. {wrong}", file=sys.stderr)
        return 1
    mode = "disabled" if "--no-persistence-mode" in words else "enabled"
    return background(RUN / "nvidia-persistenced.pid", partial(_hold, mode))


def _hold(mode: str) -> None:
    for path in _devices():
        syslog.syslog(f"device {path} - persistence mode {mode}.")

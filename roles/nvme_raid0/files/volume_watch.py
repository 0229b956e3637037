#!/usr/bin/python3 -B
"""Looks whether the volumes of /etc/llmhw/volumes.json are whole, and tells people when one is not.

`mdadm --monitor` leaves RAID0 and single disks out, and the kernel calls an array broken only after somebody's I/O
has failed. So this looks itself: is each drive there, does its array run with it, is the file system mounted and does
it answer? Run every minute by llmhw-volume-watch.timer. Ends with 0 (all whole), 1 (a fault), 2 (could not look).
Reads sysfs, /dev/disk/by-id and the mounts; opens no drive; writes below /run only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from typing import Any

from volume_fault import judge, page, remember
from volume_state import alive, look, text_of

CONFIG = "/etc/llmhw/volumes.json"
STATE = "/run/llmhw/volume-watch.json"
FORMAT = 1
REPORTS = ("/run/llmhw/volume-faults", "/run/motd.d/llmhw-volume-faults")  # the second is shown at every login


def main(argv: list[str] | None = None) -> int:
    """One look at all volumes."""
    parser = argparse.ArgumentParser(description="Look whether the volumes are whole; report faults.")
    parser.add_argument("--root", default="", help="look at a copy of the system's tree in this folder")
    root: str = parser.parse_args(argv).root
    before = _remembered(root + STATE)
    stuck = {path: child for path, child in before["stuck"].items() if alive(child)}
    try:
        with open(root + CONFIG, encoding="utf-8") as file:
            volumes: list[dict[str, Any]] = json.load(file)["volumes"]
        faults = {volume["name"]: judge(volume, look(root, volume, stuck)) for volume in volumes}
        uptime_s = int(float(text_of(root + "/proc/uptime").split()[0]))
    except (OSError, ValueError, LookupError, TypeError) as error:
        _say(3, f"the volumes could not be looked at: {type(error).__name__}: {error}")
        return 2
    known, messages = remember(volumes, faults, before["faults"], int(time.time()))
    report = "".join(page(volume, faults[volume["name"]], known) for volume in volumes)
    for path in REPORTS:
        _keep(root + path, report)
    state = {"format": FORMAT, "uptime_s": uptime_s, "volumes": sorted(faults), "faults": known, "stuck": stuck}
    _keep(root + STATE, json.dumps(state, sort_keys=True) + "\n")
    for priority, message in messages:
        _say(priority, message)
    return 1 if known else 0


def _say(priority: int, message: str) -> None:
    print((f"<{priority}>" if "JOURNAL_STREAM" in os.environ else "") + message, flush=True)


def _remembered(path: str) -> dict[str, Any]:
    """What the last look left; nothing after a start of the machine, or when it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
        if found["format"] == FORMAT:
            return found
    except (OSError, ValueError, LookupError, TypeError):
        pass
    return {"faults": {}, "stuck": {}}


def _keep(path: str, text: str) -> None:
    """The file with this text, whole or not at all; no text, no file."""
    if not text:
        if os.path.lexists(path):
            os.unlink(path)
        return
    folder, name = os.path.split(path)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix="." + name + ".")
    try:
        with os.fdopen(handle, "w", encoding="ascii", errors="backslashreplace") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


if __name__ == "__main__":
    sys.exit(main())

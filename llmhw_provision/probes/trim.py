"""Which mounts fstrim.service trims, and which block devices take discards."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.reading import lines, output, unreadable

_SCRIPT = """systemctl show --no-pager -p ExecStart fstrim.service &&
cd /sys/class/block && grep -sH . */queue/discard_max_bytes; true"""
COMMAND = Command("trim", ("sh", "-c", _SCRIPT), 10)
_RUNS = re.compile(r"^ExecStart=\{ path=(?P<path>\S+) ; argv\[\]=(?P<argv>.*?) ; ")
_LIMIT = re.compile(r"^([^/]+)/queue/discard_max_bytes:([0-9]+)$")


@dataclass(frozen=True)
class Trim:
    """The command lines of fstrim.service; kernel names of devices that take discards."""

    runs: tuple[tuple[str, ...], ...]
    devices: frozenset[str]


def parse(raw: bytes) -> Trim:
    """The answer of `COMMAND`."""
    runs, devices = [], set()
    for line in lines("systemctl", raw):
        run, limit = _RUNS.match(line), _LIMIT.match(line)
        if run:
            runs.append(tuple(run["argv"].split()))
        elif limit:
            devices |= {limit[1]} if int(limit[2]) else set()
        elif line not in ("ExecStart=", ""):
            raise unreadable("systemctl", line)
    return Trim(tuple(runs), frozenset(devices))


def trim(evidence: Evidence) -> Trim:
    """What fstrim.service runs, and the devices that take discards."""
    return parse(output(evidence, COMMAND.key))

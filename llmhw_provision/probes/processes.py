"""Who uses the machine: processes with their terminals, holders of GPU devices, jobs of a batch system."""

from __future__ import annotations

from dataclasses import dataclass

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.reading import lines, output, unreadable

# Names only, no arguments: those may hold secrets, and what is read is kept.
PROCESSES = Command("processes", ("ps", "-eo", "pid=,tty=,user:32=,comm="), 15)
_HOLDERS = "find /proc/[0-9]*/fd -maxdepth 1 -lname '/dev/nvidia[0-9]*' 2>/dev/null | cut -d/ -f3 | sort -un; true"
GPU_HOLDERS = Command("gpu-holders", ("sh", "-c", _HOLDERS), 30)
# "slurmstepd infinity" holds a control group and is no job; any other slurmstepd says which job it is.
JOBS = Command("jobs", ("sh", "-c", "ps -C slurmstepd -o args= | grep -v ' infinity$'; true"), 15)
COMMANDS = (PROCESSES, GPU_HOLDERS, JOBS)


@dataclass(frozen=True)
class Process:
    """One process."""

    pid: int
    tty: str
    user: str
    name: str


def parse(raw: bytes) -> tuple[Process, ...]:
    """Every process; `tty` is empty for one without a terminal. Names are cut at 15 characters by the kernel."""
    found = []
    for line in lines("ps", raw):
        words = line.split(None, 3)
        if len(words) != 4 or not words[0].isdecimal():
            raise unreadable("ps", line)
        found.append(Process(int(words[0]), "" if words[1] == "?" else words[1], words[2], words[3]))
    if not found:
        raise unreadable("ps", "", "no process")
    return tuple(found)


def processes(evidence: Evidence) -> tuple[Process, ...]:
    """The processes of the host."""
    return parse(output(evidence, PROCESSES.key))


def gpu_holders(evidence: Evidence) -> tuple[int, ...]:
    """Process ids that hold an NVIDIA device open."""
    found = lines("find", output(evidence, GPU_HOLDERS.key))
    if not all(line.isdecimal() for line in found):
        raise unreadable("find", next(line for line in found if not line.isdecimal()))
    return tuple(map(int, found))


def jobs(evidence: Evidence) -> tuple[str, ...]:
    """Slurm job steps that run on the host, as Slurm names their processes."""
    return tuple(line.strip() for line in lines("ps", output(evidence, JOBS.key)))

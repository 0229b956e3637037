"""The command line of nvidia-smi: what is asked for, and what stands in the way of an answer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from . import VERSION, fields, links, screen, tree
from .machine import Gpu, Machine

_NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)
_NO_LIBRARY = (
    "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. "
    "Please make sure that the NVIDIA Display Driver is properly installed and present in your system.\n"
    "Please also try adding directory that contains libnvidia-ml.so to your system PATH.\n"
)


def main(words: list[str], root: Path = Path("/")) -> int:
    """Prints the answer; the exit status of the real program (its manual page, RETURN VALUE)."""
    said, status = answer(words, root)
    sys.stdout.write(said)
    return status


def answer(words: list[str], root: Path) -> tuple[str, int]:
    """What is printed, and the exit status."""
    if "-h" in words or "--help" in words:
        return f"NVIDIA System Management Interface -- v{VERSION}\n", 0
    if "--help-query-gpu" in words:
        return fields.listed(), 0
    machine = Machine(root)
    if not machine.library:
        return _NO_LIBRARY, 12
    if not machine.driver and root == Path("/"):
        _load()
        machine = Machine(root)
    if not machine.driver:
        return _NO_DRIVER + "\n", 9
    short = ".".join(machine.library.split(".")[:2])
    if machine.library != machine.driver:
        return f"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: {short}\n", 18
    if "--version" in words:
        return _versions(machine, short), 0
    if not machine.gpus:
        return "No devices were found\n", 6
    lost = next((gpu for gpu in machine.gpus if gpu.lost), None)
    if lost:
        address = lost.bus_id[4:] if lost.bus_id.startswith("0000") else lost.bus_id
        return f"Unable to determine the device handle for GPU{lost.index}: {address}: Unknown Error\n", 15
    return _ask(machine, words)


def _load() -> None:
    """The library has its driver loaded, when it may."""
    if os.geteuid() == 0 and Path("/usr/bin/nvidia-modprobe").exists():
        subprocess.run(("/usr/bin/nvidia-modprobe",), check=False, capture_output=True)


def _versions(machine: Machine, short: str) -> str:
    rows = {"NVIDIA-SMI version": VERSION, "NVML version": short, "DRIVER version": machine.driver}
    rows["CUDA Version"] = machine.cuda
    return "".join(f"{name:<20}: {value}\n" for name, value in rows.items())


def _ask(machine: Machine, words: list[str]) -> tuple[str, int]:
    gpus = _chosen(machine, _value(words, "-i", "--id"))
    if not gpus:
        return "No devices were found\n", 6
    if words[:1] == ["topo"]:
        return (links.peers(machine) if "-p2p" in words else links.matrix(machine)), 0
    if words[:1] == ["nvlink"]:
        return links.nvlink(machine, gpus, "-e" if {"-e", "--errorcounters"} & set(words) else "-s"), 0
    if "-L" in words or "--list-gpus" in words:
        return "".join(f"GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})\n" for gpu in gpus), 0
    query = _value(words, "--query-gpu", "--query-gpu")
    if query:
        form = _value(words, "--format", "--format").split(",")
        if "csv" not in form:
            return 'Missing or invalid "--format" option. Must be "csv".\n', 2
        return fields.table(gpus, query.split(","), form)
    if "-q" in words or "--query" in words:
        if {"-x", "--xml-format"} & set(words):
            return tree.xml(machine, gpus), 0
        shown = [word for word in _value(words, "-d", "--display").upper().split(",") if word]
        return tree.text(machine, gpus, shown), 0
    if words and not _value(words, "-i", "--id"):
        return f"Invalid combination of input arguments: {' '.join(words)}. Please run 'nvidia-smi -h' for help.\n", 2
    return screen.table(machine, gpus), 0


def _value(words: list[str], short: str, long: str) -> str:
    """The value of an option, given as the next word or behind an equals sign."""
    for place, word in enumerate(words):
        if word in (short, long):
            return words[place + 1] if place + 1 < len(words) else ""
        if word.startswith((f"{long}=", f"{short}=")):
            return word.partition("=")[2]
    return ""


def _chosen(machine: Machine, wanted: str) -> tuple[Gpu, ...]:
    if not wanted:
        return machine.gpus
    names = wanted.lower().split(",")
    return tuple(
        gpu for gpu in machine.gpus if {str(gpu.index), gpu.uuid.lower(), gpu.bus_id.lower(), gpu.address} & set(names)
    )

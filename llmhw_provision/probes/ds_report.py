"""DeepSpeed's view of its environment, from `ds_report`: which operators are built, which could be."""

from __future__ import annotations

import re

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format, holds
from llmhw_provision.probes.reading import last_line, plain_lines, unreadable

_OP = re.compile(r"^([a-z][\w ]*?) \.* ?\[(YES|NO)\] \.* ?\[(OKAY|NO)\]\s*$")
_PAIR = re.compile(r"^([a-z][\w /().-]*?) \.{2,} (.*?)\s*$")
_KEYS = {
    "torch version": "torch",
    "torch cuda version": "torch_cuda",
    "nvcc version": "nvcc",
    "deepspeed info": "deepspeed",
    "deepspeed wheel compiled w.": "wheel",
    "shared memory (/dev/shm) size": "shm",
}


def command(venv: str) -> Command:
    """Runs ds_report of the environment at `venv`."""
    return Command("ds_report", (f"{venv}/bin/ds_report",), 120)


def facts(raw: bytes) -> dict[str, object]:
    """`NAME_installed` and `NAME_compatible` by operator, and the versions; warnings between rows are kept apart."""
    found: dict[str, object] = {}
    warnings = []
    ops, general = [], False
    for line in plain_lines("ds_report", raw):
        if "[WARNING]" in line:
            warnings.append(line.partition("[WARNING]")[2].strip())
        elif match := _OP.match(line):
            ops.append(match[1])
            found |= {f"{match[1]}_installed": match[2] == "YES", f"{match[1]}_compatible": match[3] == "OKAY"}
        elif line.startswith("DeepSpeed general environment info"):
            general = True
        elif (match := _PAIR.match(line)) and match[1] in _KEYS:
            found[_KEYS[match[1]]] = None if match[2] == "None" else match[2]
    if not ops or not general or "deepspeed" not in found:
        raise unreadable("ds_report", last_line(raw), "cut off")
    return found | {"ops": ops, "warnings": warnings}


FORMATS = (Format("ds_report", holds(rb"^DeepSpeed C\+\+/CUDA extension op report$"), facts),)

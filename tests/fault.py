"""One fault of the fault table, and short ways to seed it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from llmhw_provision.checks.model import Level
from tests.assembled import Assembled, h100, sample
from tests.assembled_stack import cards

SMI_KEYS = (
    *("nvidia-smi-list", "nvidia-smi-version", "nvidia-smi-gpus", "nvidia-smi-q", "nvidia-smi-topo"),
    *("nvidia-smi-topo-p2p", "nvlink-status", "nvlink-errors", "nvlink-errors-later"),
)


@dataclass(frozen=True)
class Fault:
    """What is wrong, the public case or sample it comes from, how it is seeded, and what must be said of it.

    `caught` holds by check: the variant, and words of what was found. `origin` tells whose output it is.
    """

    what: str
    origin: str
    seed: Callable[[], Assembled]
    caught: dict[str, tuple[str, str]]
    level: Level = "quick"


def told(
    machine: Assembled, key: str, name: str, *, rc: int = 0, edit: Callable[[str], str] | None = None
) -> Assembled:
    """The machine with a sample as the answer to one command."""
    text = sample(name)
    return machine.answered(key, edit(text) if edit else text, name, rc=rc)


def shown(
    what: str,
    origin: str,
    key: str,
    caught: dict[str, tuple[str, str]],
    *,
    rc: int = 0,
    edit: Callable[[str], str] | None = None,
    level: Level = "quick",
) -> Fault:
    """The fault that a sample shows: eight H100 with it as their answer to one command."""
    return Fault(what, origin, lambda: told(h100(), key, origin, rc=rc, edit=edit), caught, level)


def edited(
    what: str,
    origin: str,
    named: str,
    words: str,
    key: str,
    pattern: str,
    new: str,
    build: Callable[[], Assembled] = cards,
) -> Fault:
    """The fault that an answer with `new` for `pattern` shows; `named` is a check and, after `/`, the variant."""
    check, _, variant = named.partition("/")
    return Fault(what, origin, lambda: build().edited(key, pattern, new), {check: (variant, words)})


def silent(machine: Assembled, name: str, rc: int) -> Assembled:
    """The machine whose nvidia-smi says the sample's error to whatever it is asked."""
    for key in SMI_KEYS:
        if key in machine.evidence.results:
            machine = machine.answered(key, sample(name), name, rc=rc)
    return machine


def logged(machine: Assembled, text: str, source: str) -> Assembled:
    """The machine with more lines in its kernel log."""
    before = machine.evidence.results["dmesg"].stdout.decode()
    return machine.answered("dmesg", before + text, source)


def in_block(machine: Assembled, gpu: int, pattern: str, new: str) -> Assembled:
    """Another line in the block of one GPU in `nvidia-smi -q`."""
    text = machine.evidence.results["nvidia-smi-q"].stdout.decode()
    parts = re.split(r"(?m)^(?=GPU 0)", text)
    parts[gpu + 1], count = re.subn(pattern, new, parts[gpu + 1], count=1, flags=re.MULTILINE)
    if not count:
        raise ValueError(pattern)
    return machine.answered("nvidia-smi-q", "".join(parts), "written in the layout of a sample")


def in_row(machine: Assembled, gpu: int, old: str, new: str) -> Assembled:
    """Other cells in the row of one GPU in the CSV."""
    return machine.edited("nvidia-smi-gpus", rf"^({gpu}, .*){re.escape(old)}", rf"\g<1>{new}")

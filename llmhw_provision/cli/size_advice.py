"""What `size` advises: which machine to take when none is named, what must shrink when the named one is too small."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llmhw_provision.sizing.choice import Option, choose, on, sold
from llmhw_provision.sizing.compare import Candidate
from llmhw_provision.sizing.estimate import Hardware
from llmhw_provision.sizing.need import Need
from llmhw_provision.sizing.shrink import larger, suggestions

_MOST = 64  # machines of one kind
_COUNTS = tuple(1 << power for power in range(20) if 1 << power <= _MOST)


@dataclass(frozen=True)
class Advice:
    """Lines for the screen, and the same for --json."""

    lines: tuple[str, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)


def advise(need: Need, rows: list[tuple[str, Hardware]], *, nodes: int | None, named: bool) -> Advice:
    """A choice of machine where none is named; for one that is too small, changes under which the workload fits."""
    if not named:
        return _choice(need, (nodes,) if nodes else _COUNTS)
    title, hardware = rows[0]
    option = on(need, Candidate("", title, hardware), hardware.nodes)
    return _shrink(need, title, hardware) if option.verdict == "does not fit" else Advice()


def _choice(need: Need, counts: tuple[int, ...]) -> Advice:
    found = choose(need, sold(), counts)
    if found.best is None:
        return Advice(("machine: none of the catalogue holds it; see llmhw-provision compare",), {"choice": None})
    lines = [f"machine: {found.best.words}", "  fewest GPUs bought, then least power of the whole machines"]
    lines += [f"  next: {option.words}" for option in found.others]
    return Advice(
        tuple(lines), {"choice": _data(found.best), "alternatives": [_data(option) for option in found.others]}
    )


def _data(option: Option) -> dict[str, Any]:
    return {
        "name": option.candidate.name,
        "machines": option.hosts,
        "gpus": option.gpus,
        "watts": option.watts,
        "verdict": option.verdict,
        "text": option.words,
    }


def _shrink(need: Need, title: str, hardware: Hardware) -> Advice:
    found = suggestions(need, hardware)
    lines = [f"{title} holds it with"] + [f"  {item.text}" for item in found]
    if not found:
        count = larger(need, hardware)
        lines = [f"{title}: no change that is known makes it fit" + (f"; {count:,} such GPUs hold it" if count else "")]
    data = [
        {"change": item.words, "verdict": item.found.verdict, "device_bytes": item.found.device_bytes} for item in found
    ]
    return Advice(tuple(lines), {"shrink": data})

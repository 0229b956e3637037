"""`nvidia-smi dmon` and `pmon`: rows of samples by GPU; a dash is no value."""

from __future__ import annotations

import re

from llmhw_provision.probes.format import Format
from llmhw_provision.probes.reading import unreadable
from llmhw_provision.probes.screen import screen, shows

_TOOL = "nvidia-smi dmon"
_TEXTS = ("type", "command", "name", "Time", "Date", "fb", "ccpm")


def facts(raw: bytes) -> dict[str, object]:
    """Columns, number of samples, and the last value of each column by GPU (None: a dash)."""
    columns: list[str] = []
    last: dict[str, dict[str, float | str | None]] = {}
    rows = 0
    for line in screen(_TOOL, raw):
        words = line.split()
        if line.startswith("#") and not columns:
            columns = words[1:]
        elif not words or line.startswith("#"):
            continue
        elif not columns or len(words) < len(columns) or (len(words) > len(columns) and columns[-1] not in _TEXTS):
            raise unreadable(_TOOL, line, f"{len(words)} cells under {len(columns)} headings")
        else:
            cells = dict(zip(columns, [*words[: len(columns) - 1], " ".join(words[len(columns) - 1 :])], strict=True))
            last[f"GPU{cells['gpu']}"] = {
                name: _value(name, cell, line) for name, cell in cells.items() if name != "gpu"
            }
            rows += 1
    if not last:
        raise unreadable(_TOOL, "", "no row")
    return {"columns": columns, "rows": rows, "gpus": list(last), "last": last}


def _value(name: str, cell: str, line: str) -> float | str | None:
    if cell == "-":
        return None
    if name in _TEXTS:
        return cell
    if not re.fullmatch(r"\d+(?:\.\d+)?", cell):
        raise unreadable(_TOOL, line, f"{name} {cell}")
    return float(cell)


FORMATS: tuple[Format, ...] = (Format("nvidia-smi dmon", shows(r"# gpu\s+\w"), facts),)

"""SuperBench's gpu_copy: one `path value` line a copy, GB/s, between CPU and GPUs by SM kernels or DMA engines."""

from __future__ import annotations

import re

from llmhw_provision.probes.format import Format
from llmhw_provision.probes.reading import unreadable
from llmhw_provision.probes.screen import below_the_rest, screen, shows

_TOOL = "gpu_copy"
_END = r"(?:cpu|gpu\d+|gpu_all)"
_PATH = rf"{_END}_(?:to|and)_{_END}_(?:(?:read|write)_)?by_(?:sm|dma)(?:_under_numa\d+)?"
_LINE = re.compile(rf"^({_PATH}) (\d+(?:\.\d+)?)$")


def facts(raw: bytes) -> dict[str, object]:
    """GB/s by path; GPUs whose DMA copies from the CPU fall behind their peers."""
    found: dict[str, float] = {}
    for line in screen(_TOOL, raw):
        match = _LINE.match(line)
        if match and match[1] not in found:
            found[match[1]] = float(match[2])
        elif line.strip():
            raise unreadable(_TOOL, line)
    if not found:
        raise unreadable(_TOOL, "", "no value")
    best: dict[str, float] = {}
    for path, value in found.items():
        one = re.match(r"cpu_to_gpu(\d+)_by_dma", path)
        if one:
            best[f"GPU{one[1]}"] = max(value, best.get(f"GPU{one[1]}", 0.0))
    behind = below_the_rest(best, 0.10)
    return {
        **found,
        "paths": len(found),
        "bad": {gpu: best[gpu] for gpu in behind},
        "verdict": "fail" if behind else "pass",
    }


FORMATS: tuple[Format, ...] = (Format("SuperBench gpu_copy", shows(rf"{_PATH} \d"), facts),)

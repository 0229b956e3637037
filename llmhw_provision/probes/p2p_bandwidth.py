"""CUDA samples: p2pBandwidthLatencyTest (matrices found by their headings, never by position) and bandwidthTest.

The diagonal of a bandwidth matrix is a copy within one GPU and counts reading and writing.
"""

from __future__ import annotations

import re
from statistics import median

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format
from llmhw_provision.probes.kinds import Typical
from llmhw_provision.probes.reading import unreadable
from llmhw_provision.probes.screen import below_the_rest, screen, shows

COMMAND = Command("p2p-bandwidth", ("p2pBandwidthLatencyTest",), 300)
_TOOL = "p2pBandwidthLatencyTest"
_HEADING = re.compile(
    r"^(?:(Unidirectional|Bidirectional) P2P=(Enabled|Disabled) Bandwidth (?:\(P2P Writes\) )?Matrix \(GB/s\)"
    r"|P2P=(Enabled|Disabled) Latency (?:\(P2P Writes\) )?Matrix \(us\)|P2P Connectivity Matrix)$"
)
_COLUMNS = re.compile(r"^\s*(D\\D|GPU|CPU)((?:\s+\d+)+)$")
_ROW = re.compile(r"^\s*(\d+)((?:\s+\d+(?:\.\d+)?)+)$")
_OTHER = re.compile(
    r"^\[P2P|^Device[:=]|^\*\*\*NOTE|^So you can see|^NOTE:|^P2P Cliques|^\[\d|^$|^Device: \d+,|^Cannot|^\s*Device=\d+"
)
_CODE = re.compile(r"(?:returned|code=|error code) ?(\d+)\b|cudaErrorSystemNotReady|system not yet initialized", re.I)
_CSV = re.compile(r"^bandwidthTest-(H2D|D2H|D2D)\S*, Bandwidth = (\d+(?:\.\d+)?) GB/s, .*Size = (\d+) bytes", re.M)
_TOLERANCE = 0.10

Matrix = list[list[float]]


def parse(raw: bytes) -> dict[str, Matrix]:
    """The matrices by short name: uni_enabled, bi_disabled, latency_enabled_gpu, connectivity ..."""
    found: dict[str, Matrix] = {}
    name, key, width = "", "", 0
    for line in screen(_TOOL, raw):
        heading, columns, row = _HEADING.match(line), _COLUMNS.match(line), _ROW.match(line)
        if heading:
            name, key = _name(heading), ""
        elif columns and name:
            key = name if not name.startswith("latency") else f"{name}_{columns[1].lower()}"
            if key in found or columns[2].split() != [str(n) for n in range(len(columns[2].split()))]:
                raise unreadable(_TOOL, line, "unexpected heading")
            found[key], width = [], len(columns[2].split())
        elif row and key:
            cells = [float(cell) for cell in row[2].split()]
            if len(cells) != width or int(row[1]) != len(found[key]) or len(found[key]) >= width:
                raise unreadable(_TOOL, line, "cells do not match the columns")
            found[key].append(cells)
        elif not _OTHER.match(line):
            raise unreadable(_TOOL, line)
    for one, matrix in found.items():
        if not matrix or len(matrix) != len(matrix[0]):
            raise unreadable(_TOOL, f"{one}: {len(matrix)} rows", "cut off")
    if not found:
        raise unreadable(_TOOL, name, "no matrix: cut off")
    return found


def _name(heading: re.Match[str]) -> str:
    if heading[1]:
        return f"{heading[1].removesuffix('directional').lower()}_{heading[2].lower()}"
    return f"latency_{heading[3].lower()}" if heading[3] else "connectivity"


def _between(matrix: Matrix) -> list[float]:
    return [cell for place, row in enumerate(matrix) for other, cell in enumerate(row) if place != other]


def facts(raw: bytes) -> dict[str, object]:
    """Median between GPUs by direction and mode (GB/s or us), the copy within a GPU, and GPUs that fall behind."""
    found = parse(raw)
    facts: dict[str, object] = {"matrices": sorted(found), "gpus": len(next(iter(found.values())))}
    names = {
        "uni_enabled": "p2p_gbs",
        "uni_disabled": "p2p_disabled_gbs",
        "bi_enabled": "p2p_bidir_gbs",
        "bi_disabled": "p2p_disabled_bidir_gbs",
        "latency_enabled_gpu": "p2p_latency_us",
        "latency_disabled_gpu": "p2p_disabled_latency_us",
    }
    bad: dict[str, float] = {}
    for key, matrix in found.items():
        pairs = _between(matrix)
        if key == "connectivity":
            facts["p2p"] = all(cell == 1 for cell in pairs)
        elif key in names and pairs:
            facts |= {
                names[key]: Typical(round(median(pairs), 2)),
                f"{names[key]}_min": min(pairs),
                f"{names[key]}_max": max(pairs),
            }
        if key.startswith(("uni", "bi")):
            facts.setdefault("self", Typical(round(median(row[place] for place, row in enumerate(matrix)), 2)))
        if key == "uni_enabled":
            best = {
                f"GPU{place}": max([*row[:place], *row[place + 1 :]], default=0.0) for place, row in enumerate(matrix)
            }
            bad = {gpu: best[gpu] for gpu in below_the_rest(best, _TOLERANCE)}
    return facts | {"bad": bad, "verdict": "fail" if bad else "pass"}


def facts_bandwidth_test(raw: bytes) -> dict[str, object]:
    """bandwidthTest of the CUDA samples: host to device, device to host, within the device, in GB/s; or its error."""
    text = "\n".join(screen("bandwidthTest", raw))
    codes = [match[1] or "802" for match in _CODE.finditer(text)]
    if codes:
        return {"error": f"cuda_{codes[-1]}", "verdict": "fail"}
    facts: dict[str, object] = {}
    for title, key in (("Host to Device", "h2d"), ("Device to Host", "d2h"), ("Device to Device", "d2d")):
        part = re.search(rf"{title} Bandwidth.*?\n(?:.*\n)*?\s+\d+\s+(\d+(?:\.\d+)?)\n", text + "\n")
        if part:
            unit = re.search(rf"{title} Bandwidth.*?\n(?:.*\n)*?.*Bandwidth\((GB/s|MB/s)\)", text)
            if not unit:
                raise unreadable("bandwidthTest", part[0].strip().splitlines()[-1], "no unit")
            facts[key] = float(part[1]) if unit[1] == "GB/s" else float(part[1]) / 1000
    facts |= _by_size(text)
    result = re.search(r"^Result = (PASS|FAIL)$", text, re.M)
    if not result:
        raise unreadable("bandwidthTest", text.splitlines()[-1] if text else "", "no result: cut off")
    return facts | {"verdict": result[1].lower()}


def _by_size(text: str) -> dict[str, object]:
    """The value at the largest size of each direction, from `--csv` and `--mode=shmoo`."""
    largest: dict[str, tuple[int, float]] = {}
    for direction, value, size in _CSV.findall(text):
        key = direction.lower()
        if key not in largest or int(size) >= largest[key][0]:
            largest[key] = (int(size), float(value))
    return {key: value for key, (_, value) in largest.items()}


FORMATS: tuple[Format, ...] = (
    Format("bandwidthTest", shows(r"\[CUDA Bandwidth Test\]"), facts_bandwidth_test),
    Format(
        "p2pBandwidthLatencyTest",
        shows(
            r"\[P2P \(Peer-to-Peer\)|P2P Connectivity Matrix|(?:Uni|Bi)directional P2P=\w+ Bandwidth|P2P=\w+ Latency"
        ),
        facts,
    ),
)

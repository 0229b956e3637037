"""How GPUs and NICs are joined: `nvidia-smi topo -m` and `topo -p2p`.

Columns are found by their names: NICs are NIC0.. with a legend since driver 470, before that their own names; the
GPU NUMA ID column is newer still. Cells are read as known words, because pasted outputs glue them together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.format import Format
from llmhw_provision.probes.reading import output, unreadable
from llmhw_provision.probes.screen import common, screen, shows

MATRIX = Command("nvidia-smi-topo", ("nvidia-smi", "topo", "-m"), 60)
P2P = Command("nvidia-smi-topo-p2p", ("nvidia-smi", "topo", "-p2p", "r"), 60)
COMMANDS = (MATRIX, P2P)
_TOOL = "nvidia-smi topo"
_COLUMN = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID|Other NUMA nodes?|\S+")
_AFFINITY = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_CELL = re.compile(r"\s*(NV\d+|NODE|SYS|SOC|PHB|PXB|PIX|PSB|X)")
_P2P_CELL = re.compile(r"\s*(OK|CNS|GNS|TNS|NS|DR|U|X)(?![A-Za-z])")
_HEADING = re.compile(r"^\s*GPU\d+(\s|$)")
_NIC = re.compile(r"^\s+(NIC\d+): (\S+)$")


@dataclass(frozen=True)
class Topology:
    """Relations by pair of names (both directions); affinities by GPU as printed; NIC device names by NIC number."""

    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    relations: dict[tuple[str, str], str]
    cpu: dict[str, str]
    numa: dict[str, str]
    gpu_numa: dict[str, str]
    nic_names: dict[str, str]

    def near(self, gpu: str, kind: str) -> list[str]:
        """The NICs that stand in the relation `kind` to `gpu`."""
        return [nic for nic in self.nics if self.relations[gpu, nic] == kind]


def _table(
    raw: bytes, cell: re.Pattern[str]
) -> tuple[tuple[str, ...], list[str], dict[str, tuple[str, str]], list[str]]:
    """Device names, other columns, (cells, rest) by row, and the lines below."""
    text = screen(_TOOL, raw)
    start = next((number for number, line in enumerate(text) if _HEADING.match(line)), None)
    if start is None:
        raise unreadable(_TOOL, text[0] if text else "", "no heading with GPU columns")
    columns = _COLUMN.findall(text[start])
    named = next((place for place, name in enumerate(columns) if name in _AFFINITY), len(columns))
    devices, others = tuple(columns[:named]), columns[named:]
    if len(set(devices)) != len(devices) or any(name not in _AFFINITY for name in others):
        raise unreadable(_TOOL, text[start], "unknown columns")
    rows: dict[str, tuple[str, str]] = {}
    for device, line in zip(devices, text[start + 1 :], strict=False):
        name = line.split()[0] if line.split() else ""
        if name != device:
            raise unreadable(_TOOL, line, f"row of {device} expected")
        rest = line[line.index(name) + len(name) :]
        cells, place = [], 0
        for _ in devices:
            match = cell.match(rest, place)
            if not match:
                raise unreadable(_TOOL, line, "cells do not match the columns")
            cells.append(match[1])
            place = match.end()
        rows[device] = (" ".join(cells), rest[place:])
    if len(rows) != len(devices):
        raise unreadable(_TOOL, text[-1], f"{len(rows)} of {len(devices)} rows")
    return devices, others, rows, text[start + 1 + len(devices) :]


def _relations(devices: tuple[str, ...], rows: dict[str, tuple[str, str]]) -> dict[tuple[str, str], str]:
    found = {
        (row, column): value for row in devices for column, value in zip(devices, rows[row][0].split(), strict=True)
    }
    for (row, column), value in found.items():
        if (row == column) != (value == "X") or found[column, row] != value:
            raise unreadable(_TOOL, f"{row}-{column} {value}", "not a symmetric matrix")
    return found


def parse(raw: bytes) -> Topology:
    """The matrix of `topo -m`; raises ProbeError unless it is square, symmetric and every cell is a known relation."""
    devices, others, rows, below = _table(raw, _CELL)
    gpus = tuple(name for name in devices if re.fullmatch(r"GPU\d+", name))
    affinity: dict[str, dict[str, str]] = {name: {} for name in _AFFINITY}
    for device in gpus:
        rest = rows[device][1]
        parts = [part.strip() for part in rest.split("\t")] if "\t" in rest else rest.split()
        values = [part for part in parts if part]
        if len(values) > len(others) or (len(values) < len(others) and others and not values):
            raise unreadable(_TOOL, f"{device} {rest.strip()}", "affinities do not match the columns")
        if len(values) == len(others):
            for column, value in zip(others, values, strict=True):
                if not re.fullmatch(r"N/A|\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*", value):
                    raise unreadable(_TOOL, f"{device} {column} {value}")
                affinity[column][device] = value
    nics = tuple(name for name in devices if name not in gpus)
    names = {match[1]: match[2] for match in map(_NIC.match, below) if match}
    if names and set(names) != set(nics):
        raise unreadable(_TOOL, below[-1], f"{len(names)} of {len(nics)} NICs in the legend: cut off")
    return Topology(
        gpus,
        nics,
        _relations(devices, rows),
        affinity["CPU Affinity"],
        affinity["NUMA Affinity"],
        affinity["GPU NUMA ID"],
        nic_names=names,
    )


def parse_p2p(raw: bytes) -> dict[tuple[str, str], str]:
    """OK, CNS, GNS, TNS, NS, DR or U for each ordered pair of GPUs."""
    devices, others, rows, _ = _table(raw, _P2P_CELL)
    if others or any(rest.strip() for _, rest in rows.values()):
        raise unreadable(_TOOL, str(others or rows), "not a p2p matrix")
    return {pair: value for pair, value in _relations(devices, rows).items() if pair[0] != pair[1]}


def degraded(topology: Topology) -> list[str]:
    """GPUs with fewer NVLinks than the others: in all their pairs, or in one where neither end is to blame alone.

    Below four links a pair says nothing: boards of the first NVLink generations join pairs unequally by design.
    """
    links = {
        pair: int(value[2:])
        for pair, value in topology.relations.items()
        if value.startswith("NV") and pair[0] in topology.gpus and pair[1] in topology.gpus
    }
    most = max(links.values(), default=0)
    if most < 4:
        return []
    poor = {pair for pair, count in links.items() if count < most}
    blamed = {
        gpu
        for gpu in topology.gpus
        if sum(pair[0] == gpu for pair in links) > 1 and all(p in poor for p in links if p[0] == gpu)
    }
    if len(blamed) == len(topology.gpus):
        blamed = set()
    blamed |= {gpu for pair in poor if not blamed & set(pair) for gpu in pair}
    return [gpu for gpu in topology.gpus if gpu in blamed]


def nics_without_gpu(topology: Topology) -> list[str]:
    """NICs near GPUs (same host bridges) that have no GPU of their own although each GPU has one such NIC."""
    own = {gpu: topology.near(gpu, "PIX") or topology.near(gpu, "PXB") for gpu in topology.gpus}
    if len(topology.gpus) < 2 or any(len(nics) != 1 for nics in own.values()):
        return []
    taken = {nics[0] for nics in own.values()}
    return [
        nic
        for nic in topology.nics
        if nic not in taken and any(topology.relations[gpu, nic] in ("NODE", "PHB") for gpu in topology.gpus)
    ]


def facts(raw: bytes) -> dict[str, object]:
    """GPUs, NICs, every pair's relation, NIC of each GPU by kind, NVLink count and who falls below it."""
    found = parse(raw)
    names = found.gpus + found.nics
    between = {
        (one, other): found.relations[one, other]
        for place, one in enumerate(found.gpus)
        for other in found.gpus[place + 1 :]
    }
    links = [int(value[2:]) for value in between.values() if value.startswith("NV")]
    lost = nics_without_gpu(found)
    facts: dict[str, object] = {
        "gpus": list(found.gpus),
        "nics": list(found.nics),
        "pairs": {
            f"{one}-{other}": found.relations[one, other]
            for place, one in enumerate(names)
            for other in names[place + 1 :]
        },
        "nvlink": f"NV{max(set(links), key=links.count)}" if links else None,
        "numa": {gpu: int(value) if value.isdecimal() else value for gpu, value in found.numa.items()},
        "cpu_affinity": found.cpu,
        "degraded": degraded(found),
        "nics_without_gpu": lost,
    }
    for kind in ("PIX", "PXB", "PHB", "NODE"):
        near = {gpu: found.near(gpu, kind) for gpu in found.gpus}
        facts[kind.lower()] = {gpu: nics[0] if len(nics) == 1 else nics for gpu, nics in near.items() if nics}
        facts[f"{kind.lower()}_nic_pairs"] = [
            [one, other]
            for place, one in enumerate(found.nics)
            for other in found.nics[place + 1 :]
            if found.relations[one, other] == kind
        ]
    if found.nic_names:
        facts["nic_names"] = found.nic_names
    if links:
        facts |= {"min_nv": min(links), "max_nv": max(links)}
    if found.gpu_numa:
        facts["gpu_numa_id"] = common(dict(found.gpu_numa))
    if len(found.gpus) + len(lost) in (4, 8):  # boards hold four or eight; each GPU has its own NIC
        facts["expected"] = len(found.gpus) + len(lost)
    heading = re.search(rb"^(\x1b\[[0-9;]*m)?[ \t]*(\x1b\[[0-9;]*m)?[ \t]*GPU\d", raw, re.M)
    facts["ansi_header"] = bool(heading and (heading[1] or heading[2]))
    if heading and (heading[1] or heading[2]):
        facts["ansi"] = "outer" if heading[1] else "inner"
    return facts


def facts_p2p(raw: bytes) -> dict[str, object]:
    """`pairs` by name, and the number of ordered pairs that are OK."""
    found = parse_p2p(raw)
    pairs = {f"{one}-{other}": value for (one, other), value in found.items() if int(one[3:]) < int(other[3:])}
    gpus = sorted({one for one, _ in found}, key=lambda name: int(name[3:]))
    good = sum(value == "OK" for value in found.values())
    return {
        "gpus": gpus,
        "pairs": pairs,
        "pairs_ok": good,
        "all_ok": good == len(found),
        "p2p": common(dict(pairs)),
    }


def topology(evidence: Evidence) -> Topology:
    """How the host's GPUs and NICs are joined."""
    return parse(output(evidence, MATRIX.key))


FORMATS: tuple[Format, ...] = (
    Format(
        "nvidia-smi topo -p2p", shows(r"[ \t]*GPU\d+[ \t](?:[ \t]*X\b)?[ \t]*(?:OK|CNS|GNS|TNS|NS|DR|U)\b"), facts_p2p
    ),
    Format("nvidia-smi topo -m", shows(r"[ \t]+GPU\d+\b(?![ \t]*:)"), facts),
)

"""NUMA nodes with their processors and memory, from `numactl -H`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format, holds, message
from llmhw_provision.probes.reading import plain_lines, unreadable, whole

COMMAND = Command("numactl", ("numactl", "-H"), 10)

_AVAILABLE = re.compile(r"^available: ([0-9]+) nodes? \(.*\)$")
_NODE = re.compile(r"^node ([0-9]+) (cpus|size|free):\s*(.*?)\s*$")
_DISTANCE = re.compile(r"^\s*([0-9]+):((?:\s+[0-9]+)+)\s*$")


@dataclass(frozen=True)
class Node:
    """One node; memory in MB as numactl counts it (MiB). A memory-only node has no processors."""

    number: int
    cpus: tuple[int, ...]
    size_mb: int
    distances: tuple[int, ...]


def parse(raw: bytes) -> tuple[Node, ...]:
    """The nodes by number; raises ProbeError when nodes or distances are missing."""
    text = plain_lines("numactl", raw)
    announced = _AVAILABLE.match(text[0]) if text else None
    if not announced:
        raise unreadable("numactl", text[0] if text else "")
    values: dict[int, dict[str, str]] = {}
    distances: dict[int, tuple[int, ...]] = {}
    for line in text[1:]:
        if match := _NODE.match(line):
            values.setdefault(int(match[1]), {})[match[2]] = match[3]
        elif match := _DISTANCE.match(line):
            distances[int(match[1])] = tuple(int(word) for word in match[2].split())
        elif line.strip() and not re.match(r"^node( distances:|[\s0-9]*)$", line.strip()):
            raise unreadable("numactl", line)
    count = int(announced[1])
    if len(values) != count or distances.keys() != values.keys() or {len(row) for row in distances.values()} != {count}:
        raise unreadable("numactl", text[-1], f"{count} nodes announced, cut off")
    return tuple(_node(key, values[key], distances[key]) for key in sorted(values))


def _node(key: int, values: dict[str, str], distances: tuple[int, ...]) -> Node:
    cpus = tuple(whole("numactl", word, f"CPU of node {key}") for word in values.get("cpus", "?").split())
    size = values.get("size", "").split()
    if len(size) != 2 or size[1] != "MB":
        raise unreadable("numactl", f"node {key} size: {' '.join(size)}")
    return Node(key, cpus, whole("numactl", size[0], f"size of node {key}"), distances)


def facts(raw: bytes) -> dict[str, object]:
    """The number of nodes, and per node its CPU count, first CPU and memory."""
    found: dict[str, object] = {}
    nodes = parse(raw)
    for node in nodes:
        found |= {f"node{node.number}_cpus": len(node.cpus), f"node{node.number}_mb": node.size_mb}
        if node.cpus:
            found[f"node{node.number}_first"] = node.cpus[0]
    return found | {"nodes": len(nodes), "cpus": sum(len(node.cpus) for node in nodes)}


FORMATS = (
    Format("numactl -H", holds(rb"\Aavailable: [0-9]+ nodes? \("), facts),
    Format(
        "numactl without NUMA",
        holds(rb"\ANo NUMA (support )?available on this system\.?\s*\Z"),
        message("numactl", {"error": True, "rc": 1}),
    ),
)

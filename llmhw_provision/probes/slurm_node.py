"""Nodes as Slurm's controller sees them, from `scontrol show node`. The text form: 22.05 has no --json here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format, holds
from llmhw_provision.probes.reading import plain_lines, unreadable, whole

COMMAND = Command("slurm-nodes", ("scontrol", "show", "node"), 20)

_KEY = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z0-9_/]*)=")
_GRES = re.compile(r"(?:^|,)gpu(?::[A-Za-z0-9_.-]+)?:([0-9]+)(?:\([^)]*\))?")
_LOWER = re.compile(r"\(([0-9]+) < ([0-9]+)\)")
_REST = ("Reason", "OS", "Comment", "Extra")
_WORKING = ("IDLE", "MIXED", "ALLOCATED", "COMPLETING", "RESERVED", "PLANNED")


@dataclass(frozen=True)
class Node:
    """One node: base state (IDLE), its flags (DRAIN, INVALID_REG), GPUs found, and the reason given."""

    name: str
    state: str
    flags: tuple[str, ...]
    gpus: int
    reason: str
    values: dict[str, str]


def parse(raw: bytes) -> tuple[Node, ...]:
    """The nodes; raises ProbeError for one that is cut off."""
    records: list[dict[str, str]] = []
    for line in plain_lines("scontrol", raw):
        if line.startswith("NodeName="):
            records.append({})
        if not line.strip():
            continue
        if not records:
            raise unreadable("scontrol", line)
        records[-1] |= _fields(line.strip())
    if len({record["NodeName"] for record in records}) != len(records):
        raise unreadable("scontrol", records[0]["NodeName"], "listed twice")
    return tuple(_node(record) for record in records)


def _fields(line: str) -> dict[str, str]:
    """The KEY=value pairs of a line; free text runs to its end."""
    if line.partition("=")[0] in _REST:
        key, _, value = line.partition("=")
        return {key: value}
    marks = list(_KEY.finditer(line))
    if not marks or marks[0].start():
        raise unreadable("scontrol", line)
    ends = [mark.start() for mark in marks[1:]] + [len(line)]
    return {mark[1]: line[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)}


def _node(values: dict[str, str]) -> Node:
    name = values["NodeName"]
    missing = [key for key in ("Gres", "State", "RealMemory", "AllocTRES", "CfgTRES") if key not in values]
    state, *flags = values.get("State", "").split("+")
    if missing or not re.match(r"^[A-Z_]+[*~#!%$@^-]*$", state):
        raise unreadable("scontrol", f"node {name} without {', '.join(missing) or 'a state'}", "cut off")
    if any(flag in ("DRAIN", "INVALID_REG") for flag in flags) and "Reason" not in values:
        raise unreadable("scontrol", f"node {name} {values['State']} without Reason", "cut off")
    if state.endswith("*"):
        flags.append("NOT_RESPONDING")
    gpus = sum(int(count) for count in _GRES.findall(values["Gres"]))
    return Node(name, re.sub(r"[^A-Z_]", "", state), tuple(flags), gpus, values.get("Reason", ""), values)


def facts(raw: bytes) -> dict[str, object]:
    """The nodes with their states; of a single one its flags, GPUs found, memory and reason."""
    nodes = parse(raw)
    found: dict[str, object] = {"nodes": {node.name: "+".join((node.state, *node.flags)) for node in nodes}}
    healthy = all(node.state in _WORKING and not node.flags for node in nodes)
    found["verdict"] = "pass" if healthy else "fail"
    if len(nodes) != 1:
        return found
    (node,) = nodes
    lower = _LOWER.search(node.reason)
    found |= {
        "node": node.name,
        "state": node.state,
        "flags": list(node.flags),
        "gres_found": node.gpus,
        "reason": re.sub(r" \[[^\]]*\]$", "", node.reason),
        "real_memory": whole("scontrol", node.values["RealMemory"], "RealMemory"),
    }
    return found | ({"gres_reason": [int(lower[1]), int(lower[2])]} if lower else {})


FORMATS = (Format("scontrol show node", holds(rb"\ANodeName=\S+ "), facts),)

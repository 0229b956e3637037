"""Processors, from `lscpu -J`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.machine import Cpu
from llmhw_provision.probes.format import Format, holds
from llmhw_provision.probes.reading import json_object, lines, output, unreadable, whole

COMMAND = Command("lscpu", ("lscpu", "-J"), 10)


def parse(raw: bytes) -> Cpu:
    """The processors of the whole machine; the JSON is flat before util-linux 2.37 and nested since."""
    entries = json_object("lscpu", raw).get("lscpu")
    if not isinstance(entries, list):
        raise unreadable("lscpu", raw.decode("utf-8", "replace")[:80], "no 'lscpu' list")
    found = dict(_flat(entries))
    threads = whole("lscpu", found.get("CPU(s)"), "CPU(s)")
    sockets = _count(found, "Socket(s)")
    cores = _count(found, "Core(s) per socket", "Core(s) per cluster") * sockets
    return Cpu(
        model=found.get("Model name") or found.get("Vendor ID") or "unknown",
        sockets=sockets,
        cores=cores,
        threads=threads,
        numa_nodes=_count(found, "NUMA node(s)"),
    )


def _flat(entries: list[Any]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("field"), str):
            raise unreadable("lscpu", str(entry))
        if isinstance(entry.get("data"), str):
            yield entry["field"].rstrip(":"), entry["data"]
        yield from _flat(entry.get("children") or [])


def _count(found: dict[str, str], *names: str) -> int:
    """The first of `names` that is there; 1 where the machine does not say (no sockets or NUMA in some guests)."""
    value = next((found[name] for name in names if found.get(name, "-") != "-"), "1")
    return max(1, whole("lscpu", value, names[0]))


def cpu_of(evidence: Evidence) -> Cpu:
    """The processors of the host."""
    return parse(output(evidence, COMMAND.key))


def facts(raw: bytes) -> dict[str, object]:
    """The processors of the machine, from the JSON."""
    return _facts(parse(raw))


def text_facts(raw: bytes) -> dict[str, object]:
    """The processors of the machine, from the text form; raises ProbeError when it is translated or cut."""
    entries = []
    for line in lines("lscpu", raw):
        field, colon, data = line.partition(":")
        if not colon:
            raise unreadable("lscpu", line)
        entries.append({"field": field.strip(), "data": data.strip()})
    named = {entry["field"] for entry in entries}
    missing = {"CPU(s)", "Socket(s)", "Vendor ID", "NUMA node(s)"} - named
    if missing and not ({"CPU(s)", "Vendor ID"} <= named and any(name.startswith("Vulnerab") for name in named)):
        raise unreadable("lscpu", f"no {', '.join(sorted(missing))}", "cut off")
    return _facts(parse(json.dumps({"lscpu": entries}).encode()))


def _facts(cpu: Cpu) -> dict[str, object]:
    counts = {"cpus": cpu.threads, "threads": cpu.threads, "cores": cpu.cores, "sockets": cpu.sockets}
    return {**counts, "numa_nodes": cpu.numa_nodes, "model": cpu.model}


FORMATS = (
    Format("lscpu -J", holds(rb'\A\s*\{\s*"lscpu"\s*:'), facts),
    Format("lscpu", holds(rb"\AArchitecture:\s+\S+$"), text_facts),
)

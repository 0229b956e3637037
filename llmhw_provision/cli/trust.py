"""Records of the catalogue on which a result rests although they are below high confidence."""

from __future__ import annotations

from typing import Any

from llmhw_provision.catalogue.loader import (
    CpuKind,
    Dated,
    DiskKind,
    Gpu,
    MachineKind,
    ModelKind,
    NicKind,
    find,
    names,
    sold_machine,
)
from llmhw_provision.errors import InputError
from llmhw_provision.sizing.estimate import Hardware


def machines_of(options: dict[str, Any]) -> tuple[MachineKind, ...]:
    """The machines of the catalogue that the options of hardware name: none with --gpu, all where nothing is named."""
    if options["gpu"]:
        return ()
    wanted = (options["machine"],) if options["machine"] else names("machines")
    return tuple(sold_machine(name) for name in wanted)


def doubts(model: str, machines: tuple[MachineKind, ...], hardware: list[Hardware]) -> dict[str, Dated]:
    """Records below high confidence by their title: the model, the machines with all parts, the GPUs of `hardware`."""
    found: dict[str, Dated] = {}
    for kind in machines:
        found |= {kind.title: kind, **_parts(kind)}
    for gpu in {item.card.kind: None for item in hardware if item.card.kind}:
        record = find("gpus", gpu, Gpu)
        found[record.title] = record
    try:
        known = find("models", model, ModelKind)
    except InputError:  # a file or a parameter count
        pass
    else:
        found[known.title] = known
    return {title: record for title, record in found.items() if record.confidence != "high"}


def _parts(kind: MachineKind) -> dict[str, Dated]:
    cpu = find("cpus", kind.cpu.kind, CpuKind)
    nics = [find("nics", kind.nics.kind, NicKind)] if kind.nics else []
    disks = [find("disks", disk.kind, DiskKind) for disk in kind.disks]
    return {record.title: record for record in (cpu, *nics, *disks)}


def notes(found: dict[str, Dated]) -> list[str]:
    """One line of `size` for each confidence."""
    lines = []
    for confidence in ("medium", "low"):
        titles = [title for title, record in found.items() if record.confidence == confidence]
        if titles:
            lines.append(f"note: rests on records of {confidence} confidence: {', '.join(titles)}")
    return lines


def data(found: dict[str, Dated]) -> list[dict[str, Any]]:
    """The same as JSON, with what each record says of its source."""
    return [
        {"record": title, "confidence": record.confidence, "source": record.source} for title, record in found.items()
    ]

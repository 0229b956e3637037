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
)
from llmhw_provision.errors import InputError
from llmhw_provision.sizing.estimate import Hardware


def doubts(model: str, machine: str | None, rows: list[tuple[str, Hardware]]) -> dict[str, Dated]:
    """Records below high confidence by their title: the model, the GPUs of `rows`, their machines with all parts.

    `machine` is the name that was asked for; rows without one are machines of the catalogue or bare GPUs.
    """
    found: dict[str, Dated] = {}
    titles = {title for title, _ in rows}
    for name in (machine,) if machine else names("machines"):
        kind = find("machines", name, MachineKind)
        if kind.title in titles:
            found |= {kind.title: kind, **_parts(kind)}
    for gpu in {hardware.card.kind: None for _, hardware in rows if hardware.card.kind}:
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

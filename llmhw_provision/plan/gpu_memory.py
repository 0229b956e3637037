"""Whether the workload fits the GPUs of the hosts, and in which layout."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from llmhw_provision.catalogue.loader import Gpu, find, names
from llmhw_provision.errors import DoesNotFit
from llmhw_provision.machine import Gpus, Machine
from llmhw_provision.plan.model import Note
from llmhw_provision.sizing.cards import card_of
from llmhw_provision.sizing.estimate import Estimate, Hardware
from llmhw_provision.sizing.layout import best, describe
from llmhw_provision.sizing.need import Need
from llmhw_provision.sizing.placement import Placed, place
from llmhw_provision.sizing.shrink import larger, suggestions
from llmhw_provision.sizing.terms import Term
from llmhw_provision.units import memory

_CHANGES = 3  # that are named in a hint


def known_gpus(machine: Machine) -> Gpus | None:
    """The GPUs of a machine that the catalogue knows."""
    return next((gpus for gpus in machine.gpus if gpus.kind in names("gpus")), None)


def gpu_notes(host: str, machine: Machine, machines: dict[str, Machine], need: Need) -> tuple[Note, ...]:
    """What the job needs on each GPU of `host`; raises DoesNotFit. Training spans all hosts with the same GPUs."""
    gpus = known_gpus(machine)
    if gpus is None:
        seen = ", ".join(f"{item.count}× {item.kind}" for item in machine.gpus) or "no GPU"
        return (
            Note(
                host=host,
                rule="GPU memory is checked against the catalogue",
                choice=f"not checked: {seen} found; storage is planned all the same",
                source="catalogue/gpus.yml",
            ),
        )
    alike = sum(known_gpus(other) == gpus for other in machines.values())
    placement = need.workload.placement
    if placement is None:
        found = _estimate(gpus, machine, alike, need)
        return (*_notes(host, found, need), *_host_notes(host, found))
    placed = placed_on(gpus, machine, alike, need)
    if placed.host_verdict == "does not fit":
        _refuse_host(host, placed.host_bytes, placed.host, judged_memory(machine), need)
    return tuple(
        note
        for group in placed.groups
        for note in _notes(host, group.estimate, need, f"{', '.join(group.roles)}: GPU {group.first} and on, ")
    )


def placed_on(gpus: Gpus, machine: Machine, alike: int, need: Need) -> Placed:
    """The groups of a workload that names a placement, on `alike` equal hosts; raises InputError."""
    load = need.workload
    if load.placement is None:
        raise ValueError("a workload without placement has one group")
    hardware = _hardware(gpus, machine, alike)
    return place(need.job, need.model, hardware, load.layout, load.batch, load.placement)


def _notes(host: str, found: Estimate, need: Need, who: str = "") -> tuple[Note, ...]:
    """What one GPU needs at its peak; raises DoesNotFit for the GPU or for the host."""
    card, terms = found.hardware.card, found.peak.terms
    text = f"{memory(found.device_bytes)} ± {memory(found.device_band)} on each of {found.layout.gpus}× {card.title}"
    text = f"{who}{text}, of {memory(card.usable)}: {found.device_verdict}; {describe(found.job, found.layout)}"
    if found.device_verdict == "does not fit":
        parts = "; ".join(f"{term.name} {memory(term.size)}" for term in terms if term.size)
        hint = "see llmhw-provision size" if who else shrink_hint(need, found.hardware)
        raise DoesNotFit(f"{host}: {need.model.title} needs {text} ({parts})", hint)
    if found.host_verdict == "does not fit":
        _refuse_host(host, found.host_bytes, found.host, found.hardware.host_memory, need)
    return (
        Note(
            host=host,
            rule=f"GPU memory at its peak ({found.peak.name})",
            choice=text,
            inputs=tuple(f"{term.name} {memory(term.size)}: {term.formula}" for term in terms),
            source="; ".join(dict.fromkeys(term.source for term in terms if term.kind != "overhead")),
        ),
    )


def shrink_hint(need: Need, hardware: Hardware) -> str:
    """What would make the workload fit, each change estimated; else on how many GPUs it fits as it is."""
    found = suggestions(need, hardware)[:_CHANGES]
    if found:
        return "fits with " + ", or with ".join(item.text for item in found)
    count = larger(need, hardware)
    return f"{count:,} such GPUs hold it" if count else "see llmhw-provision compare"


def _refuse_host(host: str, needed: int, terms: tuple[Term, ...], there: int, need: Need) -> NoReturn:
    text = f"{memory(needed)} of host memory, of {memory(there)}"
    parts = "; ".join(f"{term.name} {memory(term.size)}" for term in terms if term.size)
    raise DoesNotFit(f"{host}: {need.model.title} needs {text} ({parts})", "see llmhw-provision size")


def _hardware(gpus: Gpus, machine: Machine, nodes: int) -> Hardware:
    card = card_of(find("gpus", gpus.kind, Gpu), gpus.kind)
    return Hardware(card, gpus.count, nodes=nodes, host_memory=judged_memory(machine))


def judged_memory(machine: Machine) -> int:
    """Bytes of host memory that a workload is held to; 0 (not known) for a virtual machine: a rehearsal."""
    return 0 if machine.virtual else machine.memory_bytes


def _estimate(gpus: Gpus, machine: Machine, alike: int, need: Need) -> Estimate:
    """Training over all alike hosts; serving on each, the requests divided among them."""
    job = need.job if need.job.trains else replace(need.job, concurrency=-(-need.job.concurrency // alike))
    hardware = _hardware(gpus, machine, alike if job.trains else 1)
    return best(job, need.model, hardware, need.workload.layout, need.workload.batch)


def _host_notes(host: str, found: Estimate) -> tuple[Note, ...]:
    limit = found.hardware.host_memory
    if limit and found.host_verdict == "fits":
        return ()
    if not limit:
        why = f"{memory(found.host_bytes)} of host memory are needed; not judged: a virtual machine, a rehearsal"
        return (Note(host=host, rule="host memory", choice=why, source="the memory of the machine itself counts"),)
    return (
        Note(
            host=host,
            rule="host memory",
            choice=f"{memory(found.host_bytes)} of {memory(limit)}: {found.host_verdict}",
            inputs=tuple(f"{term.name} {memory(term.size)}: {term.formula}" for term in found.host),
            source="; ".join(dict.fromkeys(term.source for term in found.host)),
        ),
    )

"""The layout of each group of GPUs, as the plan keeps it."""

from __future__ import annotations

from dataclasses import replace

from llmhw_provision.catalogue.loader import Gpu, find
from llmhw_provision.machine import Gpus, Machine
from llmhw_provision.plan.gpu_memory import judged_memory, known_gpus
from llmhw_provision.plan.work import Work, WorkLayout
from llmhw_provision.sizing.cards import card_of
from llmhw_provision.sizing.estimate import Estimate, Hardware
from llmhw_provision.sizing.layout import best
from llmhw_provision.sizing.need import Need
from llmhw_provision.sizing.placement import place
from llmhw_provision.sizing.speed import speed


def plan_work(machines: dict[str, Machine], need: Need) -> tuple[Work, ...]:
    """One entry per group of GPUs that works together; hosts without a known GPU have none.

    Training spans all hosts with the same GPUs. Hosts that serve divide the requests among them, in one layout.
    """
    alike: dict[Gpus, list[str]] = {}
    for name, machine in machines.items():
        gpus = known_gpus(machine)
        if gpus is not None:
            alike.setdefault(gpus, []).append(name)
    return tuple(work for gpus, names in alike.items() for work in _groups(gpus, names, machines, need))


def _groups(gpus: Gpus, names: list[str], machines: dict[str, Machine], need: Need) -> list[Work]:
    cores = min(machines[name].cpu.cores for name in names)
    memory = min(machines[name].memory_bytes for name in names)
    judged = min(judged_memory(machines[name]) for name in names)
    card = card_of(find("gpus", gpus.kind, Gpu), gpus.kind)
    load, job = need.workload, need.job

    def work(roles: tuple[str, ...], first: int, count: int, found: Estimate) -> Work:
        return Work(
            hosts=tuple(names),
            roles=roles,
            first=first,
            count=count,
            gpu=gpus.kind,
            cores=cores,
            memory_bytes=memory,
            save_every=_save_every(found, need),
            layout=WorkLayout.of(found.layout),
        )

    if load.placement is not None:
        hardware = Hardware(card, gpus.count, nodes=len(names), host_memory=judged)
        placed = place(job, need.model, hardware, load.layout, load.batch, load.placement)
        return [work(group.roles, group.first, group.count, group.estimate) for group in placed.groups]
    if not job.trains:
        job = replace(job, concurrency=-(-job.concurrency // len(names)))
    hardware = Hardware(card, gpus.count, nodes=len(names) if job.trains else 1, host_memory=judged)
    role = "training" if job.trains else "serving"
    return [work((role,), 0, gpus.count, best(job, need.model, hardware, load.layout, load.batch))]


def _save_every(found: Estimate, need: Need) -> int:
    """Steps between checkpoints: Young's interval over the predicted step; at least one."""
    if not found.job.trains:
        return 0
    predicted = speed(found, need.checkpoint)
    if predicted is None or predicted.step is None or predicted.saving is None:
        return 0
    return max(1, round(predicted.saving.interval / predicted.step.seconds))

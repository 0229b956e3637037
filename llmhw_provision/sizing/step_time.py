"""Seconds of a step for many layouts of one job: what several layouts share is computed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llmhw_provision.model import Architecture
from llmhw_provision.sizing import compute, traffic
from llmhw_provision.sizing.compute import uneven_share
from llmhw_provision.sizing.efficiency import fitted
from llmhw_provision.sizing.job import Job, Layout, under
from llmhw_provision.sizing.network import Links
from llmhw_provision.sizing.step import Part, Setting

_Seconds = tuple[float, ...]


@dataclass(frozen=True)
class Group:
    """Parts of a step, and all that they read of a layout whose job and GPUs stay the same."""

    make: Callable[[Setting], list[Part]]
    reads: Callable[[Layout], tuple[object, ...]]


def _samples(layout: Layout) -> int:
    return layout.micro_batch * layout.micro_batches


# In the order of training_step; what lies beyond the pipeline's work is not in its bubble.
WORKING = (
    Group(compute.computing, lambda of: (_samples(of), of.tp * of.pp * of.cp, of.recompute)),
    Group(compute.dequantised, lambda of: (of.tp * of.pp, of.micro_batches, of.recompute)),
    Group(traffic.tensor, lambda of: (_samples(of), of.tp, of.pp, of.vpp, of.cp, of.recompute)),
    Group(traffic.experts, lambda of: (_samples(of), of.tp, of.pp, of.cp, of.ep, of.recompute)),
)
BEYOND = (
    Group(
        traffic.sharding,
        lambda of: (of.tp, of.pp, of.cp, of.ep, of.zero, of.sharder, of.micro_batches * (of.zero >= 2)),
    ),
    Group(
        compute.optimizer,
        lambda of: (
            *(of.tp, of.pp, of.ep, of.zero, of.sharder, of.offload_optimizer),
            *(of.micro_batches * of.offload_params, of.nvme),
        ),
    ),
)


class StepTimes:
    """The seconds of `training_step`, to the last bit, for layouts that differ in nothing but what groups read."""

    def __init__(self, model: Architecture, job: Job, links: Links) -> None:
        self._model, self._job, self._links = model, job, links
        self._working = [(group, dict[tuple[object, ...], _Seconds]()) for group in WORKING]
        self._beyond = [(group, dict[tuple[object, ...], _Seconds]()) for group in BEYOND]

    def seconds(self, layout: Layout) -> float:
        """Seconds of one step of the whole cluster."""
        parts: list[float] = []
        for group, known in self._working:
            parts += known.get(key := group.reads(layout)) or self._computed(group, known, key, layout)
        if layout.pp > 1:
            parts.append(uneven_share(self._model.layers, layout.pp) * sum(parts))
            parts.append((layout.pp - 1) / (max(1, layout.micro_batches) * layout.vpp) * sum(parts))
        for group, known in self._beyond:
            parts += known.get(key := group.reads(layout)) or self._computed(group, known, key, layout)
        return sum(parts)

    def _computed(
        self, group: Group, known: dict[tuple[object, ...], _Seconds], key: tuple[object, ...], layout: Layout
    ) -> _Seconds:
        of = Setting(self._model, under(self._job, layout), layout, self._links, self._job.scheme == "fp8", fitted())
        known[key] = tuple(part.seconds for part in group.make(of)) or (0.0,)
        return known[key]

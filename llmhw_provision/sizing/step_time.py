"""Seconds of a step for many layouts of one job: what several layouts share is computed once."""

from __future__ import annotations

from llmhw_provision.model import Architecture
from llmhw_provision.sizing.compute import BEYOND, WORKING, Group, Setting
from llmhw_provision.sizing.efficiency import fitted
from llmhw_provision.sizing.job import Job, Layout, under
from llmhw_provision.sizing.network import Links

_Seconds = tuple[float, ...]


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

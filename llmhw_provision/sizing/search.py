"""The largest that fits: context in training and serving, sequences in flight, parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from llmhw_provision.errors import InputError
from llmhw_provision.model import Architecture, from_parameters
from llmhw_provision.sizing.job import Job, Layout, Recompute
from llmhw_provision.sizing.serving import serving
from llmhw_provision.sizing.training import Moment, peak

_LARGEST = 1 << 40
_RECOMPUTE: tuple[Recompute, ...] = ("none", "full")


def need(model: Architecture, job: Job, layout: Layout) -> Moment:
    """The peak of a job on one GPU."""
    return peak(model, job, layout) if job.trains else serving(model, job, layout)


def least_recompute(model: Architecture, job: Job, layout: Layout, card: int) -> Layout:
    """The layout with the least recomputation that fits `card` bytes; full when none does, and before any offload."""
    if layout.offload_optimizer or layout.offload_params:
        return replace(layout, recompute="full")
    for recompute in _RECOMPUTE:
        tried = replace(layout, recompute=recompute)
        if peak(model, job, tried).device <= card:
            return tried
    return replace(layout, recompute="full")


def largest(fits: Callable[[int], bool], *, start: int = 1, limit: int = _LARGEST) -> int:
    """The largest whole number that fits, 0 when not even `start` does; `fits` must not turn true again."""
    if not fits(start):
        return 0
    low, high = start, start * 2
    while high < limit and fits(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def largest_context(model: Architecture, job: Job, layout: Layout, card: int) -> int:
    """Tokens of the longest sequence that fits a card: trained on, or served at the job's concurrency."""

    def fits(tokens: int) -> bool:
        changed = replace(job, sequence=tokens) if job.trains else replace(job, context=tokens)
        return need(model, changed, layout).device <= card

    return largest(fits)


def largest_concurrency(model: Architecture, job: Job, layout: Layout, card: int) -> int:
    """Sequences of the job's context that a card serves at once."""
    return largest(lambda count: serving(model, replace(job, concurrency=count), layout).device <= card)


def largest_model(job: Job, layout: Layout, card: int, *, step: int = 10_000_000) -> int:
    """Parameters of the largest dense model that a card trains, in steps of ten million."""

    def fits(count: int) -> bool:
        return peak(from_parameters(count * step), job, layout).device <= card

    return step * largest(fits, limit=1_000_000)


def largest_states(card: int, bytes_of: Callable[[Architecture], int]) -> int:
    """Parameters of the largest model whose states alone fill a card; raises InputError when it holds none."""
    one = from_parameters(1_000_000_000)
    each = bytes_of(one)
    if not each:
        raise InputError("no states are left on the GPU: all of them are offloaded", "leave parameters on the GPU")
    return card * one.parameters // each

"""The least number of GPUs that a job fits on: legal layouts tried from one GPU upwards, never offloading."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from llmhw_provision.errors import InputError
from llmhw_provision.model import Architecture
from llmhw_provision.sizing.bands import band
from llmhw_provision.sizing.estimate import limit, verdict
from llmhw_provision.sizing.job import Job, Layout
from llmhw_provision.sizing.limits import require
from llmhw_provision.sizing.search import need

_NODE = 8
_MOST = 16_384


def counts() -> Iterator[int]:
    """Numbers of GPUs that machines come in: powers of two."""
    count = 1
    while count <= _MOST:
        yield count
        count *= 2


def fewest(model: Architecture, job: Job, card: int, *, tight: bool = False) -> int:
    """GPUs with `card` usable bytes; raises InputError when even 16,384 are too few.

    `tight` counts what can work within the uncertainty of the need, instead of what surely does.
    """
    wanted = ("fits", "tight") if tight else ("fits",)
    for gpus in counts():
        for layout in legal(model, job, gpus):
            found = need(model, job, layout)
            if verdict(found.device, band(found.terms), limit(job, card)) in wanted:
                return gpus
    raise InputError(f"{model.title}: does not fit {_MOST:,} GPUs")


def legal(model: Architecture, job: Job, gpus: int) -> Iterator[Layout]:
    """Layouts of `gpus` GPUs with one sample per micro-batch and everything recomputed, which need least."""
    nodes = -(-gpus // _NODE)
    for tp in (1, 2, 4, 8) if job.trains else (1, 2, 4, 8, 16):
        if gpus % tp:
            continue
        base = Layout(gpus=gpus, nodes=nodes, tp=tp, sequence_parallel=tp > 1 and job.trains, recompute="full")
        if not job.trains:
            if tp != gpus:
                continue
            base = replace(base, nodes=1, recompute="none")
        elif gpus > 1:
            base = replace(base, zero=3, sharder="fsdp")
        try:
            require(model, job, base)
        except InputError:
            continue
        yield base

"""The least number of GPUs that a job fits on: legal layouts tried from one GPU upwards, never offloading."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from llmhw_provision.errors import InputError
from llmhw_provision.model import Architecture
from llmhw_provision.sizing.estimate import limit
from llmhw_provision.sizing.job import Job, Layout
from llmhw_provision.sizing.limits import require
from llmhw_provision.sizing.search import need

_NODE = 8
_MOST = 16_384
_ROOM = 97  # percent of a card that a plan may fill


def counts() -> Iterator[int]:
    """Numbers of GPUs that machines come in: powers of two."""
    count = 1
    while count <= _MOST:
        yield count
        count *= 2


def fewest(model: Architecture, job: Job, card: int) -> int:
    """GPUs with `card` usable bytes; raises InputError when even 16,384 are too few."""
    for gpus in counts():
        for layout in legal(model, job, gpus):
            if need(model, job, layout).device <= limit(job, card) * _ROOM // 100:
                return gpus
    raise InputError(f"{model.title}: does not fit {_MOST:,} GPUs")


def legal(model: Architecture, job: Job, gpus: int) -> Iterator[Layout]:
    """Layouts of `gpus` GPUs with one sample per micro-batch and everything recomputed, which need least."""
    nodes = -(-gpus // _NODE)
    for tp in (1, 2, 4, 8):
        if gpus % tp:
            continue
        base = Layout(gpus=gpus, nodes=nodes, tp=tp, sequence_parallel=tp > 1 and job.trains, recompute="full")
        if not job.trains:
            base = replace(base, gpus=tp, nodes=1, recompute="none")
        elif gpus > 1:
            base = replace(base, zero=3, sharder="fsdp")
        try:
            require(model, job, base)
        except InputError:
            continue
        yield base

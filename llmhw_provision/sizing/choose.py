"""A layout where none is given: the first that fits, from what costs no speed to what costs most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from llmhw_provision.errors import InputError
from llmhw_provision.model import Architecture
from llmhw_provision.sizing.estimate import Estimate, Hardware, estimate
from llmhw_provision.sizing.job import Job, Layout, Recompute, Sharder
from llmhw_provision.workload import Parallel

_RECOMPUTE: tuple[Recompute, ...] = ("none", "selective-op", "full")
_LARGEST_MICRO_BATCH = 64
_TENSOR_PARALLEL = (1, 2, 4, 8)  # within one host


def best(job: Job, model: Architecture, hardware: Hardware, given: Parallel, batch: int) -> Estimate:
    """The first layout that fits; else the first that is tight; else the one without offload that needs least.

    Raises InputError when no layout is possible with what is given.
    """
    found: list[Estimate] = []
    problem: InputError | None = None
    for layout in layouts(job, model, hardware, given, batch):
        try:
            tried = estimate(_share(job, layout), model, hardware, layout)
        except InputError as error:
            problem = problem or error
            continue
        if tried.verdict == "fits":
            return tried
        found.append(tried)
    if not found:
        raise problem or InputError(f"{model.title}: no layout is possible on {hardware.all_gpus} GPUs")
    tight = [tried for tried in found if tried.verdict == "tight"]
    if tight:
        return tight[0]
    own = [tried for tried in found if not tried.layout.offload_optimizer] or found
    return min(own, key=lambda tried: tried.device_bytes)


def _share(job: Job, layout: Layout) -> Job:
    """Serving replicas divide the requests among them."""
    return job if job.trains else replace(job, concurrency=-(-job.concurrency // layout.dp))


def layouts(job: Job, model: Architecture, hardware: Hardware, given: Parallel, batch: int) -> Iterator[Layout]:
    """Layouts in the order in which they are tried."""
    fixed = _given(given)
    base = Layout(gpus=hardware.all_gpus, nodes=hardware.nodes)
    if not job.trains:
        for tp in _TENSOR_PARALLEL:
            if "tp" in fixed or (hardware.gpus % tp == 0 and model.heads % tp == 0):
                yield replace(base, **{"tp": tp, **fixed})
            if "tp" in fixed:
                return
        return
    base = _sharded(replace(base, **fixed), given)
    for offload in _offloads(base, given):
        for recompute in (given.recompute,) if given.recompute else _RECOMPUTE:
            for micro in (given.micro_batch,) if given.micro_batch else _micro_batches(base, batch):
                accumulated = given.micro_batches or max(1, -(-batch // (base.dp * micro)))
                yield replace(base, **offload, recompute=recompute, micro_batch=micro, micro_batches=accumulated)


def _given(given: Parallel) -> dict[str, Any]:
    names = ("tp", "pp", "vpp", "cp", "ep", "zero", "sharder", "sequence_parallel", "nvme", "offload_activations")
    return {name: getattr(given, name) for name in names if getattr(given, name) is not None}


def _sharded(base: Layout, given: Parallel) -> Layout:
    """FSDP over all data-parallel ranks; Megatron's distributed optimizer with pipeline stages; nothing on one GPU."""
    sharder = given.sharder or _sharder(base, given)
    zero = {"ddp": 0, "megatron": 1, "fsdp": 3, "deepspeed": 3}[sharder] if given.zero is None else given.zero
    parallel = base.tp > 1 if given.sequence_parallel is None else given.sequence_parallel
    return replace(base, sharder=sharder, zero=zero, sequence_parallel=parallel)


def _sharder(base: Layout, given: Parallel) -> Sharder:
    if given.zero == 0 or (base.gpus == 1 and given.zero is None and given.offload in (None, "none")):
        return "ddp"
    if base.pp > 1:
        return "megatron"
    return "deepspeed" if given.zero == 1 else "fsdp"


def _offloads(base: Layout, given: Parallel) -> list[dict[str, Any]]:
    each: dict[str, dict[str, Any]] = {
        "none": {"offload_optimizer": False, "offload_params": False},
        "optimizer": {"offload_optimizer": True, "offload_params": False},
        "all": {"offload_optimizer": True, "offload_params": True},
    }
    if given.offload is not None:
        return [each[given.offload]]
    if base.zero < 2 or base.pp > 1:
        return [each["none"]]
    return [each["none"], each["optimizer"], each["all"]] if base.zero == 3 else [each["none"], each["optimizer"]]


def _micro_batches(base: Layout, batch: int) -> list[int]:
    """Powers of two from the largest that fills the batch down to one sample."""
    largest = min(_LARGEST_MICRO_BATCH, max(1, batch // base.dp))
    return [1 << power for power in range(largest.bit_length() - 1, -1, -1)]


def describe(job: Job, layout: Layout) -> str:
    """The layout in words: `FSDP over 8, full recompute, micro-batch 1`."""
    parts = [
        f"{name} {ways}"
        for name, ways in (("TP", layout.tp), ("PP", layout.pp), ("CP", layout.cp), ("EP", layout.ep))
        if ways > 1
    ]
    if not job.trains:
        if layout.dp > 1:
            parts.append(f"{layout.dp} replicas")
        return ", ".join(parts) or "one GPU per replica"
    parts += _sharding_words(layout)
    if layout.recompute != "none":
        parts.append({"selective-op": "selective"}.get(layout.recompute, layout.recompute) + " recompute")
    if layout.offload_params or layout.offload_optimizer:
        what = "everything" if layout.offload_params else "optimizer"
        parts.append(f"{what} offloaded to {'NVMe' if layout.nvme else 'host'}")
    parts.append(f"micro-batch {layout.micro_batch}")
    return ", ".join(parts)


def _sharding_words(layout: Layout) -> list[str]:
    if layout.zero == 0:
        return [f"DDP over {layout.dp}"] if layout.dp > 1 else []
    names = {"fsdp": "FSDP", "megatron": "distributed optimizer", "deepspeed": f"ZeRO-{layout.zero}", "ddp": "DDP"}
    return [f"{names[layout.sharder]} over {layout.shards}"]

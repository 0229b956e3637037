"""estimate(workload, model) → Estimate: what a workload needs, every number with its arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from llmhw_provision.catalogue.loader import Gpu
from llmhw_provision.errors import InputError
from llmhw_provision.model import Architecture
from llmhw_provision.sizing import memory
from llmhw_provision.sizing.storage import StorageNeed, storage_need
from llmhw_provision.sizing.terms import Term, total
from llmhw_provision.workload import Workload


@dataclass(frozen=True)
class Estimate:
    """What one workload needs. `device` counts all GPUs together and leaves out activations: a lower bound."""

    workload: Workload
    model: Architecture
    device: tuple[Term, ...]
    checkpoint: Term | None
    storage: StorageNeed
    hot: int

    @property
    def device_bytes(self) -> int:
        """Bytes of GPU memory over all GPUs, at least."""
        return total(self.device)


@dataclass(frozen=True)
class Fit:
    """Whether an estimate fits the GPUs of one machine."""

    needs_per_gpu: int
    usable_per_gpu: int
    count: int

    @property
    def fits(self) -> bool:
        """Whether the lower bound is within the card."""
        return self.needs_per_gpu <= self.usable_per_gpu


def estimate(workload: Workload, model: Architecture) -> Estimate:
    """The estimate of `workload`; raises InputError when serving is asked for without its figures."""
    weights = memory.weights(model, workload.weights)
    if workload.job == "serve":
        if workload.serving is None:
            raise InputError(
                "workload.yaml: serving: missing", "job: serve needs serving: {concurrency: 32, context: 8192}"
            )
        serving = workload.serving
        cache = memory.kv_cache(model, context=serving.context, concurrency=serving.concurrency, precision=serving.kv)
        device: tuple[Term, ...] = (weights, cache)
        checkpoint = None
    else:
        device = memory.training_states(model, workload.method)
        checkpoint = memory.checkpoint(model, workload.method)
    need = storage_need(
        weights=weights,
        checkpoint=checkpoint,
        keep=workload.checkpoints.keep,
        dataset=workload.dataset.size if workload.dataset else 0,
    )
    hot = workload.dataset.hot or 0 if workload.dataset else 0
    return Estimate(workload, model, device, checkpoint, need, hot)


def fit(need: Estimate, gpu: Gpu, count: int) -> Fit:
    """The lower bound spread evenly over `count` GPUs (ZeRO-3, FSDP or tensor parallel) against one card's memory."""
    return Fit(-(-need.device_bytes // count), gpu.memory_bytes, count)

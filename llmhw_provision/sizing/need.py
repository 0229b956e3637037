"""What a workload needs whatever machine it runs on: checkpoints, scratch, project storage, hot set."""

from __future__ import annotations

from dataclasses import dataclass

from llmhw_provision.errors import InputError, Problem
from llmhw_provision.model import Architecture
from llmhw_provision.sizing.formats import format_of
from llmhw_provision.sizing.job import ALL_LINEAR, Job, Layout
from llmhw_provision.sizing.states import frozen_weights, lora_parameters, optimizer_bytes
from llmhw_provision.sizing.storage import StorageNeed, storage_need
from llmhw_provision.sizing.terms import Term, number, up
from llmhw_provision.workload import Workload

CHECKPOINT = "BLOOM 176B checkpoints of 2.3 TB, BigScience 2022, arXiv 2211.05100: weights and optimizer states"

_SERVED = {"tp", "pp", "cp", "ep"}  # of the layout, what a server takes too
_WHOLE = ("llamafactory", "trl", "accelerate")
_OFF = (None, False, 0, "none")


@dataclass(frozen=True)
class Need:
    """A workload with its model and job in plain values, and what it needs of storage."""

    workload: Workload
    model: Architecture
    job: Job
    checkpoint: Term | None
    storage: StorageNeed
    hot: int


def need(workload: Workload, model: Architecture) -> Need:
    """What `workload` needs of storage; raises InputError when serving is asked for without its figures."""
    workload = _as_framework_divides(workload)
    job = job_of(workload)
    base = frozen_weights(model, Layout(), "only", format_of(model, job.weights))  # QLoRA quantises as it loads
    saved = checkpoint(model, job) if job.trains else None
    storage = storage_need(
        weights=base,
        checkpoint=saved,
        keep=workload.checkpoints.keep,
        dataset=workload.dataset.size if workload.dataset else 0,
    )
    return Need(workload, model, job, saved, storage, workload.dataset.hot or 0 if workload.dataset else 0)


def _as_framework_divides(workload: Workload) -> Workload:
    """The workload with what its framework fixes of a layout: trainers of Hugging Face divide by ZeRO and FSDP only."""
    fixed: dict[str, object] = {}
    if workload.launch.framework in _WHOLE:
        fixed = {"tp": 1, "pp": 1, "cp": 1, "ep": 1}
    elif workload.launch.framework == "megatron":
        fixed = {"sharder": "megatron"}
    left = {name: value for name, value in fixed.items() if getattr(workload.layout, name) is None}
    return workload.model_copy(update={"layout": workload.layout.model_copy(update=left)}) if left else workload


def _require_serving(workload: Workload) -> None:
    """Raises InputError when a server's figures are missing, or for each option that only training has."""
    if workload.serving is None:
        raise InputError(
            "workload.yaml: serving: missing",
            "a server needs serving: {concurrency: 32, context: 8192}, or --concurrency 32 --context 8192",
        )
    if workload.job != "serve":
        return
    given = [
        (f"{section}.{name}", getattr(part, name))
        for section, part, names in (
            ("training", workload.training, sorted(workload.training.model_fields_set)),
            ("layout", workload.layout, sorted(workload.layout.model_fields_set - _SERVED)),
        )
        for name in names
    ]
    problems = [
        Problem(f"{field} {value} is for training; job is serve") for field, value in given if value not in _OFF
    ]
    if problems:
        raise InputError.of(problems)


def job_of(workload: Workload) -> Job:
    """The job in plain values."""
    training, served = workload.training, workload.serving
    if workload.job == "serve" or (workload.placement is not None and workload.placement.serve):
        _require_serving(workload)
    loss = "log-probabilities" if workload.job == "dpo" and training.loss == "eager" else training.loss
    job = Job(
        kind=workload.job,
        method=workload.method,
        weights=workload.weights,
        scheme=training.precision,
        optimizer=training.optimizer,
        in_backward=training.optimizer_in_backward,
        sequence=workload.sequence,
        loss=loss,
        flash=training.flash,
        compile=training.compile,
        rank=training.rank,
        targets=ALL_LINEAR if training.targets == "all-linear" else (),
    )
    if served is None:
        return job
    return Job(
        **{
            **job.__dict__,
            "runtime": served.runtime,
            "concurrency": served.concurrency,
            "context": served.context,
            "kv": served.kv,
            "utilisation": served.utilisation,
            "batched_tokens": served.batched_tokens,
        }
    )


def checkpoint(model: Architecture, job: Job) -> Term:
    """Bytes of one training checkpoint: 16-bit weights and optimizer states; of the adapters only for LoRA."""
    if job.method == "full":
        count, each = model.parameters, 2 + optimizer_bytes(job)
        return Term("checkpoint", up(count * each), f"{count:,} parameters × {number(each)} B", CHECKPOINT, "disk")
    count = lora_parameters(model, job)
    each = 2 + optimizer_bytes(job)
    text = f"{count:,} adapter parameters × {number(each)} B"
    return Term("checkpoint", up(count * each), text, CHECKPOINT, "disk")

"""Contradictory options and divisions that cannot be: every problem at once, each naming field and value."""

from __future__ import annotations

from llmhw_provision.errors import InputError, Problem
from llmhw_provision.model import Architecture
from llmhw_provision.sizing.formats import FORMATS
from llmhw_provision.sizing.job import Job, Layout


def require(model: Architecture, job: Job, layout: Layout) -> None:
    """Raises InputError with all problems of a job on a layout."""
    problems = [*_divisions(model, job, layout), *_sharding(job, layout), *_methods(job, layout)]
    if problems:
        raise InputError.of(problems)


def _divisions(model: Architecture, job: Job, layout: Layout) -> list[Problem]:
    found: list[Problem] = []

    def divides(field: str, value: int, what: str, whole: int, hint: str = "") -> None:
        if whole % value:
            found.append(Problem(f"{field} {value} does not divide the {whole:,} {what}", hint))

    ways = layout.tp * layout.pp * layout.cp
    if layout.gpus % ways:
        text = f"tp {layout.tp} × pp {layout.pp} × cp {layout.cp} = {ways} does not divide the {layout.gpus} GPUs"
        found.append(Problem(text, "data parallelism takes what is left, at least 1"))
    divides("tp", layout.tp, "attention heads", model.heads)
    if model.kv_heads % layout.tp and layout.tp % model.kv_heads:
        found.append(Problem(f"tp {layout.tp} and the {model.kv_heads} KV heads do not divide each other"))
    if layout.pp > model.layers:
        found.append(Problem(f"pp {layout.pp} exceeds the {model.layers} layers"))
    if layout.pp * layout.vpp > model.layers:
        found.append(Problem(f"pp {layout.pp} × vpp {layout.vpp} exceeds the {model.layers} layers"))
    if layout.ep > 1:
        if not model.experts:
            found.append(Problem(f"ep {layout.ep}: {model.title} has no experts"))
        else:
            divides("ep", layout.ep, "experts", model.experts)
            if layout.gpus % (layout.ep * layout.pp):
                found.append(Problem(f"ep {layout.ep} × pp {layout.pp} does not divide the {layout.gpus} GPUs"))
    if layout.cp > 1 and job.trains:
        divides("cp", 2 * layout.cp, "tokens of a sequence", job.sequence, "each rank takes two chunks (2 × cp)")
    same = layout.tp if model.mla else layout.tp // model.kv_heads
    if layout.dcp > 1 and (not same or same % layout.dcp):
        text = f"cp {layout.dcp} does not divide the {same} tensor-parallel ranks that cache the same keys and values"
        found.append(Problem(text, "decode context parallel divides what is replicated"))
    if layout.gpus % layout.nodes:
        found.append(Problem(f"nodes {layout.nodes} does not divide the {layout.gpus} GPUs"))
    return found


def _sharding(job: Job, layout: Layout) -> list[Problem]:
    found: list[Problem] = []
    if layout.zero and layout.sharder == "ddp":
        found.append(Problem(f"zero {layout.zero} contradicts sharder ddp", "choose deepspeed, fsdp or megatron"))
    if layout.sharder == "megatron" and layout.zero > 1:
        found.append(Problem(f"zero {layout.zero} contradicts sharder megatron", "its distributed optimizer is zero 1"))
    if layout.sharder == "fsdp" and layout.zero < 2:
        found.append(
            Problem(f"zero {layout.zero} contradicts sharder fsdp", "FULL_SHARD is zero 3, SHARD_GRAD_OP zero 2")
        )
    if layout.zero >= 2 and layout.pp > 1 and layout.sharder == "deepspeed":
        found.append(Problem(f"zero {layout.zero} contradicts pp {layout.pp}", "DeepSpeed pipelines take zero 0 or 1"))
    if layout.offload_optimizer and layout.zero == 0:
        found.append(Problem("offload optimizer contradicts zero 0", "use zero 1, 2 or 3"))
    if layout.offload_params and layout.zero < 3:
        found.append(Problem(f"offload all contradicts zero {layout.zero}", "parameters can be offloaded with zero 3"))
    if layout.nvme and not (layout.offload_optimizer or layout.offload_params):
        found.append(Problem("nvme without offload", "choose offload optimizer or all"))
    if layout.sequence_parallel and layout.tp == 1:
        found.append(Problem("sequence-parallel needs tp above 1"))
    if layout.vpp > 1 and layout.pp == 1:
        found.append(Problem(f"vpp {layout.vpp} needs pp above 1"))
    if not job.trains and (layout.zero or layout.offload_optimizer):
        found.append(Problem(f"zero {layout.zero} is for training; job is serve"))
    return found


def _methods(job: Job, layout: Layout) -> list[Problem]:
    found: list[Problem] = []
    form = FORMATS.get(job.weights)
    if job.trains and job.method == "full" and form is not None and form.quantised:
        text = f"weights {job.weights} cannot be trained in full"
        found.append(Problem(text, "method qlora trains adapters on quantised weights; precision fp8 computes in FP8"))
    if job.method == "qlora" and form is not None and not form.quantised and job.weights != "bf16":
        found.append(Problem(f"method qlora contradicts weights {job.weights}", "leave weights out for NF4"))
    if job.in_backward and layout.micro_batches > 1:
        text = f"micro-batches {layout.micro_batches} contradicts optimizer in backward"
        found.append(Problem(text, "gradients cannot accumulate when each is used at once"))
    if job.in_backward and job.method != "full":
        found.append(Problem(f"optimizer in backward contradicts method {job.method}"))
    if job.kind == "pretrain" and job.method != "full":
        found.append(Problem(f"method {job.method} contradicts job pretrain", "use job sft"))
    if not job.trains and job.method != "full":
        found.append(Problem(f"method {job.method} contradicts job serve"))
    if layout.recompute == "selective" and job.flash and job.trains:
        text = "recompute selective contradicts flash attention, which keeps no scores to recompute"
        found.append(Problem(text, "use selective-op or full"))
    return found

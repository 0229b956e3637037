"""What sharding and parallelism keep in passing: gathered layers, buckets, all-gathered sequences, step copies."""

from __future__ import annotations

from llmhw_provision.model import Architecture
from llmhw_provision.sizing.activations import tokens, width
from llmhw_provision.sizing.formats import Format
from llmhw_provision.sizing.job import Job, Layout
from llmhw_provision.sizing.shards import block_parameters, held, padded_vocab, parameters
from llmhw_provision.sizing.states import frozen_format, gradient_bytes
from llmhw_provision.sizing.terms import Term, divided, number, up

DEEPSPEED = "DeepSpeed configuration, zero_optimization defaults"
_LIVE = 1_000_000_000  # stage3_max_live_parameters
_BUCKET = 500_000_000  # reduce_bucket_size, allgather_bucket_size
_SUB_GROUP = 1_000_000_000  # sub_group_size
_PER_TENSOR = ("adamw-8bit", "paged-adamw-8bit", "adafactor", "galore-8bit")
_PREFETCHED = 2  # the layer at work and the next one
_FSDP = "PyTorch FSDP: the layer at work and the prefetched one are gathered; the output head is a unit of its own"
_DDP = "torch DistributedDataParallel: flat gradient buckets beside the gradients (gradient_as_bucket_view=False)"


def passing(model: Architecture, job: Job, layout: Layout, stage: str) -> tuple[Term, ...]:
    """Buffers of one GPU that live through the whole step, or through forward and backward."""
    found: list[Term] = []
    if _gathers(layout) and _keeps_whole(layout):
        found.append(unsharded(model, job, layout, stage))
    if layout.sharder == "deepspeed" and layout.zero >= 1:
        found.append(_buckets(model, job, layout, stage))
    if layout.sharder == "ddp" and layout.dp > 1 and job.method == "full":
        count = parameters(held(model, layout, stage))
        each = gradient_bytes(job)
        found.append(Term("gradient buckets", count * each, f"{count:,} parameters × {each} B", _DDP, "buffers"))
    return tuple(found)


def layers_together(model: Architecture, job: Job, layout: Layout, *, head: bool) -> list[Term]:
    """What ZeRO-3 or FSDP has put together at one moment: with the output `head`, or two layers in backward."""
    if not _gathers(layout) or _keeps_whole(layout):
        return []
    found = [gathered(model, job, layout, head=head)]
    if not head and job.method == "full":
        count = _PREFETCHED * block_parameters(model, layout)
        text = f"{count:,} parameters × {gradient_bytes(job)} B"
        found.append(Term("gradients not yet reduced", count * gradient_bytes(job), text, _FSDP, "buffers"))
    return found


def _gathers(layout: Layout) -> bool:
    return layout.zero >= 3 and (layout.shards > 1 or layout.offload_params)


def _keeps_whole(layout: Layout) -> bool:
    return layout.pp > 1 and layout.sharder == "fsdp"


def gathered(model: Architecture, job: Job, layout: Layout, *, head: bool) -> Term:
    """Layers whole at one moment: the last one and the output `head` in the loss, two neighbours in backward."""
    form = frozen_format(model, job)
    each = form.bits / 8 if job.method != "full" and form.quantised else 2
    block = block_parameters(model, layout)
    count = 1 if head else _PREFETCHED
    live = count * block
    text = f"{count} layers × {block:,} parameters × {number(each)} B"
    rows = divided(padded_vocab(model.vocab, layout.tp) * model.hidden, layout.tp) if head else 0
    if layout.sharder == "deepspeed":
        live = max(live + rows, min(_LIVE, parameters(held(model, layout))))
        text = f"{live:,} live parameters × {number(each)} B (stage3_max_live_parameters)"
        return Term("gathered layers", up(live * each), text, DEEPSPEED, "buffers")
    if head:
        text += f" + head {rows:,} × 2 B"
    return Term("gathered layers", up(live * each) + 2 * rows, text, _FSDP, "buffers")


def unsharded(model: Architecture, job: Job, layout: Layout, stage: str) -> Term:
    """Whole stage and its gradients: with pipeline stages FSDP gathers once per step, not per micro-batch."""
    count = parameters(held(model, layout, stage))
    each = 2 + (gradient_bytes(job) if job.method == "full" else 0)
    source = (
        "torchtitan: with pipeline parallelism reshard_after_forward is off and gradients are reduced once per step"
    )
    return Term("gathered stage with gradients", count * each, f"{count:,} parameters × {each} B", source, "buffers")


def dequantised(model: Architecture, layout: Layout, form: Format) -> Term:
    """16-bit copy of the largest quantised matrix, which kernels without fused multiplication make."""
    count = max((m.inputs * m.outputs for m in model.matrices if m.group in form.groups), default=0)
    text = f"{count:,} weights × 2 B / {layout.tp}"
    return Term("dequantised matrix", divided(2 * count, layout.tp), text, "bitsandbytes, AutoGPTQ", "buffers")


def _buckets(model: Architecture, job: Job, layout: Layout, stage: str) -> Term:
    """Two flat buckets that overlap communication with backward; never larger than what is reduced."""
    count = _BUCKET
    if layout.zero == 1 or job.method != "full":
        count = min(_BUCKET, parameters(held(model, layout, stage)))
    text = f"2 × {count:,} elements × 2 B (reduce_bucket_size, overlap_comm)"
    return Term("reduce buckets", 4 * count, text, DEEPSPEED, "buffers")


def sequences(model: Architecture, job: Job, layout: Layout) -> Term | None:
    """Whole sequences gathered before each tensor-parallel region: three in forward, three in backward."""
    if not layout.sequence_parallel or layout.tp == 1:
        return None
    count, each = tokens(job, layout), width(job) * model.hidden
    text = f"6 × {count:,} tokens × {each:,} B"
    source = "Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2: all-gather before each parallel region"
    return Term("gathered sequences", 6 * count * each, text, source, "buffers")


def step_copy(model: Architecture, job: Job, layout: Layout, stage: str) -> Term | None:
    """fp32 copy of 16-bit gradients, with which the step updates fp32 master weights; ZeRO-3 makes it in pieces.

    Without ZeRO the kernels of 8-bit optimizers, Adafactor and GaLore take the gradients as they are.
    """
    if job.method != "full" or job.scheme != "mixed" or job.state_bytes or job.in_backward or layout.offload_optimizer:
        return None
    if layout.zero == 0 and job.optimizer in _PER_TENSOR:
        return None
    parts = held(model, layout, stage)
    count = sum(part.divided for part in parts) if layout.zero >= 1 else parameters(parts)
    if layout.zero >= 3:
        count = min(count, _SUB_GROUP)
    source = (
        "Apex O2, DeepSpeed ZeRO: 16-bit gradients are converted to fp32 before the step (sub_group_size in ZeRO-3)"
    )
    return Term("fp32 gradients of the step", 4 * count, f"{count:,} parameters × 4 B", source, "buffers")

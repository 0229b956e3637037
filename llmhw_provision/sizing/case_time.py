"""A published case of speed → chip, links and layout. What a case leaves open takes the usual practice, named here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from llmhw_provision.catalogue.loader import Gpu, find
from llmhw_provision.sizing.cards import card_of
from llmhw_provision.sizing.case_error import Unsupported
from llmhw_provision.sizing.cases import Setup
from llmhw_provision.sizing.chips import Chip, find_chip
from llmhw_provision.sizing.job import Layout, Sharder
from llmhw_provision.sizing.network import Links
from llmhw_provision.sizing.search import least_recompute

_NODE = 8  # GPUs that tensor parallelism spans at most: Narayanan et al. 2021, takeaway 1
_FILL = 8  # micro-batches per step and pipeline stage where no batch is stated: 8 to 11 in Megatron 530B, 1T and BLOOM
_LARGE = 64  # GPUs of one pipeline stage of a large run
_LEAST_TOKENS = 8192  # of a micro-batch where none is stated: shorter ones leave a GPU idle


@dataclass(frozen=True)
class Timed:
    """What a training run is timed from."""

    layout: Layout
    links: Links
    fp8: bool


def chip(inputs: dict[str, Any]) -> Chip:
    """The chip of a case; raises Unsupported without one."""
    name = inputs.get("gpu") or inputs.get("system")
    if name is None:
        raise Unsupported("no GPU is given")
    return find_chip(name)


def in_fp8(inputs: dict[str, Any]) -> bool:
    """Whether linear layers compute in FP8."""
    return bool(inputs.get("float8")) or "fp8" in inputs.get("precision", "")


def timed(of: Setup, *, chosen: bool = False) -> Timed:
    """The run as it is timed; a layout that was `chosen` says itself what is recomputed."""
    found = chip(of.inputs)
    links = Links(found, host_gpus=min(_NODE, of.layout.gpus) if not found.switched else max(_NODE, found.domain))
    layout = _filled(of, _divided(of))
    return Timed(layout if chosen else _recomputed(of, layout, found), links, in_fp8(of.inputs))


def fused_attention(of: Setup) -> bool:
    """Not with selective recomputation, which is of scores, nor in runs counted as the Megatron-LM of 2021 did."""
    if "flash" in of.inputs:
        return of.job.flash
    return of.layout.recompute != "selective" and "96*B*s*L*h^2" not in of.inputs.get("flops_convention", "")


def _divided(of: Setup) -> Layout:
    """Model parallelism as a whole goes to one host first, the rest to pipeline stages."""
    layout, inputs = of.layout, of.inputs
    ways = inputs.get("model_parallel", 0)
    if not ways and inputs.get("sp") and "tp" not in inputs:
        ways = layout.gpus
    if ways > 1:
        tp = min(_NODE, ways)
        while ways % tp:
            tp -= 1
        layout = replace(layout, tp=tp, pp=max(1, ways // tp))
    return layout


def _filled(of: Setup, layout: Layout) -> Layout:
    inputs = of.inputs
    micro = inputs.get("mbs", inputs.get("batch", 0))
    if layout.sharder == "fsdp" and layout.pp > 1:
        return layout
    sharded = layout.zero >= 2 or (layout.pp == 1 and layout.tp == 1)
    micro = micro or (max(1, _LEAST_TOKENS // of.job.sequence) if sharded else 1)
    if "gbs" in inputs:
        count = max(1, round(inputs["gbs"] / (layout.dp * micro)))
    else:
        count = inputs.get("grad_accum", 1 if sharded else _FILL * layout.pp)
    return replace(layout, micro_batch=micro, micro_batches=count)


def _recomputed(of: Setup, layout: Layout, found: Chip) -> Layout:
    if "recompute" in of.inputs or "container" in of.inputs:  # NeMo's recipes of record recompute nothing but norms
        return layout
    usable = of.card.usable if of.card else card_of(find("gpus", found.kind, Gpu)).usable
    held = layout
    if layout.zero == 0 and layout.gpus > 1:  # large runs divide the optimizer, and norms along the sequence
        sharder: Sharder = "megatron" if layout.tp * layout.pp > 1 else "deepspeed"
        held = replace(layout, zero=1, sharder=sharder, sequence_parallel=layout.tp > 1)
    recompute = least_recompute(of.architecture, of.job, held, usable).recompute
    return replace(layout, recompute=recompute)


def usual_layout(of: Setup) -> Layout:
    """Where a case names no layout: that of a large run which recomputes nothing but norms, as Llama 3 and DeepSeek-V3.

    FSDP up to 16B, then tensor parallel 8 and pipeline stages from 60B on; experts over 64 GPUs instead of tensors.
    """
    count, model = of.architecture.parameters, of.architecture
    if count < 16e9:
        return replace(of.layout, gpus=_LARGE, zero=3, sharder="fsdp", recompute="none")
    stages = 1 if count < 60e9 else 4 if count < 200e9 else 16
    tp = 1 if model.experts else _NODE
    ep = min(_LARGE, model.experts) if model.experts else 1
    base = replace(of.layout, gpus=_LARGE * stages, tp=tp, pp=stages, ep=ep, zero=1, sharder="megatron")
    return replace(base, recompute="none")

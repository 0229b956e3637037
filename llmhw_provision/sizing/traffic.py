"""What the GPUs of one training step send each other, as named parts of its time."""

from __future__ import annotations

from dataclasses import replace

from llmhw_provision.sizing.network import factor
from llmhw_provision.sizing.shards import held
from llmhw_provision.sizing.states import lora_parameters
from llmhw_provision.sizing.step import Part, Setting

_RING = "nccl-tests PERFORMANCE.md: bus bytes of ring collectives"
MEGATRON = "Megatron-LM, Narayanan et al. 2021, arXiv 2104.04473, section 3.2; Korthikanti et al. 2022 for sequences"


def _stage_tokens(of: Setting) -> float:
    """Tokens of a step times layers of a stage, per context-parallel rank, all layers counted as one model."""
    return of.batch / of.layout.cp / of.layout.pp


def tensor(of: Setting) -> list[Part]:
    """Two all-reduces forward and two backward per layer, two more when recomputed; keys and values in a ring."""
    layout, found = of.layout, []
    passes = 4 if of.job.method == "full" or layout.tp > 1 else 0
    passes += 2 if layout.recompute == "full" else 0
    if layout.tp > 1:
        size = passes * of.model.layers * 2 * of.model.hidden * _stage_tokens(of)
        found.append(_traffic(of, "tensor parallel", size, "all-reduce", layout.tp, 1, of.use.exposed_tensor))
    if layout.cp > 1:
        heads = max(1.0, of.model.kv_dim / layout.tp)
        size = 3 * of.model.layers * 2 * 2 * heads * _stage_tokens(of) * layout.cp
        found.append(_traffic(of, "context parallel", size, "all-gather", layout.cp, layout.tp, of.use.exposed_tensor))
    if layout.pp > 1:
        size = 2 * 2 * of.model.hidden * of.batch / (layout.cp * layout.tp) * layout.vpp
        inner = layout.tp * layout.cp * layout.dp
        found.append(_traffic(of, "pipeline", size, "send", layout.pp, inner, of.use.exposed_shard))
    return found


def experts(of: Setting) -> list[Part]:
    """Rows to the experts and back, forward and backward."""
    layout, model = of.layout, of.model
    if layout.ep == 1 or not model.experts:
        return []
    passes = 4 + (2 if layout.recompute == "full" else 0)
    rows = _stage_tokens(of) * model.experts_per_token / layout.tp
    size = passes * model.moe_layers * 2 * model.hidden * rows
    inner = max(1, layout.tp)
    return [_traffic(of, "expert parallel", size, "all-to-all", layout.ep, inner, of.use.exposed_tensor)]


def _traffic(of: Setting, name: str, size: float, kind: str, ways: int, inner: int, exposed: float) -> Part:
    bus = of.links.bus(ways, inner=inner, collective=kind)  # type: ignore[arg-type]
    volume = size * factor(kind, ways)  # type: ignore[arg-type]
    text = f"{kind} over {ways}: {volume / 1e9:,.2f} GB / {bus / 1e9:,.0f} GB/s × {100 * exposed:.0f} % not hidden"
    return Part(name, exposed * volume / bus, text, f"{MEGATRON}; {_RING}", volume)


def sharding(of: Setting) -> list[Part]:
    """Gather and reduce of sharded states per micro-batch, or of gradients per step."""
    layout = of.layout
    ranks = layout.shards if layout.zero else layout.dp
    if ranks == 1:
        return []
    parameters = sum(part.parameters for part in held(of.model, layout, layout.stages[0]))
    trained = parameters if of.job.method == "full" else lora_parameters(of.model, of.job) / (layout.tp * layout.pp)
    each = 2
    steps = layout.micro_batches
    if layout.zero >= 3:
        size = each * (2 * steps * parameters + steps * trained)
    elif layout.zero == 2:  # divided gradients are reduced in every micro-step; FSDP puts parameters together anew too
        size = each * (steps + (steps if layout.sharder == "fsdp" else 1)) * trained
    else:
        size = 2 * each * trained
    name = "gather and reduce" if layout.zero >= 3 else "gradients"
    part = _traffic(of, name, size, "all-gather", ranks, layout.tp * (layout.cp if layout.zero == 0 else 1), 1.0)
    hidden = of.use.exposed_shard
    text = f"{part.formula.rpartition(' × ')[0]} × {100 * hidden:.0f} % not hidden"
    return [replace(part, seconds=part.seconds * hidden, formula=text, source=f"ZeRO, arXiv 1910.02054; {_RING}")]

"""Time of one training step: a sum of named parts, each in seconds of one GPU."""

from __future__ import annotations

from fractions import Fraction

from llmhw_provision.model import Architecture
from llmhw_provision.sizing import flops
from llmhw_provision.sizing.chips import BANDWIDTH_REACHED
from llmhw_provision.sizing.efficiency import Efficiency, fitted
from llmhw_provision.sizing.formats import format_of
from llmhw_provision.sizing.job import Job, Layout, under
from llmhw_provision.sizing.network import PCIE_COPY, Links
from llmhw_provision.sizing.shards import held
from llmhw_provision.sizing.states import lora_parameters, optimizer_bytes, weight_bytes
from llmhw_provision.sizing.step import Part, Setting, Step
from llmhw_provision.sizing.traffic import MEGATRON, experts, sharding, tensor

_HOST_BANDWIDTH = 200e9  # bytes/s that CPU Adam finds in a two-socket host: 60 to 70 % of STREAM, ZeRO-Offload
_NVME_BANDWIDTH = 6e9  # bytes/s of one Gen4 drive


def training_step(
    model: Architecture, job: Job, layout: Layout, links: Links, *, fp8: bool = False, use: Efficiency | None = None
) -> Step:
    """Time of a step of `job`: computing, memory traffic, exposed communication, bubble, optimizer, offload."""
    of = Setting(model, under(job, layout), layout, links, fp8 or job.scheme == "fp8", use or fitted())
    inner = [*computing(of), *dequantised(of), *tensor(of), *experts(of)]
    inner.append(_uneven(of, sum(part.seconds for part in inner)))
    bubble = _bubble(of, sum(part.seconds for part in inner))
    parts = tuple(part for part in (*inner, bubble, *sharding(of), *optimizer(of)) if part.seconds > 0)
    convention: flops.Convention = flops.DEFAULT if job.method == "full" else flops.FROZEN
    counted = flops.per_token(model, job.sequence, convention)
    return Step(parts, of.batch * layout.dp, layout.gpus, counted, convention, links.chip.top(fp8=of.fp8))


def bubble_share(pp: int, micro_batches: int, vpp: int = 1) -> Fraction:
    """Idle time of a pipeline relative to its working time, (p - 1) / (m v). Narayanan et al. 2021, section 2.2."""
    return Fraction(pp - 1, max(1, micro_batches) * vpp)


def computing(of: Setting) -> list[Part]:
    """Matrix products, attention, and what memory bounds."""
    return [*_products(of), _attention(of), *_elementwise(of)]


def uneven_share(layers: int, pp: int) -> float:
    """What the fullest stage works beyond an average one. Where layers do not divide, embedding and head count as one.

    Llama 3, arXiv 2407.21783, section 3.3.2: one layer less on the first and on the last stage.
    """
    if layers % pp == 0:
        return 0.0
    return -(-(layers + 2) // pp) * pp / (layers + 2) - 1


def _uneven(of: Setting, working: float) -> Part:
    share, layers, pp = uneven_share(of.model.layers, of.layout.pp), of.model.layers, of.layout.pp
    text = f"{layers} layers, embedding and head over {pp} stages: {100 * share:.1f} % of {working:.3g} s"
    return Part("uneven stages", share * working, text, "Llama 3, arXiv 2407.21783, section 3.3.2")


def _products(of: Setting) -> list[Part]:
    work = flops.training_work(of.model, of.job, of.layout)
    chip = of.links.chip
    share = of.use.gemm_fp8 if of.fp8 and chip.peak_fp8 else of.use.gemm
    rate = chip.rate(fp8=of.fp8) * share
    text = f"{of.tokens:,.0f} tokens × {work.matrices / 1e9:,.2f} GFLOP / {rate / 1e12:,.0f} TFLOP/s"
    source = "FLOPs: Kaplan et al. 2020, arXiv 2001.08361; rate: MAMF of the chip × fitted share"
    found = [Part("matrix products", of.tokens * work.matrices / rate, text, source)]
    if work.experts:
        size = of.model.moe_ffn * of.model.hidden / 1e6
        width = size / (size + of.use.expert_weights)
        text = f"{of.tokens:,.0f} tokens × {work.experts / 1e9:,.2f} GFLOP / {rate * width / 1e12:,.0f} TFLOP/s"
        found.append(Part("products of experts", of.tokens * work.experts / (rate * width), text, source))
    return found


def _attention(of: Setting) -> Part:
    work = flops.training_work(of.model, of.job, of.layout)
    rate = of.links.chip.rate() * of.use.attention
    text = f"{of.tokens:,.0f} tokens × {work.attention / 1e9:,.2f} GFLOP / {rate / 1e12:,.0f} TFLOP/s"
    return Part("attention", of.tokens * work.attention / rate, text, "FlashAttention, arXiv 2205.14135: causal half")


def _elementwise(of: Setting) -> list[Part]:
    """Norms, activations, residuals, casts, dropout: bound by memory; and scores where they are stored."""
    crossing = sum(2 * matrix.active * (matrix.inputs + matrix.outputs) for matrix in of.model.matrices)
    passes = of.use.passes * (of.use.compiled if of.job.compile else 1)
    bandwidth = of.links.chip.bandwidth * BANDWIDTH_REACHED
    text = f"{of.tokens:,.0f} tokens × {passes:.1f} × {crossing / 1e6:,.2f} MB / {bandwidth / 1e9:,.0f} GB/s"
    source = "inputs and outputs of linear layers in 16 bits × fitted passes"
    found = [Part("elementwise", of.tokens * passes * crossing / bandwidth, text, source)]
    if not of.job.fused_attention or of.layout.recompute == "selective":
        scores = 2 * of.model.heads * of.job.sequence * of.model.softmax_layers
        text = f"{of.tokens:,.0f} tokens × {of.use.scores:.1f} × {scores / 1e6:,.2f} MB / {bandwidth / 1e9:,.0f} GB/s"
        found.append(Part("stored scores", of.tokens * of.use.scores * scores / bandwidth, text, MEGATRON))
    return found


def dequantised(of: Setting) -> list[Part]:
    """Frozen quantised weights become 16-bit ones before every product: read, written, and read again."""
    if of.job.method == "full":
        return []
    own = of.job.method == "qlora" and of.job.weights == "bf16"  # QLoRA quantises as it loads
    form = format_of(of.model, "nf4-dq" if own else of.job.weights)
    if not form.quantised:
        return []
    layout = of.layout
    count = sum(matrix.weights for matrix in of.model.matrices if matrix.group in form.groups) / (layout.tp * layout.pp)
    passes = layout.micro_batches * (3 if layout.recompute == "full" else 2)
    each = float(form.bits) / 8 + 2 + 2
    bandwidth = of.links.chip.bandwidth * BANDWIDTH_REACHED
    text = f"{passes} passes × {count:,.0f} weights × {each:.2f} B / {bandwidth / 1e9:,.0f} GB/s"
    return [Part("dequantisation", passes * count * each / bandwidth, text, "QLoRA, arXiv 2305.14314, section 3")]


def optimizer(of: Setting) -> list[Part]:
    """States read and written once, on the GPU or on its host; parameters that live in the host come every pass."""
    layout, chip = of.layout, of.links.chip
    parts = held(of.model, layout, layout.stages[0])
    share = sum(part.divided if layout.zero else part.parameters for part in parts)
    ways = layout.tp * layout.pp * (layout.shards if layout.zero else 1)
    count = share if of.job.method == "full" else lora_parameters(of.model, of.job) / ways
    each = 2 * float(optimizer_bytes(of.job)) + 2 * weight_bytes(of.job)
    if layout.offload_optimizer:
        found = _on_host(of, count, each)
    else:
        bandwidth = chip.bandwidth * BANDWIDTH_REACHED
        text = f"{count:,.0f} parameters × {each:.0f} B / {bandwidth / 1e9:,.0f} GB/s"
        found = [Part("optimizer", count * each / bandwidth, text, "states read and written once")]
    if layout.offload_params:
        copy = _NVME_BANDWIDTH if layout.nvme else PCIE_COPY[chip.pcie]
        passes = 2 * layout.micro_batches
        text = f"{passes} passes × {share:,.0f} parameters × 2 B / {copy / 1e9:,.1f} GB/s"
        found.append(
            Part("parameters from the host", passes * share * 2 / copy, text, "ZeRO-Infinity, arXiv 2104.07857")
        )
    return found


def _on_host(of: Setting, count: float, each: float) -> list[Part]:
    """CPU Adam on the states of all ranks of a host, gradients down and parameters up over PCIe."""
    ranks = -(-of.layout.gpus // of.layout.nodes)
    bandwidth = _NVME_BANDWIDTH * 2 if of.layout.nvme else _HOST_BANDWIDTH
    source = "ZeRO-Offload, arXiv 2101.06840: CPU Adam is bound by memory"
    text = f"{ranks} ranks × {count:,.0f} parameters × {each:.0f} B / {bandwidth / 1e9:,.0f} GB/s"
    copy = PCIE_COPY[of.links.chip.pcie]
    down = f"{count:,.0f} parameters × 4 B / {copy / 1e9:,.1f} GB/s"
    return [
        Part("optimizer on the host", ranks * count * each / bandwidth, text, source),
        Part("gradients and parameters over PCIe", 4 * count / copy, down, source),
    ]


def _bubble(of: Setting, working: float) -> Part:
    share = bubble_share(of.layout.pp, of.layout.micro_batches, of.layout.vpp)
    text = f"({of.layout.pp} - 1) / ({of.layout.micro_batches} micro-batches × {of.layout.vpp}) × {working:.3g} s"
    return Part("pipeline bubble", float(share) * working, text, "Narayanan et al. 2021, arXiv 2104.04473, section 2.2")

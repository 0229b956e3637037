"""Serving speed: one decoding step by bytes and by FLOPs, a prompt by FLOPs, weights that stay in the host by PCIe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llmhw_provision.model import Architecture
from llmhw_provision.sizing import flops, kv
from llmhw_provision.sizing.chips import Chip
from llmhw_provision.sizing.formats import Format, format_of
from llmhw_provision.sizing.job import Layout
from llmhw_provision.sizing.network import Links, factor
from llmhw_provision.sizing.step import Part

Engine = Literal["compiled", "vllm", "vllm-0.6", "eager"]
# Seconds per layer and step that neither tensor parallelism nor quantisation shortens: kernel starts, all-reduce,
# sampling. gpt-fast README, Qwen2.5 speed benchmark (vLLM 0.6.3 and transformers), tt-inference-server issue 143.
PER_LAYER: dict[Engine, float] = {"compiled": 60e-6, "vllm": 80e-6, "vllm-0.6": 135e-6, "eager": 500e-6}
# Share of memory bandwidth that kernels of a format reach at small batches; same sources.
REACHED = {16: 0.85, 8: 0.65, 4: 0.58}
PREFILL = 0.5  # share of peak in a prompt: 0.4 to 0.6 in published MFU of prefill
_DCP = "vLLM decode context parallel: queries gathered, partial results reduced over the ranks of a cache"
_TWO_TERM = "bytes / bandwidth + fixed cost per layer; share and cost from gpt-fast, Qwen2.5 and vLLM benchmarks"


@dataclass(frozen=True)
class Serving:
    """What decodes: requests in flight of one replica, tokens that each has cached."""

    model: Architecture
    weights: str
    layout: Layout
    chip: Chip
    batch: int = 1
    context: int = 0
    cache: str = "bf16"
    engine: Engine = "compiled"
    host_gpus: int = 8

    @property
    def form(self) -> Format:
        """Number format of the weights."""
        return format_of(self.model, self.weights)

    @property
    def reached(self) -> float:
        """Share of memory bandwidth."""
        bits = self.form.bits
        return REACHED[16 if bits >= 16 else 8 if bits > 5 else 4]

    @property
    def read(self) -> float:
        """Bytes of weights of one step on one GPU: the embedding is looked up, experts as far as a batch visits them.

        A batch of B tokens visits E (1 - (1 - k/E)^B) of E experts on average. With expert parallelism a GPU holds its
        share of them, which the batches of all ranks visit.
        """
        model, form, ep = self.model, self.form, self.layout.ep
        total = 0.0
        for matrix in model.matrices:
            count = float(matrix.weights)
            if matrix.group == "experts":
                count *= (1 - (1 - model.experts_per_token / model.experts) ** (self.batch * ep)) / ep
            total += count * float(form.bytes_of(matrix.group))
        known = model.matrix_parameters + model.embedding_parameters + model.head_parameters + model.vision_parameters
        rest = max(0, model.parameters - known)
        total += rest * float(form.rest)
        head = model.vocab * model.hidden * float(form.bytes_of("head"))
        ways = self.layout.tp * self.layout.pp
        return (
            (total + head) / ways if self.engine != "compiled" else total / ways + head
        )  # gpt-fast: head on all ranks

    @property
    def cached(self) -> float:
        """Bytes of keys and values read in one step on one GPU."""
        if not self.context:
            return 0.0
        return float(
            kv.kv_cache(self.model, self.layout, context=self.context, concurrency=self.batch, kv=self.cache).size
        )


def decode_step(of: Serving) -> tuple[Part, ...]:
    """Seconds of one token of every request: memory or computing, whichever takes longer, and the fixed cost."""
    bandwidth = of.chip.bandwidth * of.reached
    size = of.read + of.cached
    memory = size / bandwidth * of.layout.pp
    text = f"({of.read / 1e9:,.2f} GB of weights + {of.cached / 1e9:,.2f} GB of KV) / {bandwidth / 1e9:,.0f} GB/s"
    rate = of.chip.rate(fp8=of.form.name.startswith("fp8")) * PREFILL * 2 * of.layout.tp
    work = 2.0 * flops.matrix_parameters(of.model) * of.batch
    fixed = PER_LAYER[of.engine] * of.model.layers
    found = [
        Part("memory", memory, text, _TWO_TERM)
        if memory >= work / rate
        else Part("computing", work / rate, f"{work / 1e12:,.2f} TFLOP / {rate / 1e12:,.0f} TFLOP/s", _TWO_TERM),
        Part("per layer", fixed, f"{of.model.layers} layers × {PER_LAYER[of.engine] * 1e6:.0f} µs", _TWO_TERM),
    ]
    return (*found, *_reduced(of, of.batch), *_routed(of, of.batch), *_joined(of))


def prefill(of: Serving, prompt: int) -> tuple[Part, ...]:
    """Seconds of one prompt alone on one replica; 4-bit and 8-bit integers are computed in 16 bits."""
    fp8 = of.form.name.startswith("fp8") and of.chip.peak_fp8 > 0
    rate = of.chip.top(fp8=fp8) * of.chip.clock * PREFILL * of.layout.tp
    work = flops.prefill_flops(of.model, prompt)
    fixed = PER_LAYER[of.engine] * of.model.layers
    text = f"{work / 1e12:,.2f} TFLOP / {rate / 1e12:,.0f} TFLOP/s + {fixed * 1e3:.1f} ms"
    source = "2N per token and causal attention at half of the peak"
    return (Part("prompt", work / rate + fixed, text, source), *_reduced(of, prompt), *_routed(of, prompt))


def _reduced(of: Serving, tokens: int) -> tuple[Part, ...]:
    """Two all-reduces per layer with tensor parallelism, which nothing hides."""
    ways = of.layout.tp
    if ways == 1:
        return ()
    bus = Links(of.chip, of.host_gpus).bus(ways, collective="all-reduce")
    size = 2 * of.model.layers * 2 * of.model.hidden * tokens * factor("all-reduce", ways)
    text = f"2 all-reduces × {of.model.layers} layers over {ways}: {size / 1e9:,.3f} GB / {bus / 1e9:,.0f} GB/s"
    return (Part("tensor parallel", size / bus, text, "Megatron-LM, arXiv 1909.08053, section 3", size),)


def _routed(of: Serving, tokens: int) -> tuple[Part, ...]:
    """Rows to the experts of other ranks and back, with expert parallelism."""
    model, layout = of.model, of.layout
    if layout.ep == 1:
        return ()
    bus = Links(of.chip, of.host_gpus).bus(layout.ep, inner=layout.tp, collective="all-to-all")
    rows = tokens * model.experts_per_token / layout.tp
    size = 2 * model.moe_layers * 2 * model.hidden * rows * factor("all-to-all", layout.ep)
    text = f"2 all-to-alls × {model.moe_layers} layers over {layout.ep}: {size / 1e9:,.3f} GB / {bus / 1e9:,.0f} GB/s"
    return (Part("expert parallel", size / bus, text, "GShard, arXiv 2006.16668", size),)


def _joined(of: Serving) -> tuple[Part, ...]:
    """Queries to the ranks that hold a part of the same keys and values, and what they make of them back."""
    model, layout = of.model, of.layout
    if layout.dcp == 1:
        return ()
    bus = Links(of.chip, of.host_gpus).bus(layout.dcp)
    values = (model.q_dim + model.heads * (model.v_head_dim or model.head_dim)) / layout.tp * layout.dcp
    size = model.softmax_layers * 2 * values * of.batch * factor("all-gather", layout.dcp)
    text = f"queries and results × {model.softmax_layers} layers over {layout.dcp}: {size / 1e9:,.3f} GB"
    return (Part("decode context parallel", size / bus, f"{text} / {bus / 1e9:,.0f} GB/s", _DCP, size),)


def step_seconds(of: Serving) -> float:
    """Seconds of one decoding step."""
    return sum(part.seconds for part in decode_step(of))


def end_to_end(of: Serving, prompt: int, new: int) -> float:
    """Tokens per second of one request from its arrival to its last token."""
    return new / (sum(part.seconds for part in prefill(of, prompt)) + new * step_seconds(of))

"""Keys, values and recurrent state of sequences in flight."""

from __future__ import annotations

from fractions import Fraction

from llmhw_provision.model import Architecture
from llmhw_provision.sizing.job import Layout
from llmhw_provision.sizing.terms import Term, number, up

BLOCK = 16  # tokens per block of vLLM's paged cache
PAGED = "PagedAttention, Kwon et al. 2023, arXiv 2309.06180, section 3.1"
MLA = "DeepSeek-V2, arXiv 2405.04434, section 2.1: one latent vector and one rotary key per token, on every TP rank"
_HALVES = {"fp32": 8, "bf16": 4, "fp16": 4, "fp8": 2, "int8": 2, "int4": 1}  # of a byte


def value_bytes(kv: str) -> Fraction:
    """Bytes of one cached value."""
    return Fraction(_HALVES[kv], 2)


def values_per_layer(model: Architecture, layout: Layout) -> Fraction:
    """Values that one layer caches per token on one GPU. KV heads are replicated when TP exceeds them."""
    if model.mla:
        return Fraction(model.kv_values, layout.dcp)
    heads = max(Fraction(1), Fraction(model.kv_heads, layout.tp))
    return Fraction(model.kv_values, model.kv_heads) * heads / layout.dcp


def per_token(model: Architecture, layout: Layout, *, each: Fraction, sliding: bool = True) -> Fraction:
    """Bytes per token on one GPU; `sliding`: sliding layers counted in full, as vLLM's accounting does."""
    layers = model.full_layers + (model.sliding_layers if sliding else 0)
    return values_per_layer(model, layout) * layers * each / layout.pp


def kv_cache(
    model: Architecture, layout: Layout, *, context: int, concurrency: int, kv: str, paged: bool = False
) -> Term:
    """Bytes on one GPU of `concurrency` sequences of `context` tokens; sliding layers stop at their window."""
    return kv_of(model, layout, context=context, concurrency=concurrency, each=value_bytes(kv), paged=paged)


def kv_of(
    model: Architecture, layout: Layout, *, context: int, concurrency: int, each: Fraction, paged: bool = False
) -> Term:
    """As kv_cache, with the bytes of one value."""
    length = -(-context // BLOCK) * BLOCK if paged else context
    one = values_per_layer(model, layout) * each / layout.pp
    size = one * model.full_layers * length
    text = f"{number(one)} B × {model.full_layers} layers × {length:,} tokens"
    if model.sliding_layers:
        window = min(length, model.sliding_window + (BLOCK if paged else 0))
        size += one * model.sliding_layers * window
        text += f" + {number(one)} B × {model.sliding_layers} sliding layers × {window:,} tokens"
    if model.linear_layers:
        state = model.state_bytes_per_sequence()
        size += Fraction(state, layout.tp * layout.pp)
        text += f" + state {state:,} B"
    if concurrency > 1:
        text = f"({text}) × {concurrency:,} sequences"
    return Term("KV cache", up(size * concurrency), text, MLA if model.mla else PAGED, "kv")

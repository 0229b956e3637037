"""Memory of the model itself: parameters, weights, training states, KV cache, checkpoints.

A first part of the accounting: activations, logits and buffers are not in it, so that every sum here is a lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from llmhw_provision.model import Architecture
from llmhw_provision.sizing.terms import Term
from llmhw_provision.units import KIB

ADAM = "ZeRO, Rajbhandari et al. 2020, arXiv 1910.02054, section 3"
QLORA = "QLoRA, Dettmers et al. 2023, arXiv 2305.14314, section 3: 4 bit + 0.127 bit of block constants"
LORA_RANK = 16

# bytes per parameter
_WEIGHT = {
    "fp32": Fraction(4),
    "bf16": Fraction(2),
    "fp16": Fraction(2),
    "fp8": Fraction(1),
    "int8": Fraction(1),
    "int4": Fraction(1, 2),
}
_NF4 = Fraction(4127, 8000)


@dataclass(frozen=True)
class Parameters:
    """Parameters of a model by part."""

    embedding: int
    head: int
    linears: int
    other: int

    @property
    def total(self) -> int:
        """All parameters."""
        return self.embedding + self.head + self.linears + self.other


def parameters(model: Architecture) -> Parameters:
    """Parameters by part; the linear layers are those that quantisation touches."""
    embedding, head, linears = model.embedding_parameters, model.head_parameters, model.linear_parameters
    return Parameters(embedding, head, linears, model.parameters - embedding - head - linears)


def lora_parameters(model: Architecture, rank: int = LORA_RANK) -> int:
    """Parameters of LoRA adapters of `rank` on every linear layer: rank·(in + out) each."""
    linears = (matrix for matrix in model.matrices if matrix.group != "router")
    return sum(rank * (matrix.inputs + matrix.outputs) * matrix.count for matrix in linears)


def weights(model: Architecture, precision: str) -> Term:
    """Bytes of the weights in `precision`; quantised formats below 8 bit leave embedding and head in bf16."""
    parts = parameters(model)
    if precision == "int4":
        size = _up(parts.linears * _WEIGHT["int4"]) + 2 * (parts.total - parts.linears)
        formula = f"{parts.linears:,} linear parameters × 0.5 B + {parts.total - parts.linears:,} others × 2 B"
    else:
        size = _up(parts.total * _WEIGHT[precision])
        formula = f"{parts.total:,} parameters × {_WEIGHT[precision]} B ({precision})"
    return Term(f"weights {precision}", size, formula, "bytes of the number format")


def nf4_weights(model: Architecture) -> Term:
    """Bytes of NF4 weights with double quantisation, embedding and head in bf16."""
    parts = parameters(model)
    rest = parts.total - parts.linears
    formula = f"{parts.linears:,} linear parameters × 0.516 B + {rest:,} others × 2 B"
    return Term("weights nf4", _up(parts.linears * _NF4) + 2 * rest, formula, QLORA)


def training_states(model: Architecture, method: str) -> tuple[Term, ...]:
    """Weights, gradients and AdamW states of all GPUs together, mixed precision; lower bound of a training run."""
    if method == "full":
        count = parameters(model).total
        return (
            weights(model, "bf16"),
            Term("gradients bf16", 2 * count, f"{count:,} parameters × 2 B", ADAM),
            Term("optimizer AdamW", 12 * count, f"{count:,} parameters × 12 B (master, m and v in fp32)", ADAM),
        )
    count = lora_parameters(model)
    base = weights(model, "bf16") if method == "lora" else nf4_weights(model)
    formula = f"{count:,} adapter parameters (rank {LORA_RANK}) × 16 B"
    return (
        base,
        Term("adapters with optimizer", 16 * count, formula, "LoRA, Hu et al. 2021, arXiv 2106.09685; " + ADAM),
    )


def kv_cache(model: Architecture, *, context: int, concurrency: int, precision: str) -> Term:
    """Bytes of keys and values of `concurrency` sequences of `context` tokens."""
    layers = model.full_layers + model.sliding_layers
    per_token = _up(layers * model.kv_values * _WEIGHT[precision])
    each = f"{layers} layers × {model.kv_values} values"
    if not model.mla:
        each = f"2 × {layers} layers × {model.kv_heads} KV heads × {model.head_dim}"
    formula = (
        f"{each} × {_WEIGHT[precision]} B"
        f" = {per_token / KIB:g} KiB per token × {context:,} tokens × {concurrency:,} requests"
    )
    return Term("KV cache", per_token * context * concurrency, formula, "vLLM, Kwon et al. 2023, arXiv 2309.06180, 3.1")


def checkpoint(model: Architecture, method: str) -> Term:
    """Bytes of one training checkpoint: bf16 weights plus fp32 master, m and v; adapters only for LoRA."""
    source = "BLOOM 176B checkpoints of 2.3 TB, BigScience 2022, arXiv 2211.05100: 14 B per parameter"
    if method == "full":
        count = parameters(model).total
        return Term("checkpoint", 14 * count, f"{count:,} parameters × 14 B", source)
    count = lora_parameters(model)
    return Term("checkpoint", 14 * count, f"{count:,} adapter parameters × 14 B", source)


def _up(value: Fraction | int) -> int:
    return -int(-value // 1)

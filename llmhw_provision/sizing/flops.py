"""Floating-point operations per token: as they are counted for MFU, and as the hardware computes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llmhw_provision.model import Architecture
from llmhw_provision.sizing.job import Job, Layout

Convention = Literal["6N", "6N+12Lhs", "6N+6Lhs", "4N+12Lhs"]
CONVENTIONS: dict[Convention, str] = {
    "6N": "Kaplan et al. 2020, arXiv 2001.08361: attention left out",
    "6N+12Lhs": "PaLM, arXiv 2204.02311, appendix B: all parameters, the whole square of attention",
    "6N+6Lhs": "NeMo: without the input embedding, half of the square, which is what a causal mask leaves",
    "4N+12Lhs": "PaLM's without the gradients of frozen weights, for adapters",
}
DEFAULT: Convention = "6N+12Lhs"
FROZEN: Convention = "4N+12Lhs"
_BACKWARD_FUSED = 2.5  # of the forward pass: FlashAttention computes scores again, arXiv 2205.14135


def matrix_parameters(model: Architecture) -> int:
    """Parameters that multiply each token: active ones, the head once, look-up tables left out."""
    table = 0 if model.tied else model.vocab * model.hidden
    return max(0, model.active_parameters - table - model.position_rows * model.hidden - model.vision_parameters)


def attended(model: Architecture, sequence: int) -> int:
    """Sum over all layers of query width times keys, without the causal mask; sliding layers stop at their window."""
    window = min(sequence, model.sliding_window) if model.sliding_layers else 0
    return model.q_dim * (model.full_layers * sequence + model.sliding_layers * window)


def per_token(model: Architecture, sequence: int, convention: Convention = DEFAULT) -> int:
    """FLOPs of forward and backward per token as `convention` counts them; recomputation is never counted."""
    if convention == "6N+6Lhs":
        return 6 * (model.active_parameters - model.vocab * model.hidden) + 6 * attended(model, sequence)
    attention = 0 if convention == "6N" else 12 * attended(model, sequence)
    return (4 if convention == "4N+12Lhs" else 6) * model.active_parameters + attention


def hardware_ratio(model: Architecture, sequence: int, recompute: str, *, fused: bool = True) -> float:
    """HFU / MFU. Full recomputation runs the forward pass of every layer again: 4/3, as the head is not repeated.

    Selective recomputation repeats scores only (Korthikanti et al. 2022, arXiv 2205.05198, equation 9).
    """
    counted = 6 * matrix_parameters(model) + 12 * attended(model, sequence)
    if recompute == "full":
        return 1 + (2 * matrix_parameters(model) + 4 * attended(model, sequence)) / counted
    if recompute == "selective" and not fused:
        return 1 + 4 * attended(model, sequence) / counted
    return 1.0


@dataclass(frozen=True)
class Work:
    """FLOPs of one token in one training step as the hardware computes them."""

    matrices: float
    experts: float
    attention: float


def training_work(model: Architecture, job: Job, layout: Layout) -> Work:
    """Forward 2N, gradient of activations 2N, of weights 2N (not for frozen ones), forward again where recomputed.

    Fused causal attention skips the masked half. DPO adds the forward pass of the reference.
    """
    passes = 6.0 if job.method == "full" else 4.0
    again = {"full": 2.0, "selective-op": 1.0}.get(layout.recompute, 0.0)
    passes += again + (2 if job.kind == "dpo" else 0)
    experts = sum(matrix.active * matrix.inputs * matrix.outputs for matrix in model.matrices if _expert(matrix.group))
    scores = attended(model, job.sequence)
    if job.fused_attention and layout.recompute != "selective":
        attention = 2 * scores * (1 + _BACKWARD_FUSED + (1 if layout.recompute == "full" else 0))
    else:
        attention = 4 * scores * (3 + (1 if layout.recompute in ("full", "selective") else 0))
    dense = matrix_parameters(model) - experts
    return Work(passes * dense, passes * experts, attention)


def _expert(group: str) -> bool:
    return group == "experts"


def prefill_flops(model: Architecture, prompt: int) -> float:
    """FLOPs of a prompt: 2N per token, causal attention; only the last token passes the head."""
    body = matrix_parameters(model) - model.vocab * model.hidden
    return 2.0 * max(0, body) * prompt + 2.0 * attended(model, prompt) * prompt

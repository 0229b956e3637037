"""The few global coefficients of speed: fitted on published runs, kept in efficiency.json, nothing per case."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("efficiency.json")


@dataclass(frozen=True)
class Efficiency:
    """Shares and counts; `FITTED` says what each is."""

    gemm: float
    gemm_fp8: float
    attention: float
    passes: float
    compiled: float
    scores: float
    exposed_tensor: float
    exposed_shard: float
    expert_weights: float


FITTED = {
    "gemm": "16-bit matrix products in a real step, share of the best that they reach alone",
    "gemm_fp8": "the same in FP8, casts and scaling included",
    "attention": "fused attention forward and backward, share of what matrix products reach",
    "passes": "times that the inputs and outputs of linear layers cross memory for everything that is not a product",
    "compiled": "of these, share left by torch.compile or fused layers",
    "scores": "times that stored attention scores cross memory where attention is not fused",
    "exposed_tensor": "share of tensor, context and expert parallel traffic that computing does not hide",
    "exposed_shard": "share of the traffic of sharding and of gradients that computing does not hide",
    "expert_weights": "millions of weights in a matrix of an expert at which grouped products reach half of large ones",
}


@cache
def record() -> dict[str, Any]:
    """The file: values, errors, source, date."""
    loaded: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return loaded


@cache
def fitted() -> Efficiency:
    """The coefficients in use."""
    return Efficiency(**record()["values"])


def band(kind: str) -> float:
    """Relative error of a speed, `train` or `decode`, that nine in ten sources left out stay within."""
    return float(record()["bands"][kind])

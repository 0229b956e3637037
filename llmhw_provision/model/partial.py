"""An architecture from less than a config.json: a few published dimensions, or a parameter count alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from llmhw_provision.errors import InputError
from llmhw_provision.model.architecture import Architecture

HEAD_DIM = 128
VOCAB = 128_000
SMALLEST, LARGEST = 1_000_000, 100_000_000_000_000


def from_dimensions(
    *,
    hidden: int,
    layers: int,
    heads: int = 0,
    kv_heads: int = 0,
    head_dim: int = 0,
    ffn: int = 0,
    vocab: int = 0,
    gated: bool = False,
    params: int = 0,
    active: int = 0,
    **rest: Any,
) -> Architecture:
    """An architecture of published dimensions; heads of 128 and a plain network of 4·hidden where nothing is given.

    A given total `params` (or `active` per token) wins: what the dimensions leave unexplained is `other_parameters`.
    `rest` are further fields of Architecture.
    """
    heads = heads or max(1, hidden // (head_dim or HEAD_DIM))
    fields: dict[str, Any] = {"title": "model of given dimensions", "family": "stated", "tied": True, **rest}
    found = Architecture(
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads or heads,
        head_dim=head_dim or hidden // heads,
        ffn=ffn or 4 * hidden,
        vocab=vocab,
        gated=gated,
        **fields,
    )
    if params:
        found = replace(found, other_parameters=found.other_parameters + params - found.parameters)
    if active:
        found = replace(found, other_idle_parameters=found.other_idle_parameters + found.active_parameters - active)
    return found


def from_parameters(count: int, *, vocab: int = 0) -> Architecture:
    """A dense decoder of exactly `count` parameters: layers ≈ hidden/128, network of 4·hidden, a KV head per head.

    The shape is that of published models (GPT-3, Llama) within a fifth; full KV heads err towards needing more.
    Raises InputError outside 1M to 100T parameters.
    """
    if not SMALLEST <= count <= LARGEST:
        raise InputError(
            f"{count:,} parameters is outside {SMALLEST:,} to {LARGEST:,}", "write for example --params 7B"
        )
    hidden = max(HEAD_DIM, round((count * HEAD_DIM / 12) ** (1 / 3) / HEAD_DIM) * HEAD_DIM)
    vocab = vocab or max(256, min(VOCAB, count // (8 * hidden)))
    layers = max(1, round((count - vocab * hidden) / (12 * hidden**2)))
    title = f"a dense model of {count:,} parameters"
    return from_dimensions(hidden=hidden, layers=layers, vocab=vocab, params=count, title=title, family="parameters")

"""Exact parameters of an architecture, against published counts and against each other."""

from __future__ import annotations

import pytest

from llmhw_provision.errors import InputError
from llmhw_provision.model import Architecture, from_dimensions, from_parameters

LLAMA = Architecture(
    title="Llama 3.1 8B",
    family="llama",
    layers=32,
    hidden=4096,
    heads=32,
    kv_heads=8,
    head_dim=128,
    ffn=14336,
    vocab=128256,
    tied=False,
)


def test_groups_sum_to_the_total() -> None:
    parts = LLAMA.embedding_parameters + LLAMA.head_parameters + LLAMA.matrix_parameters + LLAMA.vector_parameters
    assert parts == LLAMA.parameters == LLAMA.active_parameters == 8_030_261_248


def test_layers_sum_to_the_matrices() -> None:
    assert LLAMA.layer_parameters * 32 == LLAMA.matrix_parameters + LLAMA.vector_parameters - LLAMA.hidden


def test_kv_cache_per_token() -> None:
    assert LLAMA.kv_bytes_per_token() == 128 * 1024
    assert LLAMA.kv_bytes_per_token(1) == 64 * 1024


@pytest.mark.parametrize("count", [1_000_000, 70_000_000, 7_000_000_000, 65_000_000_000, 1_000_000_000_000])
def test_a_parameter_count_alone_gives_a_model_of_that_count(count: int) -> None:
    model = from_parameters(count)
    assert model.parameters == count
    assert abs(model.other_parameters) < count / 4
    assert model.heads * model.head_dim == model.hidden


def test_the_shape_from_a_count_is_near_that_of_llama_65b() -> None:
    model = from_parameters(65_285_660_672)
    assert abs(model.hidden - 8192) / 8192 < 0.2
    assert abs(model.layers - 80) / 80 < 0.2


def test_an_absurd_count_is_refused() -> None:
    with pytest.raises(InputError, match="outside"):
        from_parameters(12)


def test_stated_counts_win_over_dimensions() -> None:
    kimi = from_dimensions(
        hidden=7168, layers=61, heads=64, kv_lora_rank=512, qk_rope_head_dim=64, params=10**12, active=32 * 10**9
    )
    assert (kimi.parameters, kimi.active_parameters) == (10**12, 32 * 10**9)
    assert kimi.kv_bytes_per_token() == 70_272

"""Serving: KV cache of every kind, vLLM's accounting, the peak of plain generation, and the largest that fits."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from llmhw_provision.model import Architecture
from llmhw_provision.sizing import kv, serving
from llmhw_provision.sizing.cards import find_card, generic_card
from llmhw_provision.sizing.formats import format_of
from llmhw_provision.sizing.job import Job, Layout
from llmhw_provision.sizing.search import largest, largest_concurrency, largest_context
from llmhw_provision.units import GIB, KIB
from tests.unit.sizing_setups import model

ONE = Layout()
SERVE = Job(kind="serve")


def cache(one: Architecture, context: int, layout: Layout = ONE, form: str = "bf16") -> int:
    return kv.kv_cache(one, layout, context=context, concurrency=1, kv=form).size


@pytest.mark.parametrize(("name", "kib"), [("llama-2-13b", 800), ("llama-3.1-8b", 128), ("llama-3.1-70b", 320)])
def test_grouped_queries(name: str, kib: int) -> None:
    """PagedAttention paper: 800 KiB per token for 13B; config.json of Llama 3.1 for the others."""
    assert cache(model(name), 1) == kib * KIB


def test_latent_attention_is_one_vector_on_every_rank() -> None:
    """DeepSeek-V3: (512 + 64) × 61 layers × 2 B = 70,272 B; a formula for keys and values gives 25 to 57 times that."""
    one = model("deepseek-v3")
    assert cache(one, 1) == cache(one, 1, Layout(gpus=8, tp=8)) == 70272
    assert cache(one, 8, Layout(gpus=8, tp=8, dcp=8)) == 70272


def test_key_heads_are_replicated_when_there_are_more_ranks() -> None:
    """Qwen3 235B has four KV heads: eight ranks hold one each."""
    one = model("qwen3-235b-a22b")
    assert cache(one, 1, Layout(gpus=4, tp=4)) == cache(one, 1, Layout(gpus=8, tp=8)) == cache(one, 1) // 4


def test_sliding_layers_stop_at_their_window() -> None:
    one = model("gpt-oss-120b")
    assert cache(one, 128) == 128 * 73728
    assert cache(one, 8192) == 8192 * 73728 // 2 + 128 * 73728 // 2
    assert kv.per_token(one, ONE, each=Fraction(2)) == 73728  # vLLM's accounting: all layers in full


def test_fp8_cache_is_half() -> None:
    assert cache(model("llama-3.1-8b"), 100, form="fp8") * 2 == cache(model("llama-3.1-8b"), 100)


def test_paged_cache_rounds_up_to_blocks() -> None:
    one = model("llama-3.1-8b")
    paged = kv.kv_cache(one, ONE, context=17, concurrency=3, kv="bf16", paged=True)
    assert paged.size == 3 * 32 * 128 * KIB


@pytest.mark.parametrize(
    ("name", "prompt", "gib"), [("qwen2.5-7b", 6144, 15.38), ("qwen2.5-32b", 30720, 74.47), ("qwen2.5-14b", 1, 28.08)]
)
def test_generation_with_transformers(name: str, prompt: int, gib: float) -> None:
    """Qwen2.5 speed benchmark: weights, cache of prompt and 2,048 new tokens, prefill peak."""
    job = Job(kind="serve", runtime="transformers", prompt=prompt, context=prompt + 2048)
    assert serving.serving(model(name), job, ONE).allocated / GIB == pytest.approx(gib, rel=0.01)


def test_profile_run_of_vllm() -> None:
    """vLLM issue 10517: 17.98 − 14.99 GiB at 29,000 tokens."""
    assert serving.profiled_activations(model("llama-3.1-8b"), ONE, 29000).size / GIB == pytest.approx(2.99, abs=0.01)


def test_kv_tokens_of_vllm_with_tensor_parallel() -> None:
    """vLLM issue 13061: R1 distilled to Qwen2.5 14B, TP 2, 98 % of 23.6 GiB: 81,536 tokens."""
    job = replace(SERVE, utilisation=98)
    found = serving.vllm_memory(model("qwen2.5-14b"), job, Layout(gpus=2, tp=2), int(23.6 * GIB))
    assert found.tokens == pytest.approx(81536, rel=0.05)
    assert found.tokens % kv.BLOCK == 0


def test_what_a_log_states_is_not_computed_again() -> None:
    one, card = model("llama-3.1-8b"), 24 * GIB
    known = serving.Known(weights=15 * GIB, activations=3 * GIB, non_torch=GIB // 10)
    found = serving.vllm_memory(one, SERVE, ONE, card, known)
    assert found.cache == card * 90 // 100 - 18 * GIB - GIB // 10


def test_cache_may_be_negative() -> None:
    found = serving.vllm_memory(model("llama-3.1-8b"), replace(SERVE, batched_tokens=131072), ONE, 23 * GIB)
    assert found.cache < 0
    assert found.tokens == 0


def test_mxfp4_experts_are_padded_for_their_kernel() -> None:
    """gpt-oss-120b on one H100: checkpoint 60.8 GiB, loaded 65.97 GiB."""
    one = model("gpt-oss-120b")
    size = serving.serving_weights(one, ONE, format_of(one, "mxfp4")).size
    assert size / GIB == pytest.approx(65.97, rel=0.01)


def test_largest_is_the_last_that_fits() -> None:
    assert largest(lambda value: value <= 1000) == 1000
    assert largest(lambda value: value <= 0) == 0


def test_largest_context_and_concurrency_fit_and_one_more_does_not() -> None:
    one, card = model("llama-3.1-8b"), 24 * GIB
    longest = largest_context(one, SERVE, ONE, card)
    assert serving.serving(one, replace(SERVE, context=longest), ONE).device <= card
    assert serving.serving(one, replace(SERVE, context=longest + 1), ONE).device > card
    most = largest_concurrency(one, replace(SERVE, context=1000), ONE, card)
    assert serving.serving(one, replace(SERVE, context=1000, concurrency=most), ONE).device <= card
    assert serving.serving(one, replace(SERVE, context=1000, concurrency=most + 1), ONE).device > card


@pytest.mark.parametrize(
    ("text", "gib"),
    [
        ("RTX 5090", 31.4),
        ("RTX 3090", 23.58),
        ("A100-80GB SXM (330 W)", 79.15),
        ("A800-80GB", 79.15),
        ("A100-40GB SXM", 39.4),
        ("H800-80GB", 79.1),
        ("H200", 139.8),
        ("RTX A6000", 47.5),
        ("V100-32GB", 31.7),
        ("L4", 22.49),
        ("L40S", 44.99),
    ],
)
def test_cards_by_the_names_people_write(text: str, gib: float) -> None:
    assert find_card(text).usable / GIB == pytest.approx(gib, rel=0.002)


def test_a_card_of_a_size_only() -> None:
    assert find_card("48GB").nominal == 48
    assert 15 < generic_card(16).usable / GIB < 16

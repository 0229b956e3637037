"""Activations and logits against published formulas and runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmhw_provision.model import from_dimensions
from llmhw_provision.sizing import activations, rules
from llmhw_provision.sizing.job import Job, Layout, Loss
from llmhw_provision.sizing.logits import logits, one_copy
from llmhw_provision.units import GB, GIB
from tests.unit.sizing_setups import GPT3, model

GPT = from_dimensions(**GPT3, norm_bias=True)
JOB = Job(sequence=2048, flash=False)
S, H = 2048, 12288


def layer(job: Job, layout: Layout) -> float:
    return activations.one_block(GPT, job, layout).size / (S * H)


def test_layer_of_gpt3_is_34_plus_80() -> None:
    """Korthikanti et al., equation 1: s·b·h·(34 + 5·a·s/h), 5·a·s/h = 80 for GPT-3."""
    assert layer(JOB, Layout()) == 114
    assert rules.attention_coefficient(heads=96, hidden=H, sequence=S) == 80


def test_tensor_and_sequence_parallel() -> None:
    """Equations 2 and 4: 10 + 24/t + 80/t without, (34 + 80)/t with sequence parallelism."""
    assert layer(JOB, Layout(gpus=8, tp=8)) == 10 + 24 / 8 + 80 / 8
    assert layer(JOB, Layout(gpus=8, tp=8, sequence_parallel=True)) == 114 / 8


def test_selective_recompute_and_flash_attention_both_drop_the_scores() -> None:
    assert layer(JOB, Layout(recompute="selective")) == 34
    assert layer(replace(JOB, flash=True), Layout()) == 34
    assert float(rules.selective_share(heads=96, hidden=H, sequence=S)) == pytest.approx(0.298, abs=0.001)


def test_fp32_has_no_fused_kernel() -> None:
    """Four bytes per value, one per mask: 2 × 16 + 2 masks becomes 4 × 16 + 2, and 5·a·s becomes 9·a·s."""
    assert layer(replace(JOB, scheme="fp32", flash=True), Layout()) == 66 + 80 * 9 / 5


def test_first_stage_of_1f1b_holds_as_many_micro_batches_as_stages() -> None:
    layout = Layout(gpus=8, pp=8, micro_batches=64)
    assert activations.in_flight(layout, "first") == 8
    assert activations.in_flight(layout, "last") == 1
    assert activations.in_flight(replace(layout, micro_batches=4), "first") == 4
    assert float(activations.in_flight(replace(layout, vpp=3), "first")) == pytest.approx(8 * (1 + 7 / 24))


def test_full_recompute_keeps_layer_inputs_only() -> None:
    """stas00: Llama 8B at 32,768 tokens keeps 8 GiB."""
    job = Job(sequence=32768)
    kept = activations.kept(model("llama-3.1-8b"), job, Layout(recompute="full"))
    assert kept.size == 8 * GIB


def test_layer_of_llama_against_the_count_of_28_copies() -> None:
    """stas00: 7 GiB per layer at 32,768 tokens, by rule of thumb."""
    size = activations.one_block(model("llama-3.1-8b"), Job(sequence=32768), Layout()).size
    assert size / GIB == pytest.approx(7.0, rel=0.10)


def test_experts_keep_what_routed_tokens_pass() -> None:
    dense, routed = model("llama-3.1-8b"), model("mixtral-8x7b")
    one, two = (activations.one_block(each, Job(sequence=1), Layout()).size for each in (dense, routed))
    assert two - one == 2 * 4 * 14336 + 2 * 2 * 2 * 4096  # one more expert's network and both permuted copies


def test_adapters_on_attention_alone_keep_less() -> None:
    one = model("llama-2-7b")
    few = activations.one_block(one, Job(method="lora", sequence=1), Layout()).size
    all_linear = activations.one_block(one, Job(method="lora", sequence=1, targets=("all-linear",)), Layout()).size
    assert all_linear - few == 2 * (4096 + 11008)


def test_dpo_runs_both_answers() -> None:
    assert activations.tokens(Job(kind="dpo", sequence=100), Layout(micro_batch=3)) == 600
    assert activations.tokens(Job(sequence=100), Layout(cp=4, gpus=4)) == 25


def test_offloaded_activations_leave_two_layers() -> None:
    one, job = model("llama-3.1-8b"), Job(sequence=1024)
    whole = activations.kept(one, job, Layout(recompute="full"))
    rest = activations.kept(one, job, Layout(recompute="full", offload_activations=True))
    assert rest.size * 16 == whole.size


def test_zero_paper_approximation() -> None:
    """ZeRO, section 3.2: 60 GB for GPT-2 1.5B at a batch of 32 and 1,024 tokens."""
    assert rules.zero_activations(hidden=1600, layers=48, tokens=32 * 1024).size / GB == pytest.approx(60, rel=0.01)


@pytest.mark.parametrize(
    ("loss", "each"), [("eager", 14), ("trainer", 18), ("compiled", 6), ("chunked", 6 + 8 / 8), ("fused", 0)]
)
def test_bytes_per_logit(loss: Loss, each: float) -> None:
    size = logits(model("llama-3.1-8b"), Job(loss=loss, sequence=1024), Layout()).size
    assert size == each * 1024 * 128256


def test_chunked_loss_keeps_what_autograd_saved_of_every_chunk() -> None:
    """torchtitan pull request 996: 49.58 to 42.26 GiB for 8,192 tokens; torchtune compiled: about 2.4 bytes a logit."""
    one, job = model("llama-3.1-8b"), Job(sequence=8192)
    eager, chunked = (logits(one, replace(job, loss=loss), Layout()).size for loss in ("eager", "chunked"))  # type: ignore[arg-type]
    assert (eager - chunked) / GIB == pytest.approx(49.58 - 42.26, rel=0.1)
    compiled = logits(one, replace(job, loss="chunked", compile=True), Layout()).size
    assert compiled == 2.5 * 8192 * 128256
    more = logits(one, replace(job, loss="chunked", chunks=32), Layout()).size
    assert 6 * 8192 * 128256 < more < chunked


def test_tensor_parallel_divides_logits() -> None:
    one, job = model("llama-3.1-8b"), Job(loss="vocab-parallel", sequence=1024)
    assert logits(one, job, Layout(gpus=2, tp=2)).size == 3 * 1024 * 128256


def test_one_logits_copy_of_32k_tokens() -> None:
    """stas00: 15.7 GiB in fp32."""
    assert one_copy(model("llama-3.1-8b"), 32768, 4).size / GIB == pytest.approx(15.7, rel=0.01)


# What autograd saved per token and layer in transformers 4.57.6 on torch 2.13 (benchmarks/saved_tensors.py), in bytes
SAVED = {"llama": 12072, "qwen3": 14032, "gemma2": 17216}
TINY = {"hidden": 256, "layers": 4, "heads": 8, "kv_heads": 2, "head_dim": 32, "ffn": 704, "vocab": 1000, "gated": True}


@pytest.mark.parametrize(
    ("family", "rest"), [("llama", {}), ("qwen3", {"qk_norm": 64}), ("gemma2", {"norms_per_layer": 4})]
)
def test_norms_keep_what_autograd_saves(family: str, rest: dict[str, int]) -> None:
    """Against Llama, Qwen3 adds norms of q and k, Gemma 2 two norms per layer and scales in fp32."""
    one, plain = (
        activations.layer(from_dimensions(**TINY, family=name, **more), Job(), Layout()).bytes(Layout(), 128)
        for name, more in ((family, rest), ("llama", {}))
    )
    assert one == pytest.approx(SAVED[family], rel=0.05)
    assert one - plain == pytest.approx(SAVED[family] - SAVED["llama"], abs=48)


def test_latent_attention_normalises_its_latent_vectors() -> None:
    one = model("deepseek-v3")
    bare = replace(one, q_lora_rank=one.q_lora_rank + 100)
    more = activations.layer(bare, Job(), Layout()).bytes(Layout(), 1) - activations.layer(one, Job(), Layout()).bytes(
        Layout(), 1
    )
    assert more == 100 * (2 + 4 + 2)

"""Time of steps and tokens: properties, formulas of papers, published speeds."""

from __future__ import annotations

import statistics
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmhw_provision.catalogue.loader import names
from llmhw_provision.errors import InputError
from llmhw_provision.model import from_dimensions
from llmhw_provision.sizing import flops
from llmhw_provision.sizing.calibrate_speed import BOUNDS, START, Run, fit, left_out
from llmhw_provision.sizing.cards import Card
from llmhw_provision.sizing.chips import chip_of
from llmhw_provision.sizing.compute import bubble_share, training_step
from llmhw_provision.sizing.decode import Serving, step_seconds
from llmhw_provision.sizing.efficiency import FITTED, fitted, record
from llmhw_provision.sizing.job import Job, Layout
from llmhw_provision.sizing.layout import fewest
from llmhw_provision.sizing.network import Links
from llmhw_provision.sizing.record import SPEED
from llmhw_provision.sizing.score import read_cases, score
from tests.unit.sizing_setups import CASES, GPT3, model

published = pytest.mark.skipif(not CASES.exists(), reason=f"no published cases at {CASES}")
LLAMA = model("llama-3.1-8b")
LINKS = Links(chip_of("h100-sxm"), 8, 50e9)
FSDP = Layout(gpus=8, zero=3, sharder="fsdp", micro_batch=2)


@st.composite
def runs(draw: st.DrawFn) -> tuple[Job, Layout]:
    tp, pp, cp, dp = (draw(st.sampled_from([1, 2, 4])) for _ in range(4))
    sharded = pp == 1 and draw(st.booleans())
    layout = Layout(
        gpus=tp * pp * cp * dp,
        tp=tp,
        pp=pp,
        vpp=draw(st.sampled_from([1, 2])) if pp > 1 else 1,
        cp=cp,
        zero=3 if sharded else 1,
        sharder="fsdp" if sharded else "megatron",
        micro_batch=draw(st.integers(1, 8)),
        micro_batches=draw(st.integers(1, 16)),
        recompute=draw(st.sampled_from(["none", "selective-op", "full"])),
        offload_optimizer=sharded and draw(st.booleans()),
    )
    job = Job(
        method=draw(st.sampled_from(["full", "lora"])),
        sequence=draw(st.integers(1, 32)) * 256,
        compile=draw(st.booleans()),
        flash=draw(st.booleans()),
    )
    return job, layout


@settings(deadline=None)
@given(run=runs())
def test_parts_of_a_step_sum_to_it_and_shares_to_one(run: tuple[Job, Layout]) -> None:
    step = training_step(LLAMA, *run, LINKS)
    assert step.seconds == pytest.approx(sum(part.seconds for part in step.parts))
    assert sum(part.seconds / step.seconds for part in step.parts) == pytest.approx(1)
    assert all(part.formula and part.source for part in step.parts)
    assert 0 < step.mfu < 1
    assert step.tokens_per_second == pytest.approx(step.per_gpu * run[1].gpus)


@settings(deadline=None)
@given(run=runs(), faster=st.floats(1.01, 4))
def test_more_flops_bandwidth_or_links_never_slow_a_step(run: tuple[Job, Layout], faster: float) -> None:
    chip = LINKS.chip
    before = training_step(LLAMA, *run, LINKS).seconds
    for field in ("reached", "bandwidth", "nvlink"):
        better = replace(chip, **{field: getattr(chip, field) * faster})
        assert training_step(LLAMA, *run, replace(LINKS, chip=better)).seconds <= before * (1 + 1e-9)
    assert training_step(LLAMA, *run, replace(LINKS, nic=LINKS.nic * faster)).seconds <= before * (1 + 1e-9)


@settings(deadline=None)
@given(run=runs())
def test_recomputation_only_costs_and_more_micro_batches_shrink_the_bubble(run: tuple[Job, Layout]) -> None:
    job, layout = run
    none = training_step(LLAMA, job, replace(layout, recompute="none"), LINKS)
    full = training_step(LLAMA, job, replace(layout, recompute="full"), LINKS)
    assert full.seconds > none.seconds
    more = training_step(LLAMA, job, replace(layout, micro_batches=2 * layout.micro_batches), LINKS)
    once = training_step(LLAMA, job, layout, LINKS)
    assert more.per_gpu >= once.per_gpu * (1 - 1e-9)


@settings(deadline=None)
@given(pp=st.integers(1, 64), count=st.integers(1, 512), vpp=st.integers(1, 8))
def test_bubble_is_the_papers(pp: int, count: int, vpp: int) -> None:
    """Of the whole time (p - 1) / (m + p - 1) for 1F1B; interleaving divides the idle time by v."""
    share = bubble_share(pp, count)
    assert share / (1 + share) == Fraction(pp - 1, count + pp - 1)
    assert bubble_share(pp, count, vpp) == share / vpp


def test_work_of_a_training_step() -> None:
    """6N in full, 4N with frozen weights, 2N more where everything is recomputed; fused attention is causal."""
    body = flops.matrix_parameters(LLAMA)
    assert body == LLAMA.parameters - 128_256 * 4096
    scores = 32 * 4096 * 2048
    full = flops.training_work(LLAMA, Job(sequence=2048), Layout())
    assert (full.matrices, full.experts, full.attention) == (6 * body, 0, 2 * scores * 3.5)
    assert flops.training_work(LLAMA, Job(method="lora"), Layout()).matrices == 4 * body
    again = flops.training_work(LLAMA, Job(sequence=2048), Layout(recompute="full"))
    assert (again.matrices, again.attention) == (8 * body, 2 * scores * 4.5)
    stored = flops.training_work(LLAMA, Job(sequence=2048, flash=False), Layout())
    assert stored.attention == 12 * scores
    mixtral = model("mixtral-8x7b")
    mixture = flops.training_work(mixtral, Job(), Layout())
    assert mixture.matrices + mixture.experts == 6 * flops.matrix_parameters(mixtral)


def test_flops_by_convention() -> None:
    assert flops.per_token(LLAMA, 8192, "6N") == 6 * LLAMA.parameters
    assert flops.per_token(LLAMA, 8192) == 6 * LLAMA.parameters + 12 * 32 * 4096 * 8192
    assert flops.per_token(LLAMA, 8192, "6N+6Lhs") / 1e9 == pytest.approx(51.47, rel=0.001)


def test_hardware_flops_with_recomputation() -> None:
    """Korthikanti et al. 2022, equation 9: 1 + s/6h of attention alone; 4/3 for everything."""
    gpt = from_dimensions(**GPT3, gated=False)
    selective = flops.hardware_ratio(gpt, 2048, "selective", fused=False)
    assert selective == pytest.approx(1 + 2048 / 6 / 12288 / 3 / (1 + 2048 / 6 / 12288), rel=0.01)
    assert flops.hardware_ratio(gpt, 2048, "full") == pytest.approx(4 / 3)
    assert flops.hardware_ratio(gpt, 2048, "none") == 1


def test_gpt3_iteration_as_the_paper_measured_it() -> None:
    """Korthikanti et al. 2022, table 5: 13.75 s for GPT-3 on 64 A100, which is no case of the file."""
    gpt = from_dimensions(**GPT3, gated=False)
    layout = Layout(gpus=64, tp=8, pp=8, vpp=3, sharder="megatron", micro_batches=64, recompute="selective")
    job = Job(kind="pretrain", sequence=2048, flash=False)
    step = training_step(gpt, job, replace(layout, sequence_parallel=True), Links(chip_of("a100-sxm-80"), 8, 25e9))
    assert step.seconds == pytest.approx(13.75, rel=0.1)


def test_optimizer_on_the_host_costs_time() -> None:
    job = Job()
    gpu = training_step(LLAMA, job, FSDP, LINKS)
    host = training_step(LLAMA, job, replace(FSDP, offload_optimizer=True), LINKS)
    nvme = training_step(LLAMA, job, replace(FSDP, offload_optimizer=True, nvme=True), LINKS)
    assert gpu.seconds < host.seconds < nvme.seconds
    assert {part.name for part in host.parts} >= {"optimizer on the host", "gradients and parameters over PCIe"}


def test_frozen_weights_in_the_host_come_with_every_pass() -> None:
    job = Job(method="lora")
    away = replace(FSDP, offload_optimizer=True, offload_params=True, micro_batches=3)
    step = training_step(LLAMA, job, away, LINKS)
    part = next(part for part in step.parts if part.name == "parameters from the host")
    assert part.seconds == pytest.approx(3 * 2 * 2 * LLAMA.parameters / 8 / 55.4e9, rel=0.001)
    assert step.seconds > training_step(LLAMA, job, replace(FSDP, micro_batches=3), LINKS).seconds


def test_adapters_are_counted_without_gradients_of_frozen_weights() -> None:
    lora = training_step(LLAMA, Job(method="lora"), FSDP, LINKS)
    full = training_step(LLAMA, Job(), FSDP, LINKS)
    assert (lora.convention, full.convention) == ("4N+12Lhs", "6N+12Lhs")
    assert lora.per_gpu > full.per_gpu
    assert full.model_flops - lora.model_flops == 2 * LLAMA.active_parameters


def test_quantised_weights_are_unpacked_for_every_pass() -> None:
    one = Layout(micro_batches=4)
    step = training_step(LLAMA, Job(method="qlora"), one, LINKS)
    again = training_step(LLAMA, Job(method="qlora"), replace(one, recompute="full"), LINKS)
    parts = [next(part.seconds for part in of.parts if part.name == "dequantisation") for of in (step, again)]
    assert parts[0] == pytest.approx(4 * 2 * LLAMA.linear_parameters * (0.516 + 4) / (0.85 * 3.35e12), rel=0.001)
    assert parts[1] == pytest.approx(1.5 * parts[0])
    assert "dequantisation" not in {part.name for part in training_step(LLAMA, Job(method="lora"), one, LINKS).parts}


def test_fewest_gpus() -> None:
    card = Card("a card of 80 GB", 80_998 * 2**20, 80)
    assert fewest(model("llama-3.1-8b"), Job(sequence=2048), card) == 2
    assert fewest(model("llama-3.1-70b"), Job(sequence=2048), card) == 32
    serve = Job(kind="serve", context=8192)
    assert fewest(model("llama-3.1-70b"), serve, card) == 4
    assert fewest(model("llama-3.1-70b"), replace(serve, weights="int4"), card) == 1
    assert fewest(LLAMA, Job(), card, tight=True) <= fewest(LLAMA, Job(), card)
    with pytest.raises(InputError, match="does not fit"):
        fewest(model("llama-3.1-70b"), Job(), Card("a card of 1 GB", 2**30, 1))


def test_coefficients_are_global_and_in_their_bounds() -> None:
    assert set(FITTED) == set(BOUNDS) == set(record()["values"])
    assert all(low <= getattr(fitted(), name) <= high for name, (low, high) in BOUNDS.items())


@settings(max_examples=5, deadline=None)
@given(gemm=st.floats(0.6, 0.95))
def test_the_fit_finds_what_made_the_figures(gemm: float) -> None:
    made = [Run(f"source {size}", size * gemm, lambda use, size=size: size * use.gemm) for size in (1.0, 2.0, 3.0)]  # type: ignore[misc]
    assert fit(made).gemm == pytest.approx(gemm, abs=0.01)
    wrong = [*made, Run("another", 1.0, lambda use: use.gemm * 3)]
    assert max(left_out(wrong, START)) > 0.5


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    return score(read_cases(CASES))


@published
def test_speed_kinds_are_within_tolerance(result: dict[str, Any]) -> None:
    judged = [case for case in result["cases"] if case["within"] is not None]
    assert sum(case["within"] for case in judged) >= 0.9 * len(judged)
    speed = [case for case in judged if case["kind"] in SPEED]
    assert len(speed) > 70
    assert sum(case["within"] for case in speed) >= 0.9 * len(speed)


@published
@pytest.mark.parametrize(("kinds", "limit"), [(("train_throughput", "train_mfu"), 0.15), (("decode",), 0.10)])
def test_median_error_of_speeds(result: dict[str, Any], kinds: tuple[str, ...], limit: float) -> None:
    errors = [abs(case["error"]) for case in result["cases"] if case["kind"] in kinds and case["within"] is not None]
    assert statistics.median(errors) <= limit


@published
def test_speeds_of_the_vocabulary_are_answered() -> None:
    """Quantities that the vocabulary lists beside those of the file."""
    from llmhw_provision.sizing.predict import predict

    def said(kind: str, quantity: str, unit: str, **inputs: Any) -> float:
        return predict({"kind": kind, "quantity": quantity, "unit": unit, "inputs": inputs}, {})

    assert said("comm", "achieved", "GB/s", link="PCIe 5.0 x16", direction="host-to-device") == 55.4
    assert said("comm", "communication time per micro-step", "s", params=10e9, zero=3, per_gpu_gbs=50) == pytest.approx(
        1.2, rel=0.01
    )
    saved = said("storage", "checkpoint save time", "s", checkpoint_bytes=2.3e12, writers=384)
    assert saved == pytest.approx(40, rel=0.1)  # BLOOM
    ratio = said(
        "flops",
        "HFU/MFU (recompute FLOPs overhead)",
        "ratio",
        arch={"h": 12288, "L": 96},
        seq=2048,
        recompute="selective",
    )
    assert 1.0 < ratio < 1.05
    hours = said(
        "train_time",
        "pre-training GPU hours",
        "M GPU-hours",
        model="deepseek-v3",
        tokens=14.8e12,
        gpu="H800-80GB",
        precision="fp8",
    )
    assert 2.664 / 2 < hours < 2.664 * 2


@pytest.mark.parametrize("name", names("models"))
def test_every_model_has_a_finite_speed(name: str) -> None:
    found = model(name)
    step = training_step(found, Job(), replace(FSDP, gpus=64), LINKS)
    assert 0 < step.mfu < 1
    serving = Serving(found, "bf16", Layout(), LINKS.chip, batch=4, context=4096, engine="vllm")
    assert 0 < step_seconds(serving) < 10
    assert 0 < flops.matrix_parameters(found) <= found.active_parameters
    assert serving.read <= 2 * found.parameters

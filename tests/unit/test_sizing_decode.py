"""Time of prompts and tokens in serving: properties and formulas."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmhw_provision.sizing.chips import chip_of
from llmhw_provision.sizing.decode import Serving, decode_step, prefill, step_seconds
from llmhw_provision.sizing.job import Layout
from tests.unit.sizing_setups import model

LLAMA = model("llama-3.1-8b")


def test_a_larger_batch_serves_more_tokens_and_none_faster() -> None:
    chip = chip_of("a100-sxm-80")
    one = Serving(LLAMA, "bf16", Layout(), chip, context=4096)
    steps = [step_seconds(replace(one, batch=batch)) for batch in (1, 8, 64, 512)]
    assert steps == sorted(steps)
    rates = [batch / step for batch, step in zip((1, 8, 64, 512), steps, strict=True)]
    assert rates == sorted(rates)
    assert decode_step(replace(one, batch=4096, context=1))[0].name == "computing"


@settings(deadline=None)
@given(batch=st.integers(1, 64), tp=st.sampled_from([1, 2, 4, 8]), faster=st.floats(1.01, 4))
def test_more_memory_bandwidth_or_tensor_parallelism_never_slow_decoding(batch: int, tp: int, faster: float) -> None:
    chip = chip_of("h100-sxm")
    one = Serving(LLAMA, "bf16", Layout(tp=tp, gpus=tp), chip, batch=batch, context=2048, engine="vllm")
    better = replace(one, chip=replace(chip, bandwidth=chip.bandwidth * faster))
    assert step_seconds(better) <= step_seconds(one)
    if tp > 1:
        assert step_seconds(one) < step_seconds(replace(one, layout=Layout()))


def test_quantised_weights_speed_up_tokens_but_not_prompts() -> None:
    base = Serving(LLAMA, "bf16", Layout(), chip_of("a100-sxm-80"))
    small = replace(base, weights="int4")
    assert step_seconds(small) < step_seconds(base)
    assert prefill(small, 4096)[0].seconds == prefill(base, 4096)[0].seconds


def test_tensor_parallelism_over_pcie_delays_prompts() -> None:
    bridged = Serving(LLAMA, "bf16", Layout(tp=4, gpus=4), chip_of("h100-pcie"), host_gpus=4)
    switched = replace(bridged, chip=replace(bridged.chip, nvlink=450e9, switched=True, domain=8))
    waits = [prefill(of, 8192)[1].seconds for of in (bridged, switched)]
    assert waits[0] == pytest.approx(2 * 32 * 2 * 4096 * 8192 * 1.5 / (0.4 * 63e9))
    assert waits[1] == pytest.approx(waits[0] * 0.4 * 63 / 360)


def test_a_mixture_reads_the_experts_that_its_batch_visits() -> None:
    mixtral = model("mixtral-8x7b")
    one = Serving(mixtral, "bf16", Layout(), chip_of("h200-sxm"))
    assert one.read == pytest.approx(2 * (mixtral.active_parameters - mixtral.vocab * mixtral.hidden), rel=0.001)
    many = replace(one, batch=1000)
    assert many.read == pytest.approx(2 * (mixtral.parameters - mixtral.vocab * mixtral.hidden), rel=0.001)

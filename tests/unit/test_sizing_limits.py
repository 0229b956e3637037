"""Contradictions and impossible divisions: all at once, each with field and value."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmhw_provision.errors import InputError
from llmhw_provision.sizing.job import Job, Layout
from llmhw_provision.sizing.limits import require
from tests.unit.sizing_setups import model

JOB, LAYOUT = Job(), Layout(gpus=8)
FSDP = Layout(gpus=8, zero=3, sharder="fsdp")


@pytest.mark.parametrize(
    ("job", "layout", "message"),
    [
        (JOB, replace(LAYOUT, tp=16), "tp 16 × pp 1 × cp 1 = 16 does not divide the 8 GPUs"),
        (JOB, Layout(gpus=3, tp=3), "tp 3 does not divide the 32 attention heads"),
        (JOB, Layout(gpus=3, tp=3), "tp 3 and the 8 KV heads do not divide each other"),
        (JOB, Layout(gpus=64, pp=64), "pp 64 exceeds the 32 layers"),
        (JOB, Layout(gpus=8, pp=8, vpp=5), "pp 8 × vpp 5 exceeds the 32 layers"),
        (JOB, replace(LAYOUT, vpp=2), "vpp 2 needs pp above 1"),
        (JOB, replace(LAYOUT, ep=2), "ep 2: Llama 3.1 8B has no experts"),
        (replace(JOB, sequence=1001), replace(LAYOUT, cp=2), "cp 4 does not divide the 1,001 tokens of a sequence"),
        (JOB, replace(LAYOUT, nodes=3), "nodes 3 does not divide the 8 GPUs"),
        (JOB, replace(LAYOUT, zero=2), "zero 2 contradicts sharder ddp"),
        (JOB, replace(LAYOUT, zero=3, sharder="megatron"), "zero 3 contradicts sharder megatron"),
        (JOB, replace(LAYOUT, zero=1, sharder="fsdp"), "zero 1 contradicts sharder fsdp"),
        (JOB, replace(LAYOUT, pp=2, zero=3, sharder="deepspeed"), "zero 3 contradicts pp 2"),
        (JOB, replace(LAYOUT, offload_optimizer=True), "offload optimizer contradicts zero 0"),
        (
            JOB,
            replace(LAYOUT, zero=2, sharder="fsdp", offload_params=True),
            "offload all contradicts zero 2",
        ),
        (JOB, replace(FSDP, nvme=True), "nvme without offload"),
        (JOB, replace(FSDP, sequence_parallel=True), "sequence-parallel needs tp above 1"),
        (replace(JOB, kind="serve"), FSDP, "zero 3 is for training; job is serve"),
        (replace(JOB, weights="int4"), FSDP, "weights int4 cannot be trained in full"),
        (replace(JOB, method="qlora", weights="fp32"), FSDP, "method qlora contradicts weights fp32"),
        (
            replace(JOB, in_backward=True),
            replace(FSDP, micro_batches=4),
            "micro-batches 4 contradicts optimizer in backward",
        ),
        (replace(JOB, in_backward=True, method="lora"), FSDP, "optimizer in backward contradicts method lora"),
        (replace(JOB, kind="pretrain", method="lora"), FSDP, "method lora contradicts job pretrain"),
        (replace(JOB, kind="serve", method="lora"), LAYOUT, "method lora contradicts job serve"),
        (JOB, replace(FSDP, recompute="selective"), "recompute selective contradicts flash attention"),
    ],
)
def test_a_contradiction_names_field_and_value(job: Job, layout: Layout, message: str) -> None:
    with pytest.raises(InputError) as found:
        require(model("llama-3.1-8b"), job, layout)
    assert any(problem.message.startswith(message) for problem in found.value.problems), found.value.problems


def test_experts_that_do_not_divide() -> None:
    with pytest.raises(InputError, match="ep 3 does not divide the 8 experts"):
        require(model("mixtral-8x7b"), JOB, Layout(gpus=3, ep=3))


def test_all_contradictions_at_once() -> None:
    with pytest.raises(InputError) as found:
        require(model("llama-3.1-8b"), replace(JOB, weights="int4"), Layout(gpus=8, tp=3, zero=2, vpp=2))
    assert len(found.value.problems) == 6


def test_what_is_possible_passes() -> None:
    require(model("mixtral-8x7b"), JOB, Layout(gpus=16, tp=2, pp=2, ep=4, zero=1, sharder="megatron"))
    require(model("llama-3.1-8b"), JOB, FSDP)

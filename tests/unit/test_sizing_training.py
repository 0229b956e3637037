"""The moments of a training step against measured runs, and what moves from GPU to host."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmhw_provision.sizing.host import host_terms
from llmhw_provision.sizing.job import Job, Layout
from llmhw_provision.sizing.rules import DeepSpeedSetting, deepspeed_gpu, deepspeed_host
from llmhw_provision.sizing.terms import total
from llmhw_provision.sizing.training import Moment, moments, peak
from llmhw_provision.units import GB, GIB
from tests.unit.sizing_setups import model

TORCHTUNE = Job(scheme="pure", sequence=4096)
PACKED = Layout(micro_batch=2)


def names(moment: Moment) -> set[str]:
    return {term.name for term in moment.terms}


@pytest.mark.parametrize(
    ("job", "layout", "gib"),
    [
        (TORCHTUNE, PACKED, 60.0),
        (replace(TORCHTUNE, compile=True), PACKED, 51.0),
        (replace(TORCHTUNE, compile=True, loss="chunked"), PACKED, 42.9),
        (replace(TORCHTUNE, compile=True, loss="chunked"), replace(PACKED, recompute="full"), 24.9),
    ],
)
def test_torchtune_3b(job: Job, layout: Layout, gib: float) -> None:
    """torchtune README, Llama 3.2 3B on an A100: peak active memory."""
    assert peak(model("llama-3.2-3b"), job, layout).allocated / GIB == pytest.approx(gib, rel=0.10)


def test_gradients_and_activations_do_not_peak_together() -> None:
    """fitcheck adds them up and is 39 to 111 % too high on the runs above."""
    found = {moment.name: moment for moment in moments(model("llama-3.2-3b"), TORCHTUNE, PACKED)}
    assert "gradients bf16" not in names(found["loss"])
    assert "gradients bf16" in names(found["optimizer step"])
    assert "activations" not in names(found["optimizer step"])


def test_accumulated_gradients_outlive_the_micro_step() -> None:
    layout = replace(PACKED, micro_batches=4)
    found = {moment.name: moment for moment in moments(model("llama-3.2-3b"), TORCHTUNE, layout)}
    assert "gradients bf16" in names(found["loss"])


def test_torchtitan_8b_fsdp() -> None:
    """torchtitan, 8 × H100: 83.9 GiB reserved at 32,768 tokens with full recompute, and so with CP 8 at 262,144."""
    job = Job(scheme="fp32-params", sequence=32768, compile=True)
    fsdp = Layout(gpus=8, zero=3, sharder="fsdp", recompute="full")
    one = model("llama-3.1-8b")
    assert peak(one, job, fsdp).reserved / GIB == pytest.approx(83.9, rel=0.05)
    ring = peak(one, replace(job, sequence=262144), replace(fsdp, cp=8))
    assert ring.reserved == peak(one, job, fsdp).reserved


def test_sharded_layers_are_gathered_in_passing() -> None:
    found = peak(model("llama-3.1-8b"), Job(), Layout(gpus=8, zero=3, sharder="fsdp"))
    assert "gathered layers" in names(found)
    assert "gathered layers" not in names(peak(model("llama-3.1-8b"), Job(), Layout(gpus=8, zero=2, sharder="fsdp")))


def test_deepspeed_keeps_buckets_and_copies_gradients_to_fp32() -> None:
    layout = Layout(gpus=8, zero=2, sharder="deepspeed")
    found = {moment.name: moment for moment in moments(model("llama-2-7b"), Job(), layout)}
    assert "reduce buckets" in names(found["loss"])
    copies = [term for term in found["optimizer step"].terms if term.name == "fp32 gradients of the step"]
    assert copies[0].size == pytest.approx(4 * 6_738_415_616 / 8, rel=0.001)
    alone = [moments(model("llama-2-7b"), Job(optimizer=optimizer), Layout()) for optimizer in ("adamw", "adamw-8bit")]
    steps = [names(next(moment for moment in found if moment.name == "optimizer step")) for found in alone]
    assert ["fp32 gradients of the step" in each for each in steps] == [True, False]


def test_offload_moves_states_to_the_host() -> None:
    one = model("qwen2.5-32b")
    layout = Layout(gpus=1, zero=3, sharder="deepspeed", recompute="full")
    offload = replace(layout, offload_optimizer=True, offload_params=True)
    assert peak(one, Job(), offload).device < peak(one, Job(), layout).device / 10
    moved = {term.name: term.size for term in host_terms(one, Job(), offload)}
    assert moved["offloaded optimizer"] == 12 * one.parameters
    assert total(host_terms(one, Job(), offload)) > 744 * GB  # LLaMA-Factory issue 6755: a host of 744 GB ran out


def test_nvme_takes_states_from_the_host_too() -> None:
    one = model("qwen2.5-32b")
    layout = Layout(gpus=8, zero=3, sharder="deepspeed", offload_optimizer=True, offload_params=True)
    with_nvme, without = (
        total(term for term in host_terms(one, Job(), each) if term.kind == "host")
        for each in (replace(layout, nvme=True), layout)
    )
    assert with_nvme < without / 3


def test_activations_and_checkpoints_may_lie_on_the_host() -> None:
    one, layout = model("llama-3.1-8b"), Layout(gpus=8, zero=3, sharder="fsdp", recompute="full")
    moved = host_terms(one, Job(sequence=1024), replace(layout, offload_activations=True))
    sizes = {term.name: term.size for term in moved}
    assert sizes["offloaded activations"] == 8 * 32 * 1024 * 8192
    assert sizes["checkpoint staging"] == 14 * one.parameters
    assert {term.kind for term in moved if term.name == "checkpoint staging"} == {"elastic"}


def test_paged_optimizer_is_on_the_host() -> None:
    job = Job(scheme="pure", optimizer="paged-adamw-8bit")
    assert any(term.name == "paged optimizer" for term in host_terms(model("llama-3.1-8b"), job, Layout()))


def test_reference_critic_and_reward_model() -> None:
    """PPO: two trained and two frozen models; adapters need no reference of their own."""
    one, layout = model("qwen2.5-7b"), Layout(gpus=8, zero=3, sharder="fsdp", recompute="full")
    ppo = names(peak(one, Job(kind="ppo"), layout))
    assert {"reference", "reward model", "critic with optimizer"} <= ppo
    assert "reference" in names(peak(one, Job(kind="dpo"), layout))
    assert "reference" not in names(peak(one, Job(kind="dpo", method="lora"), layout))
    assert any(moment.name == "generation of answers" for moment in moments(one, Job(kind="grpo"), layout))


def test_pipeline_peaks_at_its_first_or_last_stage() -> None:
    layout = Layout(gpus=16, tp=2, pp=8, zero=1, sharder="megatron", micro_batches=32, sequence_parallel=True)
    found = moments(model("llama-3.1-70b"), Job(scheme="mixed-fp32-grads", loss="vocab-parallel"), layout)
    assert {moment.stage for moment in found} == {"first", "last"}
    assert all("logits and loss" not in names(moment) for moment in found if moment.stage == "first")


def test_megatron_runs_as_it_does_by_itself() -> None:
    """fp32 gradients beside bf16 weights and a loss on a divided vocabulary, where nothing else is said."""
    layout = Layout(gpus=8, tp=8, zero=1, sharder="megatron")
    found = {term.name: term for term in peak(model("llama-3.1-8b"), Job(), layout).terms}
    assert found["gradients fp32"].size == pytest.approx(4 * 8_030_261_248 / 8, rel=0.01)
    assert "6 B" in found["logits and loss"].formula


def test_gptq_weights_are_trained_under_autocast() -> None:
    """Qwen README, 14B Q-LoRA at 8,192 tokens: 27.9 GB, about 10 bytes per logit where bf16 LoRA has 14."""
    job = Job(method="qlora", weights="int4", sequence=8192, rank=64)
    found = {term.name: term for term in peak(model("qwen-14b"), job, Layout(recompute="full")).terms}
    assert "10 B" in found["logits and loss"].formula
    bf16 = peak(model("qwen-14b"), replace(job, weights="bf16"), Layout(recompute="full"))
    assert "14 B" in {term.name: term for term in bf16.terms}["logits and loss"].formula


def test_deepspeed_estimators_as_published() -> None:
    """DeepSpeed docs, memory requirements: 2,851 million parameters, largest layer 32 million, 8 GPUs."""
    one = DeepSpeedSetting(params=2_851_000_000, largest_layer=32_000_000, gpus_per_node=8, nodes=1, stage=3)
    assert deepspeed_gpu(one).size / GIB == pytest.approx(6.09, abs=0.01)
    offload = replace(one, offload_optimizer=True, offload_params=True)
    assert deepspeed_gpu(offload).size / GIB == pytest.approx(0.12, abs=0.005)
    assert deepspeed_host(replace(one, offload_optimizer=True)).size / GIB == pytest.approx(63.72, abs=0.01)
    assert deepspeed_host(replace(one, zero_init=False)).size / GIB == pytest.approx(127.45, abs=0.01)


def test_deepspeed_documentation_and_code_disagree_for_stage_2() -> None:
    """The documentation prints 15.93 GiB, the code since PR 5099 gives 11.28."""
    one = DeepSpeedSetting(params=2_851_000_000, largest_layer=32_000_000, gpus_per_node=8, nodes=1, stage=2)
    assert deepspeed_gpu(one).size / GIB == pytest.approx(15.93, abs=0.01)
    assert deepspeed_gpu(replace(one, revised=True)).size / GIB == pytest.approx(11.28, abs=0.01)


def test_backward_over_a_quantised_base_dequantises_one_matrix() -> None:
    """70B: 8,192 × 28,672 in 16 bits; adapters on a 16-bit base need no such copy."""
    layout = Layout(recompute="full")
    for method, size in (("qlora", 2 * 8192 * 28672), ("lora", 0)):
        found = {moment.name: moment for moment in moments(model("llama-3.1-70b"), Job(method=method), layout)}
        for name, there in (("backward of the last layer", size), ("loss", 0)):
            terms = {term.name: term.size for term in found[name].terms}
            assert terms.get("dequantised matrix", 0) == there

"""Model states against published figures."""

from __future__ import annotations

import pytest

from llmhw_provision.model import Architecture, from_dimensions, from_parameters
from llmhw_provision.sizing.job import Job, Layout, Scheme
from llmhw_provision.sizing.shards import block_parameters, held, padded_vocab, parameters
from llmhw_provision.sizing.states import States, lora_parameters, training_states
from llmhw_provision.sizing.terms import total
from llmhw_provision.units import GB, GIB
from tests.unit.sizing_setups import GPT3, model


def states(one: Architecture, job: Job, layout: Layout, stage: str = "only") -> int:
    found = training_states(one, job, layout, stage)
    return total(term for term in (found.weights, found.gradients, found.optimizer, found.adapters) if term is not None)


@pytest.mark.parametrize(("zero", "gb"), [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zero_stages_of_the_paper(zero: int, gb: float) -> None:
    """ZeRO, figure 1: 7.5 billion parameters over 64 ranks."""
    layout = Layout(gpus=64, zero=zero, sharder="deepspeed" if zero else "ddp")
    assert states(from_parameters(7_500_000_000), Job(), layout) / GB == pytest.approx(gb, rel=0.02)


@pytest.mark.parametrize(
    ("scheme", "each"), [("mixed", 16), ("mixed-fp32-grads", 18), ("fp32-params", 16), ("pure", 8), ("fp32", 16)]
)
def test_bytes_per_parameter_of_a_scheme(scheme: Scheme, each: int) -> None:
    one = model("llama-3.1-8b")
    assert states(one, Job(scheme=scheme), Layout()) == each * one.parameters


def test_optimizers_differ_in_their_moments() -> None:
    one = model("llama-2-7b")

    def optimizer(job: Job) -> float:
        term = training_states(one, job, Layout()).optimizer
        assert term
        return term.size / one.parameters

    assert optimizer(Job(scheme="fp32")) == 8
    assert optimizer(Job(scheme="fp32", optimizer="sgd")) == 4
    assert optimizer(Job(scheme="pure", optimizer="adamw-8bit")) == pytest.approx(2 + 6 * 0.02, abs=0.02)
    assert optimizer(Job(scheme="pure", optimizer="paged-adamw-8bit")) == 0
    assert optimizer(Job(scheme="pure", optimizer="adafactor")) < 0.01
    assert 4 < optimizer(Job(scheme="fp32", optimizer="muon")) < 4.5  # embedding and norms keep AdamW
    assert optimizer(Job(scheme="pure", optimizer="galore-8bit")) < 0.8


def test_eight_bit_optimizers_keep_32_bit_states_of_embeddings() -> None:
    """Dettmers et al., section 2.3. torchtune, 3B with a tied embedding: 21.8 to 17.6 GiB from bf16 to 8-bit states."""
    one = model("llama-3.2-3b")
    sizes = []
    for job in (Job(scheme="pure"), Job(scheme="pure", optimizer="adamw-8bit")):
        term = training_states(one, job, Layout()).optimizer
        assert term
        sizes.append(term.size)
    matrices = one.parameters - one.vocab * one.hidden
    assert sizes[1] == pytest.approx(8 * one.vocab * one.hidden + 2 * (1 + 4 / 2048) * matrices, rel=1e-6)
    assert (sizes[0] - sizes[1]) / GIB == pytest.approx(21.8 - 17.6, rel=0.12)


def test_peft_keeps_what_is_not_quantised_in_fp32() -> None:
    one = model("llama-3.1-8b")
    plain, prepared = (
        training_states(one, Job(method="qlora", loss=loss), Layout()).weights for loss in ("eager", "trainer")
    )
    rest = one.parameters - 6_979_321_856  # 2 × 128,256 × 4,096 and the norms
    assert prepared.size - plain.size == 2 * rest
    assert "prepare_model_for_kbit_training" in prepared.source
    lora = training_states(one, Job(method="lora", loss="trainer"), Layout()).weights
    assert lora.size == 2 * one.parameters


def test_megatron_distributed_optimizer_of_405b() -> None:
    """6 + 12/D bytes; TP 8, PP 16, D 64: 19.6 GiB on the most loaded stage (Megatron theoretical_memory_usage.py)."""
    layout = Layout(gpus=8 * 16 * 64, tp=8, pp=16, zero=1, sharder="megatron")
    found = [states(model("llama-3.1-405b"), Job(scheme="mixed-fp32-grads"), layout, stage) for stage in layout.stages]
    assert max(found) / GIB == pytest.approx(19.6, rel=0.02)


def test_interleaved_175b_most_loaded_stage() -> None:
    """18 bytes, TP 8, PP 8: 46.89 GiB (Megatron theoretical_memory_usage.py)."""
    one = from_dimensions(**GPT3, norm_bias=True, attention_bias=True, output_bias=True, mlp_bias=True)
    layout = Layout(gpus=64, tp=8, pp=8, vpp=3, sharder="megatron")
    assert states(one, Job(scheme="mixed-fp32-grads"), layout, "first") / GIB == pytest.approx(46.89, rel=0.01)


def test_tensor_parallel_does_not_divide_norms_and_pads_the_vocabulary() -> None:
    one = model("llama-3.1-8b")
    whole, half = (dict(_by_group(one, tp)) for tp in (1, 2))
    assert half["vectors"] == whole["vectors"]
    assert half["mlp"] * 2 == whole["mlp"]
    assert padded_vocab(50257, 8) == 51200
    assert padded_vocab(50257, 1) == 50257


def _by_group(one: Architecture, tp: int) -> list[tuple[str, int]]:
    return [(part.group, part.parameters) for part in held(one, Layout(gpus=tp, tp=tp))]


def test_expert_parallel_divides_experts_only_and_their_optimizer_less() -> None:
    one = model("mixtral-8x7b")
    alone, spread = (held(one, Layout(gpus=8, ep=ep, zero=1, sharder="megatron")) for ep in (1, 8))
    assert {part.group: part.parameters for part in spread}["experts"] * 8 == one.group_parameters("experts")
    assert {part.group: part.shards for part in spread}["experts"] == 1
    assert {part.group: part.shards for part in alone}["experts"] == 8
    assert parameters(spread) < parameters(alone) / 4


def test_adapters_of_every_linear_layer() -> None:
    """Qwen's README, rank 64 on attention and feed-forward network of the 7B: 143 million with their three targets."""
    one = model("llama-2-7b")
    assert lora_parameters(one, Job(method="lora", rank=8)) == 8 * 32 * 2 * (4096 + 4096)
    assert lora_parameters(one, Job(method="lora", rank=8, targets=("all-linear",))) == lora_parameters(
        one, Job(method="qlora", rank=8)
    )
    assert lora_parameters(one, Job(method="lora", adapter_parameters=5)) == 5


def test_optimizer_in_backward_keeps_one_unit_of_gradients() -> None:
    found: States = training_states(model("llama-3.1-8b"), Job(scheme="pure", in_backward=True), Layout())
    assert found.gradients is None
    assert found.gradient_unit
    assert found.gradient_unit.size == 2 * 128256 * 4096  # the head is the largest unit


def test_stated_bytes_per_parameter_are_taken_as_they_are() -> None:
    """QLoRA paper: more than 780 GB for 65 billion at 12 bytes."""
    assert states(from_parameters(65_000_000_000), Job(state_bytes=12), Layout()) == 780 * GB


def test_a_layer_is_as_large_in_a_deeper_model() -> None:
    """The last norm belongs to no layer, so that it does not make layers smaller the more of them share it."""
    small = {"hidden": 512, "heads": 8, "ffn": 64, "vocab": 1000}
    sizes = {block_parameters(from_dimensions(**small, layers=layers), Layout()) for layers in (1, 8, 9)}
    assert len(sizes) == 1

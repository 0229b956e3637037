"""What a workload needs of storage, and formats of weights."""

from __future__ import annotations

from fractions import Fraction

import pytest

from llmhw_provision.errors import InputError
from llmhw_provision.sizing.formats import FORMATS, double_quantised_bits, format_of, grouped
from llmhw_provision.sizing.job import Job, Layout
from llmhw_provision.sizing.models import parameter_count, resolve_model
from llmhw_provision.sizing.need import checkpoint
from llmhw_provision.sizing.states import frozen_weights
from llmhw_provision.sizing.storage import tmpfs_bytes, with_free_share
from llmhw_provision.units import GB, GIB, MIB
from tests.unit.machines import need
from tests.unit.sizing_setups import model


def test_checkpoint_of_70b_is_about_a_terabyte() -> None:
    """BLOOM's 14 bytes per parameter: 0.99 TB for 70.55 billion."""
    assert round(checkpoint(model("llama-3.1-70b"), Job()).size / GB) == 988


def test_checkpoint_of_adapters_is_small() -> None:
    term = checkpoint(model("llama-3.1-70b"), Job(method="lora"))
    assert term.size == 14 * 16 * 80 * (8192 + 8192 + 8192 + 1024)
    assert "adapter" in term.formula


def test_need_counts_dataset_weights_and_kept_checkpoints() -> None:
    found = need(checkpoints={"keep": 5})
    sizes = {term.name: term.size for term in found.storage.scratch}
    assert sizes["dataset"] == 200 * GB
    assert sizes["weights on disk"] == 2 * 8_030_261_248
    assert found.checkpoint
    assert sizes["checkpoints"] == 5 * found.checkpoint.size


def test_free_share_and_tmpfs_round_up() -> None:
    assert with_free_share(80) == 100
    assert with_free_share(81) == 102
    assert tmpfs_bytes(4 * GIB).size == 4301 * MIB


@pytest.mark.parametrize(("text", "count"), [("7B", 7 * 10**9), ("1.5T", 1_500_000_000_000), ("125M", 125_000_000)])
def test_parameter_counts_are_read_exactly(text: str, count: int) -> None:
    assert parameter_count(text) == count
    assert resolve_model(text).parameters == count


def test_a_model_is_a_name_a_file_or_a_count() -> None:
    with pytest.raises(InputError, match=r"model 'llama-3\.1-8x' is not in the catalogue"):
        resolve_model("llama-3.1-8x")
    with pytest.raises(InputError, match=r"no/such/config\.json: no such file"):
        resolve_model("no/such/config.json")


def test_bits_per_weight_of_quantised_formats() -> None:
    """QLoRA: 0.127 bits with double quantisation; GPTQ with groups of 128: 16-bit scale and 4-bit zero point."""
    assert float(double_quantised_bits(64, 256)) == pytest.approx(0.127, abs=5e-4)
    assert FORMATS["nf4"].bits == Fraction(9, 2)
    assert grouped(4, 128) == 4 + Fraction(20, 128)


@pytest.mark.parametrize(
    ("name", "form", "gib", "tolerance"),
    [
        ("llama-3.1-8b", "bf16", 14.99, 0.005),  # vLLM issue 10517
        ("llama-3.1-70b", "int8", 67.72, 0.005),  # vLLM issue 12569: embedding and head in bf16
        ("qwen2.5-7b", "nf4", 5.20, 0.06),  # vLLM issue 13882
    ],
)
def test_weights_as_servers_report_them(name: str, form: str, gib: float, tolerance: float) -> None:
    one = model(name)
    assert frozen_weights(one, Layout(), "only", format_of(one, form)).size / GIB == pytest.approx(gib, rel=tolerance)


def test_a_format_that_keeps_whole_layers_weighs_more() -> None:
    """Meta's FP8 release of the 405B: 1.2 bytes per parameter, not 1."""
    one = model("llama-3.1-405b")
    size = frozen_weights(one, Layout(), "only", format_of(one, "fp8-mlp")).size
    assert size / one.parameters == pytest.approx(1.20, abs=0.02)


def test_qlora_reads_16_bit_weights_from_disk() -> None:
    """NF4 is made while loading."""
    found = need(method="qlora")
    assert {term.name: term.size for term in found.storage.scratch}["weights on disk"] == 2 * 8_030_261_248

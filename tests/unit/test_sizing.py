"""First accounting: parameters, states, KV cache, checkpoints against published figures."""

import pytest

from llmhw_provision.catalogue.loader import ModelKind, find
from llmhw_provision.model import Architecture
from llmhw_provision.sizing import memory
from llmhw_provision.sizing.storage import tmpfs_bytes, with_free_share
from llmhw_provision.sizing.terms import total
from llmhw_provision.units import GB, GIB, KIB, MIB
from tests.unit.machines import need


def model(name: str) -> Architecture:
    return find("models", name, ModelKind).architecture


@pytest.mark.parametrize(("name", "kib"), [("llama-2-13b", 800), ("llama-3.1-8b", 128), ("llama-3.1-70b", 320)])
def test_kv_cache_per_token(name: str, kib: int) -> None:
    """PagedAttention paper: 800 KiB for 13B; config.json of Llama 3.1 for the others."""
    assert memory.kv_cache(model(name), context=1, concurrency=1, precision="bf16").size == kib * KIB


def test_full_training_states_are_16_bytes_per_parameter() -> None:
    terms = memory.training_states(model("llama-3.1-8b"), "full")
    assert total(terms) == 16 * 8_030_261_248


def test_checkpoint_of_70b_is_about_a_terabyte() -> None:
    assert round(memory.checkpoint(model("llama-3.1-70b"), "full").size / GB) == 988


def test_qlora_needs_less_than_lora_less_than_full() -> None:
    sizes = [total(memory.training_states(model("llama-3.1-8b"), method)) for method in ("qlora", "lora", "full")]
    assert sizes == sorted(sizes)


def test_estimate_counts_dataset_weights_and_kept_checkpoints() -> None:
    terms = {term.name: term.size for term in need(checkpoints={"keep": 5}).storage.scratch}
    assert terms["dataset"] == 200 * GB
    assert terms["checkpoints"] == 5 * memory.checkpoint(model("llama-3.1-8b"), "lora").size


def test_free_share_and_tmpfs_round_up() -> None:
    assert with_free_share(80) == 100
    assert with_free_share(81) == 102
    assert tmpfs_bytes(4 * GIB).size == 4301 * MIB

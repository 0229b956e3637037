"""Every key, text and quantity of the vocabulary of published cases gets a sensible answer of the engine."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from llmhw_provision.sizing.score import answer
from tests.unit.sizing_setups import FACTS

VOCABULARY = FACTS / "sizing_vocabulary.md"
pytestmark = pytest.mark.skipif(not VOCABULARY.exists(), reason=f"no vocabulary at {VOCABULARY}")

MODELS = {
    "dense": {"hidden": 4096, "layers": 32, "heads": 32, "kv_heads": 8, "head_dim": 128, "ffn": 14336, "vocab": 128256},
    "sparse": {
        "hidden": 2048,
        "layers": 48,
        "heads": 32,
        "kv_heads": 4,
        "head_dim": 128,
        "ffn": 768,
        "vocab": 151936,
        "experts": 128,
        "experts_per_token": 8,
    },
    "latent": {
        "hidden": 2048,
        "layers": 27,
        "heads": 16,
        "kv_heads": 16,
        "head_dim": 128,
        "ffn": 10944,
        "vocab": 102400,
        "experts": 64,
        "shared_experts": 2,
        "experts_per_token": 6,
        "moe_ffn": 1408,
        "dense_layers": 1,
        "attention": "mla",
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
    },
    "sliding": {
        "hidden": 2048,
        "layers": 24,
        "heads": 16,
        "kv_heads": 4,
        "head_dim": 128,
        "ffn": 8192,
        "vocab": 32000,
        "sliding_window": 1024,
        "sliding_layers": 12,
    },
}
TRAIN = {"gpu": "H100-80GB SXM", "mbs": 1, "seq": 2048}
SERVE = {"gpu": "H200-141GB"}
TRAINED = {
    "train_memory": ("peak reserved memory per GPU", "GiB"),
    "ft_memory": ("peak active memory", "GB"),
    "states": ("model states per GPU", "GB"),
    "activations": ("activations, first pipeline stage", "GiB"),
    "host_ram": ("host RAM per node", "GB"),
    "rule_of_thumb": ("total memory (summed over GPUs), *estimated*", "GB"),
}
SERVED = {
    "infer_memory": ("GPU memory", "GiB"),
    "kv_cache": ("KV cache", "B"),
    "vllm_kv": ("largest KV cache", "GiB"),
    "weights": ("model weights on GPU", "GiB"),
    "params": ("activated parameters per token", "B"),
}
# combinations that a training case can have, one key after the other, with what it needs beside it
LAYOUTS: list[dict[str, Any]] = [
    *({"zero": stage, "gpus": 8} for stage in range(4)),
    *({"zero": 3, "gpus": 8, "offload": what} for what in ("optimizer:cpu", "optimizer+param:cpu", "param:nvme")),
    *({"fsdp": ways, "gpus": 8} for ways in (8, "FULL_SHARD", "SHARD_GRAD_OP")),
    {"fsdp": 4, "cp": 2, "gpus": 8, "recompute": "full"},
    {"tp": 8, "sp": True, "dist_opt": True, "dp": 4},
    {"tp": 4, "pp": 4, "vpp": 2, "schedule": "interleaved 1F1B", "dist_opt": True, "dp": 2, "gbs": 64},
    {"fsdp": 4, "tp": 8, "pp": 4, "schedule": "1F1B", "gpus": 128, "mbs": 16},
    {"ep": 8, "gpus": 16, "dist_opt": True},
    {"gpus": 2, "pp": 4, "gbs": 8},
]


def texts(key: str) -> list[str]:
    line = re.search(rf"^- `{key}`: (.*)$", VOCABULARY.read_text(encoding="utf-8"), re.MULTILINE)
    return re.findall(r'"([^"]*)"', line[1]) if line else []


def predicted(kind: str, quantity: str, unit: str, **inputs: Any) -> float:
    case = {"kind": kind, "quantity": quantity, "unit": unit, "inputs": inputs}
    found, reason = answer(case, MODELS)
    assert found is not None, reason
    assert math.isfinite(found)
    return float(found)


@pytest.mark.parametrize("kind", TRAINED)
@pytest.mark.parametrize("name", MODELS)
def test_every_way_to_train_is_answered(kind: str, name: str) -> None:
    quantity, unit = TRAINED[kind]
    options = [
        {key: text}
        for key in ("precision", "optimizer", "recompute", "method", "loss", "framework", "quant", "workload")
        for text in texts(key)
    ]
    for option in [*options, *LAYOUTS, {"compile": True}, {"activation_offload": "cpu", "recompute": "full"}]:
        size = predicted(kind, quantity, unit, model=name, **{**TRAIN, **option})
        all_on_host = kind == "states" and "param" in str(option.get("offload"))
        assert size > 0 or all_on_host, option


@pytest.mark.parametrize("kind", SERVED)
@pytest.mark.parametrize("name", MODELS)
def test_every_way_to_serve_is_answered(kind: str, name: str) -> None:
    quantity, unit = SERVED[kind]
    options = [{key: text} for key in ("quant", "weight", "framework") for text in texts(key)]
    options += [{"tp": ways, "gpus": ways} for ways in (1, 2, 4)]
    options += [{"context": 131072}, {"batch": 8, "prompt": 512, "new_tokens": 512}, {"kv_bytes": 1}, {"util": 0.98}]
    for option in [*options, {"max_model_len": 8192, "chunked_prefill": False}]:
        assert predicted(kind, quantity, unit, model=name, **{"context": 4096, **SERVE, **option}) > 0, option


def test_less_is_less() -> None:
    """An order that holds whatever the figures are."""

    def training(**inputs: Any) -> float:
        return predicted("train_memory", "GPU memory", "GB", **{"model": "dense", **TRAIN, **inputs})

    def ordered(*sizes: float) -> bool:
        return list(sizes) == sorted(sizes, reverse=True) and sizes[0] > sizes[-1]

    assert ordered(*(training(zero=stage, gpus=8) for stage in range(4)))
    assert ordered(*(training(recompute=text, seq=32768) for text in ("none", "selective(op)", "full")))
    assert ordered(*(training(method=text) for text in ("full", "lora", "qlora8", "qlora4")))
    assert ordered(
        *(training(loss=text, seq=8192, fsdp=64, gpus=64) for text in ("full CE", "chunked CE (8)", "chunked CE (32)"))
    )
    assert ordered(training(), training(optimizer="8-bit AdamW"))
    assert ordered(training(), training(optimizer_in_backward=True))
    assert ordered(
        *(training(zero=3, gpus=8, offload=what) for what in ("none", "optimizer:cpu", "optimizer+param:cpu"))
    )

    def cache(**inputs: Any) -> float:
        return predicted("vllm_kv", "KV cache tokens", "tokens", **{"model": "dense", **SERVE, **inputs})

    assert ordered(*(cache(kv_bytes=size) for size in (1, 2)))
    assert ordered(cache(util=0.98), cache(util=0.9))
    assert ordered(*(cache(quant=text) for text in ("gptq-int4", "fp8", "bf16")))
    assert ordered(
        cache(), *(cache(**length, chunked_prefill=False) for length in ({"context": 65536}, {"tokens": 131072}))
    )
    assert ordered(cache(), cache(max_model_len=131072, chunked_prefill=False))
    assert cache(activation_gib=2.0, chunked_prefill=False) > cache(activation_gib=4.0, chunked_prefill=False)


def test_whole_numbers_are_read_however_they_are_written() -> None:
    """YAML writes 8192 also as 8192.0, and reads 7e9 as text."""
    memory = ("train_memory", "GPU memory", "GB")
    assert predicted(*memory, params="7e9", mbs=2.0, seq=8192.0, gpus=8.0, fsdp=8.0) == predicted(
        *memory, params=7_000_000_000, mbs=2, seq=8192, gpus=8, fsdp=8
    )
    served = ("infer_memory", "GPU memory", "GB")
    options = {"model": "dense", "batch": 1, "prompt": 30720}
    assert predicted(*served, **options, new_tokens=2048.0) == predicted(*served, **options, new_tokens=2048)
    layers = {"layers": 36.0, "kv_heads": 8.0, "head_dim": 64.0, "kv_bytes": 2.0, "context": 1.0}
    assert predicted("kv_cache", "KV cache", "B", **layers) == 2 * 36 * 8 * 64 * 2


def test_a_cache_of_given_dimensions() -> None:
    cache = ("kv_cache", "KV cache", "B")
    layers = {"layers": 32, "kv_heads": 8, "head_dim": 128, "kv_bytes": 2}
    token = 2 * 32 * 8 * 128 * 2
    assert predicted(*cache, **layers, context=32768) == 32768 * token
    assert predicted(*cache, **layers, context=32768, sliding=4096) == 4096 * token
    assert predicted(*cache, **layers, seq=1000, batch=3) == 3000 * token
    assert predicted(*cache, **layers, tokens=1000) == 1000 * token
    latent = {"layers": 61, "kv_lora_rank": 512, "rope_dim": 64, "kv_bytes": 2}
    assert predicted(*cache, **latent, context=1, tp=8) == 61 * (512 + 64) * 2


def test_amp_keeps_18_bytes_per_parameter() -> None:
    """LLaMA-Factory's hardware table: 18 GB per billion parameters."""
    total = ("rule_of_thumb", "total memory (summed over GPUs), *estimated*", "GB")
    slope = (
        predicted(*total, params=70e9, method="full-amp16") - predicted(*total, params=14e9, method="full-amp16")
    ) / 56
    assert slope == pytest.approx(18 * 1.05, rel=0.02)  # with fragmentation


def test_a_checkpoint_whose_content_is_not_said_is_the_usual_one() -> None:
    full = ("checkpoint", "full checkpoint size", "GB")
    assert predicted(*full, params=10e9) == pytest.approx(140, rel=0.001)
    assert predicted(*full, params=10e9, precision="pure bf16") == pytest.approx(60, rel=0.001)


def test_quantities_that_say_what_is_done() -> None:
    """The quantity names the offload or the chunks that a case does not repeat among its inputs."""
    host = ("host_ram", "host RAM per node for the offloaded optimizer", "GB")
    assert predicted(*host, params=10e9, zero=2, gpus=1) == predicted(
        *host, params=10e9, zero=2, gpus=1, offload="Adam:cpu"
    )
    saved = ("logits", "memory saved by chunked cross-entropy (9 - 1)", "GiB")
    assert predicted(*saved, model="dense", seq=8192) > 0
    assert predicted(*saved, model="dense", seq=8192, framework="HF + FlashAttention-2") > 0
    states_only = ("fit", "largest model, states only (Pos)", "B params")
    case = {"kind": states_only[0], "quantity": states_only[1], "unit": states_only[2]}
    inputs = {"gpu": "V100-32GB", "zero": 3, "gpus": 8, "offload": "optimizer+param:cpu"}
    assert "offloaded" in answer({**case, "inputs": inputs}, {})[1]
    assert predicted(*states_only, gpu_total_gib=31.7, zero=1, dp=64) > 0

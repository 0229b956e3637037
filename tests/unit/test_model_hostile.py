"""Hostile config.json: every problem named with field and value, never a traceback."""

from __future__ import annotations

import copy
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmhw_provision.errors import InputError
from llmhw_provision.model import Architecture
from llmhw_provision.model.config import from_config, read_config
from tests.unit.test_model_config import COUNTED, LLAMA

FUZZ = settings(max_examples=200, deadline=None, database=None)


def problems(data: dict[str, Any]) -> list[str]:
    with pytest.raises(InputError) as caught:
        from_config(data, where="config.json")
    return [problem.message for problem in caught.value.problems]


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_config(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": None}, "hidden_size: missing"),
        ({"hidden_size": -4096}, "hidden_size: -4096 is outside 1 to 1,000,000"),
        ({"hidden_size": 0}, "hidden_size: 0 is outside 1 to 1,000,000"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers: 1000000000 is outside 1 to 10,000"),
        ({"vocab_size": 10**4000}, "vocab_size: a number of 13288 bits is outside 1 to 100,000,000"),
        ({"intermediate_size": math.nan}, "intermediate_size: NaN is not a whole number"),
        ({"intermediate_size": math.inf}, "intermediate_size: Infinity is not a whole number"),
        ({"intermediate_size": 14336.0}, "intermediate_size: 14336.0 is not a whole number"),
        ({"num_attention_heads": "32"}, "num_attention_heads: '32' is not a whole number"),
        ({"num_attention_heads": True}, "num_attention_heads: true is not a whole number"),
        ({"num_attention_heads": [32]}, "num_attention_heads: a list of 1 is not a whole number"),
        ({"num_attention_heads": {"a": 1}}, "num_attention_heads: an object of 1 is not a whole number"),
        ({"num_attention_heads": 33}, "hidden_size: 4,096 is not a multiple of num_attention_heads 33"),
        ({"num_key_value_heads": 5}, "num_attention_heads: 32 is not a multiple of num_key_value_heads 5"),
        ({"num_key_value_heads": 64}, "num_attention_heads: 32 is not a multiple of num_key_value_heads 64"),
        ({"tie_word_embeddings": "false"}, "tie_word_embeddings: 'false' is not true or false"),
        ({"torch_dtype": "float12"}, "torch_dtype: 'float12' is not one of float32, bfloat16, float16, float8_e4m3fn"),
        ({"model_type": 7}, "model_type: 7 is not text"),
        ({"model_type": "llama\ud800"}, "model_type: 'llama\\ud800' is not known"),
        ({"model_type": "gemma2", "layer_types": 3}, "layer_types: 3 is not a list"),
        (
            {"model_type": "gemma2", "sliding_window": 64, "layer_types": ["full_attention"] * 3},
            "layer_types: lists 3 layers, the model has 32",
        ),
        (
            {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 9},
            "num_experts_per_tok: 9 is more than num_local_experts 8",
        ),
        (
            {"model_type": "mllama_text_model", "cross_attention_layers": [3, 32]},
            "cross_attention_layers: 32 is not one of the layers 0 to 31",
        ),
        ({"model_type": "gemma3", "text_config": []}, "text_config: a list of 0 is not an object"),
        ({"quantization_config": "gptq"}, "quantization_config: 'gptq' is not an object"),
        ({"quantization_config": {"quant_method": "magic"}}, "quantization_config: quant_method: 'magic' is not known"),
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 64}},
            "quantization_config: bits: 64 is outside 2 to 8",
        ),
    ],
)
def test_a_wrong_value_is_named_with_its_field(changes: dict[str, Any], message: str) -> None:
    assert f"config.json: {message}" in problems({**LLAMA, **changes})


def test_all_problems_come_at_once() -> None:
    found = problems({**LLAMA, "hidden_size": "x", "vocab_size": -1, "num_key_value_heads": 5, "torch_dtype": 8})
    assert len(found) == 4


def test_a_problem_makes_no_other_one() -> None:
    assert problems({**LLAMA, "hidden_size": None}) == ["config.json: hidden_size: missing"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[]", "not an object"),
        ("null", "not an object"),
        ('"config"', "not an object"),
        ('{"hidden_size": 1, "hidden_size": 2}', "key 'hidden_size' is written twice"),
        ("[" * 100_000, "is not JSON"),
        ('{"a": ' * 100_000, "is not JSON"),
        ('{"vocab_size": ' + "9" * 5000 + "}", "is not JSON"),
    ],
    ids=["empty", "cut off", "list", "null", "text", "twice", "deep lists", "deep objects", "too many digits"],
)
def test_a_file_that_holds_no_object_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    assert message in refused(path)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(100_000_000)
    assert "100.0 MB is larger" in refused(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a file" in refused(tmp_path / "pipe")
    assert "no such file" in refused(tmp_path / "config.json")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"\xff\xfe{}")
    assert "not UTF-8" in refused(path)


def outcome(call: Callable[..., Architecture], *args: Any, **options: Any) -> Architecture | list[str]:
    try:
        return call(*args, **options)
    except InputError as error:
        return [problem.message for problem in error.problems]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(-3, 300) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def keys(data: dict[str, Any]) -> list[tuple[str, ...]]:
    inside = [(key, *rest) for key, value in data.items() if isinstance(value, dict) for rest in keys(value)]
    return [(key,) for key in data] + inside


def put(data: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        data = data[key] if isinstance(data.get(key), dict) else {}
    data[path[-1]] = value


@FUZZ
@given(data=st.data())
def test_any_value_anywhere_gives_a_model_or_a_named_problem(data: st.DataObject) -> None:
    config = copy.deepcopy(data.draw(st.sampled_from(COUNTED))["config"])
    config["quantization_config"] = {
        "quant_method": data.draw(
            st.sampled_from(["gptq", "awq", "fp8", "mxfp4", "bitsandbytes", "compressed-tensors"])
        ),
        "bits": 4,
        "weight_block_size": [128, 128],
        "config_groups": {"group_0": {"weights": {"num_bits": 8}}},
        "ignore": ["lm_head"],
    }
    for path in data.draw(st.lists(st.sampled_from(keys(config)), max_size=3)):
        put(config, path, data.draw(json_values))
    config = json.loads(json.dumps(config))
    model = outcome(from_config, config, where="config.json")
    if isinstance(model, list):
        assert model
        assert all(message.startswith("config.json: ") for message in model)
        return
    assert model.parameters > 0
    assert 0 < model.active_parameters <= model.parameters
    assert model.full_layers >= 0
    assert 0 <= model.dense_layers <= model.layers
    assert model.layer_parameters * model.layers + model.embedding_parameters > 0
    assert min(model.kv_bytes_per_token(), model.sliding_kv_bytes_per_token(), model.state_bytes_per_sequence()) >= 0


@FUZZ
@given(data=st.dictionaries(st.text(max_size=12) | st.just("model_type"), json_values, max_size=6))
def test_any_object_is_refused_or_read(data: dict[str, Any]) -> None:
    assert outcome(from_config, data, where="config.json")


@FUZZ
@given(text=st.text(max_size=40) | st.binary(max_size=40))
def test_any_file_is_refused_or_read(tmp_path_factory: pytest.TempPathFactory, text: str | bytes) -> None:
    path = tmp_path_factory.mktemp("m") / "config.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    found = outcome(read_config, path)
    assert isinstance(found, list)
    assert str(path) in found[0]

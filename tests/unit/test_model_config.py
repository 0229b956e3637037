"""config.json to architecture: counts made by transformers for small models of each family, and published counts.

recorded/models: parameters and kinds of layers that transformers 4.57.6 builds on the meta device from small files
of every family (counted.jsonl), and from the same files with one key left out (defaults.jsonl).
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from llmhw_provision.errors import InputError
from llmhw_provision.model import Architecture
from llmhw_provision.model.config import from_config, read_config
from llmhw_provision.model.families import FAMILIES
from llmhw_provision.model.vision import TOWERS

RECORDED = Path(__file__).parent / "recorded/models"
COUNTED = [json.loads(line) for line in (RECORDED / "counted.jsonl").read_text(encoding="utf-8").splitlines()]
DEFAULTS = [json.loads(line) for line in (RECORDED / "defaults.jsonl").read_text(encoding="utf-8").splitlines()]
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def build(**changes: Any) -> Architecture:
    return from_config({**LLAMA, **changes}, where="config.json")


@pytest.mark.parametrize("case", COUNTED, ids=[case["name"] for case in COUNTED])
def test_parameters_and_layers_are_those_that_transformers_builds(case: dict[str, Any]) -> None:
    model = from_config(case["config"], where="config.json")
    assert (model.parameters, model.sliding_layers, model.linear_layers) == (
        case["parameters"],
        case["sliding"],
        case["linear"],
    )


@pytest.mark.parametrize("case", DEFAULTS, ids=[f"{case['of']} without {case['without']}" for case in DEFAULTS])
def test_a_key_left_out_means_what_transformers_takes_it_to_mean(case: dict[str, Any]) -> None:
    config = copy.deepcopy(next(counted["config"] for counted in COUNTED if counted["name"] == case["of"]))
    *folder, key = case["without"].split(".")
    del (config[folder[0]] if folder else config)[key]
    assert from_config(config, where="config.json").parameters == case["parameters"]


# families with code of their own outside transformers: parameters as loaded by others
REMOTE: dict[str, tuple[int, dict[str, Any]]] = {
    "qwen 7B": (
        7_721_324_544,
        {
            "model_type": "qwen",
            "num_key_value_heads": None,
            "intermediate_size": 22016,
            "kv_channels": 128,
            "vocab_size": 151936,
        },
    ),
    "chatglm 6B": (
        6_173_286_400,
        {
            "model_type": "chatglm",
            "num_hidden_layers": None,
            "num_layers": 28,
            "num_key_value_heads": None,
            "inner_hidden_size": 16384,
            "vocab_size": 130528,
            "tie_word_embeddings": None,
        },
    ),
    "chatglm3 6B": (
        6_243_584_000,
        {
            "model_type": "chatglm",
            "num_hidden_layers": None,
            "num_layers": 28,
            "num_key_value_heads": None,
            "kv_channels": 128,
            "ffn_hidden_size": 13696,
            "padded_vocab_size": 65024,
            "vocab_size": None,
            "multi_query_attention": True,
            "multi_query_group_num": 2,
            "add_qkv_bias": True,
        },
    ),
    "internlm2.5 7B": (7_737_708_544, {"model_type": "internlm2", "vocab_size": 92544, "bias": False}),
    "kimi k2": (
        # the Hub counts 1,026,408,235,864 with the routing corrections, which are no parameters
        1_026_408_209_408,
        {
            "model_type": "kimi_k2",
            "hidden_size": 7168,
            "num_hidden_layers": 61,
            "num_attention_heads": 64,
            "num_key_value_heads": 64,
            "intermediate_size": 18432,
            "vocab_size": 163840,
            "moe_intermediate_size": 2048,
            "n_routed_experts": 384,
            "num_experts_per_tok": 8,
            "n_shared_experts": 1,
            "first_k_dense_replace": 1,
            "q_lora_rank": 1536,
            "kv_lora_rank": 512,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "v_head_dim": 128,
        },
    ),
}


@pytest.mark.parametrize("name", REMOTE)
def test_families_outside_transformers(name: str) -> None:
    parameters, changes = REMOTE[name]
    assert build(**changes).parameters == parameters


def test_every_family_is_counted_by_someone_else() -> None:
    covered = {case["config"]["model_type"] for case in COUNTED} | {c["model_type"] for _, c in REMOTE.values()}
    inside = {case["config"]["text_config"]["model_type"] for case in COUNTED if "text_config" in case["config"]}
    same_as_llama = {"aquila", "Yi", "baichuan", "ministral", "internlm", "internlm3", "deepseek"}
    same_as_falcon = {"RefinedWeb", "RefinedWebModel"}
    assert {*FAMILIES, *TOWERS} - covered - inside == same_as_llama | same_as_falcon


def test_internlm_has_biases_on_all_four_projections_unless_denied() -> None:
    biases = 32 * (4096 + 1024 + 1024 + 4096)
    plain = build(model_type="internlm", bias=False).parameters
    assert build(model_type="internlm").parameters - plain == biases
    assert build(model_type="internlm3").parameters == plain
    assert build(model_type="internlm3", qkv_bias=True).parameters - plain == biases - 32 * 4096


def test_baichuan_is_counted_as_llama() -> None:
    assert build(model_type="baichuan").parameters == build().parameters == 8_030_261_248


def test_old_falcon_files_name_their_dimensions_differently() -> None:
    old = {"model_type": "RefinedWeb", "hidden_size": 8192, "n_layer": 60, "n_head": 128, "n_head_kv": 8}
    model = from_config({**old, "vocab_size": 65024, "parallel_attn": True}, where="config.json")
    assert model.parameters == 41_303_293_952


def test_a_window_wider_than_the_longest_context_is_none() -> None:
    assert build(model_type="mistral", sliding_window=131072).sliding_layers == 0
    assert build(model_type="mistral", sliding_window=4096).sliding_layers == 32


def test_the_cache_of_sliding_layers_is_counted_apart() -> None:
    model = build(model_type="gemma2", sliding_window=4096, tie_word_embeddings=True)
    assert model.kv_bytes_per_token() == model.sliding_kv_bytes_per_token() == 16 * 2 * 8 * 256 * 2


def test_latent_attention_caches_one_vector() -> None:
    assert build(**REMOTE["kimi k2"][1]).kv_bytes_per_token() == 70_272


def test_linear_attention_keeps_a_constant_state() -> None:
    """Qwen3-Next: per layer 32 heads of 128 × 128 and a convolution of 4 over 8192 channels."""
    case = next(case for case in COUNTED if case["name"] == "qwen3_next")
    model = from_config(
        {**case["config"], "linear_num_value_heads": 32, "linear_value_head_dim": 128}
        | {"linear_num_key_heads": 16, "linear_key_head_dim": 128},
        where="config.json",
    )
    assert model.state_bytes_per_sequence() == model.linear_layers * 2 * (32 * 128 * 128 + 8192 * 4)
    assert model.full_layers == 2


def test_a_vision_model_may_hold_its_text_part_apart() -> None:
    flat = next(case for case in COUNTED if case["name"] == "qwen2_5_vl")
    text = {key: value for key, value in flat["config"].items() if key not in ("model_type", "vision_config")}
    config = {
        "model_type": "qwen2_5_vl",
        "text_config": {**text, "model_type": "qwen2_5_vl_text"},
        "vision_config": flat["config"]["vision_config"],
    }
    assert from_config(config, where="config.json").parameters == flat["parameters"]


def test_a_folder_is_read_through_its_config_json(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    assert read_config(folder) == read_config(folder / "config.json")
    assert read_config(folder).title == "my-model"


def test_an_unknown_family_is_refused_with_what_is_missing_and_the_way_out() -> None:
    with pytest.raises(InputError) as caught:
        from_config({"model_type": "lama", "hidden_size": 64, "num_hidden_layers": 2}, where="config.json")
    messages = [problem.message for problem in caught.value.problems]
    assert messages == [
        "config.json: model_type: 'lama' is not known",
        "config.json: num_attention_heads: missing",
        "config.json: intermediate_size: missing",
        "config.json: vocab_size: missing",
    ]
    assert caught.value.problems[0].hint == "did you mean 'llama'?; or give the size alone: --params 7B"


def test_a_file_without_family_is_refused() -> None:
    with pytest.raises(InputError, match="model_type: missing"):
        build(model_type=None)

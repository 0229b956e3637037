"""Quantised weights as config.json tells of them."""

from __future__ import annotations

from typing import Any

import pytest

from llmhw_provision.model import Quantisation
from llmhw_provision.model.config import from_config
from tests.unit.test_model_config import COUNTED, build


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True},
            Quantisation(method="gptq", bits=4, group_size=128, zero_points=True),
        ),
        (
            {"quant_method": "gptq", "bits": 8, "group_size": -1, "lm_head": True},
            Quantisation(method="gptq", bits=8, zero_points=True, head=True),
        ),
        (
            {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
            Quantisation(method="awq", bits=4, group_size=128, zero_points=True),
        ),
        (
            {"quant_method": "fp8", "weight_block_size": [128, 128]},
            Quantisation(method="fp8", bits=8, group_size=16384),
        ),
        (
            {
                "quant_method": "fbgemm_fp8",
                "modules_to_not_convert": [f"model.layers.{layer}.self_attn.q_proj" for layer in range(32)]
                + ["model.layers.0.mlp.down_proj", "lm_head"],
            },
            Quantisation(method="fp8", bits=8, groups=("linear_attention", "mlp", "experts", "shared_experts")),
        ),
        (
            {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]},
            Quantisation(
                method="mxfp4", bits=4, group_size=32, groups=("linear_attention", "mlp", "experts", "shared_experts")
            ),
        ),
        (
            {
                "quant_method": "bitsandbytes",
                "load_in_4bit": True,
                "bnb_4bit_quant_type": "nf4",
                "bnb_4bit_use_double_quant": True,
            },
            Quantisation(method="nf4", bits=4, group_size=64, double=True),
        ),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, Quantisation(method="int8", bits=8)),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
                "ignore": ["lm_head"],
            },
            Quantisation(method="fp8", bits=8),
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}},
                "ignore": [
                    "lm_head",
                    "re:.*self_attn.*",
                    "re:.*shared_experts.*",
                    "re:.*mlp\\.(gate|up|gate_up|down)_proj.*",
                ],
            },
            Quantisation(method="gptq", bits=4, group_size=32, groups=("linear_attention", "experts")),
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 128}}},
            },
            Quantisation(method="gptq", bits=4, group_size=128),
        ),
    ],
)
def test_quantised_weights(config: dict[str, Any], expected: Quantisation) -> None:
    assert build(quantization_config=config).quantisation == expected


def test_the_number_format_may_stand_in_the_text_part() -> None:
    case = next(case for case in COUNTED if case["name"] == "gemma3")["config"]
    inner = {**case["text_config"], "torch_dtype": "float16"}
    assert from_config({**case, "text_config": inner}, where="config.json").dtype == "fp16"

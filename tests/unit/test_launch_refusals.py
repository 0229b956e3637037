"""What cannot be started is refused with all reasons."""

from __future__ import annotations

from typing import Any

import pytest

from llmhw_provision.errors import InputError
from llmhw_provision.launch.build import launch_files
from tests.unit.launches import IMAGE, planned

_SFT = {"model": "llama-3.1-8b", "job": "sft"}
_SERVE = {"model": "llama-3.1-8b", "job": "serve", "serving": {"concurrency": 8, "context": 4096}}


@pytest.mark.parametrize(
    ("load", "words"),
    [
        ({**_SFT, "method": "qlora"}, "qlora needs bitsandbytes, which the locks of the environments do not hold"),
        (
            {**_SFT, "method": "lora", "launch": {"one_bit": True, "framework": "llamafactory"}},
            "launch.one_bit: deepspeed 0.19.8 has no 1-bit optimizers",
        ),
        ({**_SFT, "launch": {"framework": "vllm"}, "method": "lora"}, None),
        ({**_SFT, "method": "lora", "launch": {"framework": "trl"}}, "launch.framework trl does not do sft"),
        ({**_SFT, "method": "lora", "launch": {"zero_plus_plus": True}, "layout": {"zero": 1}}, "needs ZeRO 3"),
        ({**_SFT, "job": "ppo", "launch": {"framework": "llamafactory"}, "batch": 64}, "ppo needs launch.reward_model"),
        ({**_SFT, "job": "dpo", "layout": {"tp": 2}}, "llamafactory does not divide a model: the layout has tp 2"),
        ({**_SFT, "job": "pretrain", "layout": {"sharder": "megatron"}}, "megatron counts optimizer steps"),
        ({**_SFT, "method": "lora", "launch": {"model_path": "/home/me/model"}}, "lies neither below /srv/project"),
        ({**_SERVE, "launch": {"framework": "tgi"}}, "launch.image names none"),
        ({**_SERVE, "launch": {"framework": "triton", "image": IMAGE, "listen": "all"}}, "has no key of its own"),
        ({**_SERVE, "serving": {"concurrency": 8, "context": 4096, "kv": "int4"}}, "vllm: no cache in int4"),
    ],
)
def test_what_cannot_be_started_is_refused(load: dict[str, Any], words: str | None) -> None:
    plan, need, site = planned("alphapro660", 1, load)
    if words is None:  # a framework for serving says nothing about training
        assert "train.yaml" in {file.path for file in launch_files(plan, need, site)}
        return
    with pytest.raises(InputError) as caught:
        launch_files(plan, need, site)
    assert words in "\n".join(problem.message for problem in caught.value.problems)
    assert all(problem.hint for problem in caught.value.problems)


def test_a_path_with_dots_is_refused_where_it_is_read() -> None:
    with pytest.raises(InputError, match="model_path"):
        planned("alphapro660", 1, {**_SFT, "launch": {"model_path": "/srv/project/../../etc"}})


def test_roles_of_grpo_on_gpus_of_their_own_are_refused_each_and_together_they_start() -> None:
    launch = {"framework": "trl", "reward_model": "/srv/project/models/reward"}
    load = {"model": "qwen2.5-7b", "job": "grpo", "batch": 64, "launch": launch}
    with pytest.raises(InputError) as caught:
        launch_files(*planned("alphapro660", 1, {**load, "placement": "split"}))
    said = [problem.message for problem in caught.value.problems]
    assert [text.split(" on GPUs")[0] for text in said] == ["launch: actor, reference", "launch: rollout engine"]
    files = launch_files(*planned("alphapro660", 1, {**load, "placement": "colocated"}))
    assert "grpo.yaml" in {file.path for file in files}

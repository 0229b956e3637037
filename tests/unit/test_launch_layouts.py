"""Every layout that is planned can be started: jobs × models × machines, nothing pinned."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from llmhw_provision.errors import DoesNotFit, InputError
from llmhw_provision.launch.build import launch_files
from tests.unit.launches import planned

MACHINES = (("a330", 1), ("ga660m", 1), ("alphapro660", 1), ("alphapro660", 2))
# dense, small and large; experts; what Megatron-LM has no arguments for
MODELS = ("llama-3.1-8b", "qwen2.5-72b", "qwen3-30b-a3b", "gemma-3-27b")
JOBS = (
    *(("pretrain", "full"), ("sft", "full"), ("sft", "lora"), ("dpo", "full"), ("dpo", "lora")),
    *(("ppo", "full"), ("ppo", "lora"), ("grpo", "full"), ("serve", "full")),
)
_LAUNCH = {"steps": 1000, "template": "default", "reward_model": "/srv/project/models/reward"}


def load(job: str, method: str, model: str, **changes: Any) -> dict[str, Any]:
    found = {"model": model, "job": job, "sequence": 4096, "batch": 64, "launch": _LAUNCH}
    served = {"serving": {"concurrency": 16, "context": 8192}} if job == "serve" else {}
    return {**found, "method": method, **served, **changes}


@pytest.mark.parametrize(("job", "method"), JOBS)
def test_every_planned_layout_starts(job: str, method: str) -> None:
    refused = {}
    for model, (machine, hosts) in product(MODELS, MACHINES):
        try:
            plan, asked, site = planned(machine, hosts, load(job, method, model))
        except DoesNotFit:
            continue
        try:
            assert launch_files(plan, asked, site)
        except InputError as error:
            refused[model, machine, hosts] = [problem.message for problem in error.problems]
    assert refused == {}

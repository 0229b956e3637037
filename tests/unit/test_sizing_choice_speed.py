"""The layout that is chosen without timing any is among the fastest of those that fit."""

from __future__ import annotations

import pytest

from llmhw_provision.catalogue.loader import Gpu, find
from llmhw_provision.sizing.cards import card_of
from llmhw_provision.sizing.choose import best, layouts
from llmhw_provision.sizing.estimate import Hardware, estimate
from llmhw_provision.sizing.job import Job
from llmhw_provision.sizing.speed import speed
from llmhw_provision.workload import Parallel
from tests.unit.sizing_setups import model


@pytest.mark.parametrize(
    ("name", "job", "gpu", "gpus", "nodes", "batch"),
    [
        ("llama-3.1-8b", Job(sequence=8192), "h100-sxm", 8, 1, 64),
        ("llama-3.1-70b", Job(sequence=8192), "h100-sxm", 8, 4, 128),
        ("llama-3.1-70b", Job(sequence=4096, method="lora"), "h100-pcie", 4, 1, 16),
        ("llama-3.1-8b", Job(sequence=4096), "a100-sxm-80", 8, 1, 64),
        ("qwen2.5-7b", Job(sequence=2048), "rtx-4090", 8, 1, 64),
    ],
)
def test_no_layout_that_fits_is_much_faster(name: str, job: Job, gpu: str, gpus: int, nodes: int, batch: int) -> None:
    hardware = Hardware(card_of(find("gpus", gpu, Gpu), gpu), gpus, nodes)
    chosen = speed(best(job, model(name), hardware, Parallel(), batch))
    assert chosen is not None
    tried = [
        estimate(job, model(name), hardware, item) for item in layouts(job, model(name), hardware, Parallel(), batch)
    ]
    speeds = [speed(item) for item in tried if item.verdict == "fits"]
    assert len(speeds) > 1
    fastest = max(item.tokens_per_second for item in speeds if item is not None)
    assert chosen.tokens_per_second >= 0.9 * fastest

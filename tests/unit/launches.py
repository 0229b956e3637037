"""Plans with launch files for tests: a workload on machines of the catalogue."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from llmhw_provision.documents import check
from llmhw_provision.launch.build import launch_files
from llmhw_provision.launch.files import LaunchFile
from llmhw_provision.launch.setup import Setup
from llmhw_provision.plan.build import build_plan
from llmhw_provision.plan.model import Plan
from llmhw_provision.site import Site
from llmhw_provision.sizing.models import resolve_model
from llmhw_provision.sizing.need import Need
from llmhw_provision.sizing.need import need as need_of
from llmhw_provision.workload import Workload

IMAGE = f"registry.example/server@sha256:{'0123456789abcdef' * 4}"
_SERVED = {"job": "serve", "model": "llama-3.1-70b", "serving": {"concurrency": 64, "context": 8192}}
_CONTAINER = {"image": IMAGE}

# name → machine, number of hosts, workload
CASES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "lora-8b-a330": ("a330", 1, {"model": "llama-3.1-8b", "job": "sft", "method": "lora", "sequence": 2048}),
    "lora-70b-ga660m": (
        "ga660m",
        1,
        {"model": "llama-3.1-70b", "job": "sft", "method": "lora", "sequence": 4096, "batch": 16},
    ),
    "sft-8b-ga660m": (
        "ga660m",
        1,
        {
            "model": "llama-3.1-8b",
            "job": "sft",
            "sequence": 4096,
            "batch": 32,
            "launch": {"framework": "llamafactory"},
        },
    ),
    "dpo-8b-deepspeed": (
        "alphapro660",
        1,
        {
            "model": "qwen2.5-7b",
            "job": "dpo",
            "sequence": 2048,
            "batch": 64,
            "layout": {"zero": 3, "sharder": "deepspeed"},
            "launch": {"framework": "llamafactory", "zero_plus_plus": True},
        },
    ),
    "full-70b-alphapro660": (
        "alphapro660",
        1,
        {
            "model": "llama-3.1-70b",
            "job": "sft",
            "sequence": 4096,
            "batch": 64,
            "layout": {"zero": 3, "offload": "all", "nvme": True, "sharder": "deepspeed", "tp": 1, "pp": 1, "cp": 1},
            "checkpoints": {"keep": 1},
        },
    ),
    "pretrain-405b-128-hosts": (
        "alphapro660",
        128,
        {
            "model": "llama-3.1-405b",
            "job": "pretrain",
            "sequence": 8192,
            "batch": 2048,
            "layout": {"tp": 8, "pp": 16, "cp": 1, "zero": 1, "micro_batch": 1},
            "launch": {"steps": 100_000},
            "checkpoints": {"keep": 3},
        },
    ),
    "pretrain-moe-megatron": (
        "alphapro660",
        2,
        {
            "model": "qwen3-30b-a3b",
            "job": "pretrain",
            "sequence": 4096,
            "batch": 256,
            "layout": {"ep": 8, "tp": 1},
            "launch": {"framework": "megatron", "steps": 50_000},
        },
    ),
    "pretrain-moe-deepspeed": (
        "alphapro660",
        4,
        {
            "model": "mixtral-8x7b",
            "job": "pretrain",
            "sequence": 4096,
            "batch": 256,
            "layout": {"sharder": "deepspeed", "zero": 2, "ep": 8, "tp": 1, "pp": 1, "cp": 1},
            "launch": {"framework": "accelerate"},
        },
    ),
    "pretrain-1b-fsdp-compile": (
        "ga660m",
        1,
        {
            "model": "llama-3.2-1b",
            "job": "pretrain",
            "batch": 64,
            "layout": {"sharder": "fsdp", "zero": 2, "tp": 1, "pp": 1, "cp": 1},
            "training": {"compile": True},
        },
    ),
    "grpo-7b": (
        "alphapro660",
        1,
        {
            "model": "qwen2.5-7b",
            "job": "grpo",
            "sequence": 2048,
            "batch": 64,
            "launch": {"framework": "trl", "reward_model": "/srv/project/models/reward"},
        },
    ),
    "serve-70b-vllm": ("alphapro660", 1, _SERVED),
    "serve-70b-tgi-open": (
        "alphapro660",
        1,
        {**_SERVED, "launch": {**_CONTAINER, "framework": "tgi", "listen": "all"}},
    ),
    "serve-70b-tensorrt-llm": ("alphapro660", 1, {**_SERVED, "launch": {**_CONTAINER, "framework": "tensorrt-llm"}}),
    "serve-70b-triton": ("alphapro660", 1, {**_SERVED, "launch": {**_CONTAINER, "framework": "triton"}}),
}


def site(machine: str, hosts: int, **software: Any) -> Site:
    """A site of equal machines of the catalogue, with Slurm where there are several."""
    data = {
        "schema": 1,
        "site": "customer-a",
        "hosts": [
            {
                "name": f"node-{number:03}",
                "address": f"192.0.{2 + number // 250}.{number % 250 + 1}",
                "machine": machine,
                **({"roles": ["controller", "compute"]} if hosts > 1 and not number else {}),
            }
            for number in range(hosts)
        ],
        "software": {"distro": "ubuntu2404", "slurm": hosts > 1, **software},
    }
    return check(data, Site, path=Path("site.yaml"))


def need(load: dict[str, Any]) -> Need:
    """The need of a workload."""
    workload = check({"schema": 1, **load}, Workload, path=Path("workload.yaml"))
    return need_of(workload, resolve_model(workload.model))


def planned(machine: str, hosts: int, load: dict[str, Any], **software: Any) -> tuple[Plan, Need, Site]:
    """Plan, need and site; `software` is what site.yaml says there."""
    found, place = need(load), site(machine, hosts, **software)
    return build_plan(found, place, {}), found, place


@cache
def case(name: str) -> tuple[Setup, dict[str, LaunchFile]]:
    """The only group of a case, and its files by path."""
    plan, found, place = planned(*CASES[name])
    return Setup(plan, found, place, plan.work[0]), {file.path: file for file in launch_files(plan, found, place)}

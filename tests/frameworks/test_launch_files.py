"""DeepSpeed, Accelerate, LLaMA-Factory, Megatron-core, TRL and vLLM read the launch files as they do at a start.

Every change is read by each framework once (`make frameworks`, marker ci); `make proof-frameworks` reads everything.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.frameworks.__main__ import FOLDER, ready
from tests.unit.launches import CASES, case

pytestmark = pytest.mark.proof
READER = Path(__file__).with_name("read.py")
SECONDS = 900  # importing torch and vllm takes minutes where two cores are shared


def read(kind: str, name: str, tmp_path: Path, changed: dict[str, str] | None = None) -> dict[str, Any]:
    """What the framework saw in the files of a case; raises AssertionError with its last words when it refused."""
    environment = FOLDER / ("serve" if kind in ("vllm", "triton") else "train-lf")
    if not ready(environment.name):
        pytest.fail(f"{environment} is not there, or of other locks: make it with python -m tests.frameworks")
    setup, files = case(name)
    for path, file in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text((changed or {}).get(path, file.text), encoding="utf-8")
    more = {"megatron": "megatron-core", "trl": "trl"}.get(kind)
    variables = {**os.environ, "DS_ACCELERATOR": "cpu", "PYTHONPATH": str(environment / more) if more else ""}
    command = [environment / "bin/python", READER, kind, tmp_path, str(setup.layout.gpus)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=SECONDS, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("READ ")]
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-500:]
    found: dict[str, Any] = json.loads(lines[-1].removeprefix("READ "))
    return found


def having(file: str, *, ci: str) -> list[Any]:
    """Cases with that file, by name of the case: no plan is made while tests are collected; `ci` for every change."""
    root = Path(__file__).resolve().parents[1] / "golden/launch"
    names = [name for name in CASES if (root / name / file).exists()]
    return [pytest.param(name, marks=pytest.mark.ci if name == ci else ()) for name in names]


@pytest.mark.parametrize("name", having("deepspeed.json", ci="full-70b-alphapro660"))
def test_deepspeed_reads_its_configuration(name: str, tmp_path: Path) -> None:
    found, (setup, _) = read("deepspeed", name, tmp_path), case(name)
    of = setup.layout
    assert (found["batch"], found["micro"]) == (setup.need.workload.batch, of.micro_batch)
    assert (found["accumulation"], found["stage"], found["experts"]) == (of.micro_batches, of.zero, of.ep)
    assert found["quantised"] == [setup.launch.zero_plus_plus] * 2
    place = f"/scratch/offload/{setup.run}"
    assert found["optimizer"] == ((["nvme", place] if of.nvme else ["cpu", "None"]) if of.offload_optimizer else None)


def test_deepspeed_refuses_batches_that_do_not_multiply(tmp_path: Path) -> None:
    text = case("dpo-8b-deepspeed")[1]["deepspeed.json"].text.replace(
        '"train_batch_size": 64', '"train_batch_size": 63'
    )
    with pytest.raises(AssertionError, match="Check batch related parameters"):
        read("deepspeed", "dpo-8b-deepspeed", tmp_path, {"deepspeed.json": text})


@pytest.mark.parametrize("name", having("accelerate.yaml", ci="pretrain-moe-deepspeed"))
def test_accelerate_reads_its_configuration(name: str, tmp_path: Path) -> None:
    found, (setup, files) = read("accelerate", name, tmp_path), case(name)
    of = setup.layout
    assert (found["num_processes"], found["num_machines"]) == (str(of.gpus), str(of.nodes))
    assert found["use_deepspeed"] == str("deepspeed.json" in files)
    if found["use_fsdp"] == "True":
        assert (found["fsdp_version"], found["fsdp_reshard_after_forward"]) == ("2", str(of.zero == 3))
        assert found["fsdp_state_dict_type"] == "SHARDED_STATE_DICT"
    assert found["dynamo_backend"] == ("INDUCTOR" if setup.job.compile else "no")


@pytest.mark.parametrize("name", having("train.yaml", ci="dpo-8b-deepspeed"))
def test_llamafactory_reads_its_training(name: str, tmp_path: Path) -> None:
    found, (setup, _) = read("llamafactory", name, tmp_path), case(name)
    load, of = setup.need.workload, setup.layout
    assert (found["stage"], found["tuning"]) == (load.job, load.method)
    assert (found["micro"], found["accumulation"]) == (of.micro_batch, of.micro_batches)
    assert (found["recompute"], found["workers"]) == (of.recompute != "none", setup.workers.value)
    assert (found["file"], found["ranking"]) == ("/srv/project/data/train.jsonl", load.job == "dpo")


@pytest.mark.parametrize("name", having("megatron.args", ci="pretrain-moe-megatron"))
def test_megatron_accepts_its_arguments(name: str, tmp_path: Path) -> None:
    found, (setup, _) = read("megatron", name, tmp_path), case(name)
    of = setup.layout
    ways = ("tensor_model", "pipeline_model", "context", "expert_model")
    assert [found[f"{way}_parallel_size"] for way in ways] == [str(way) for way in (of.tp, of.pp, of.cp, of.ep)]
    assert found["global_batch_size"] == str(setup.need.workload.batch)
    assert found["num_layers"] == str(setup.need.model.layers)


def test_megatron_refuses_stages_that_do_not_divide_the_layers(tmp_path: Path) -> None:
    text = case("pretrain-405b-128-hosts")[1]["megatron.args"].text
    text = text.replace("--account-for-loss-in-pipeline-split\n", "")
    with pytest.raises(AssertionError, match="divisible by"):
        read("megatron", "pretrain-405b-128-hosts", tmp_path, {"megatron.args": text})


@pytest.mark.parametrize("name", having("grpo.yaml", ci="grpo-7b"))
def test_trl_reads_its_configuration(name: str, tmp_path: Path) -> None:
    found, (setup, _) = read("trl", name, tmp_path), case(name)
    assert (found["micro"], found["accumulation"]) == (setup.layout.micro_batch, setup.layout.micro_batches)
    assert found["reward"] == setup.launch.reward_model


@pytest.mark.ci
@pytest.mark.parametrize(("kind", "name"), [("vllm", "serve-70b-vllm"), ("triton", "serve-70b-triton")])
def test_vllm_reads_its_arguments(kind: str, name: str, tmp_path: Path) -> None:
    found, (setup, _) = read(kind, name, tmp_path), case(name)
    assert (found["tensor_parallel_size"], found["max_num_seqs"]) == (setup.layout.tp, 64)
    assert (found["max_model_len"], found["gpu_memory_utilization"]) == (8192, 0.9)
    if kind == "vllm":
        assert (found["host"], found["port"], found["logs"]) == ("127.0.0.1", 8000, False)

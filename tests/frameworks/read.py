"""Run by the Python of a framework's environment: reads one of our files as the framework does, prints what it saw.

`python read.py KIND FOLDER WORLD`. Nothing of llmhw_provision is imported here.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import types
import typing
from pathlib import Path
from typing import Any


class Ranks:
    """Stands for the process group of a job that is not running."""

    def __init__(self, world: int) -> None:
        self.world = world

    def get_data_parallel_world_size(self) -> int:
        return self.world


def deepspeed(folder: Path, world: int) -> dict[str, Any]:
    from deepspeed import comm
    from deepspeed.runtime.config import DeepSpeedConfig

    comm.get_rank = lambda: 0
    config = DeepSpeedConfig(str(folder / "deepspeed.json"), mpu=Ranks(world))
    zero = config.zero_config
    return {
        "batch": config.train_batch_size,
        "micro": config.train_micro_batch_size_per_gpu,
        "accumulation": config.gradient_accumulation_steps,
        "stage": int(zero.stage),
        "bf16": config.bfloat16_config.enabled,
        "optimizer": _device(zero.offload_optimizer),
        "params": _device(zero.offload_param),
        "quantised": [zero.zero_quantized_weights, zero.zero_quantized_gradients],
        "experts": config.expert_parallel_config.autoep_size,
        "preset": config.expert_parallel_config.preset_model,
        "aio": config.aio_config,
    }


def _device(offload: Any) -> list[str] | None:
    return [str(getattr(offload.device, "value", offload.device)), str(offload.nvme_path)] if offload else None


def accelerate(folder: Path, _: int) -> dict[str, Any]:
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser

    arguments = launch_command_parser().parse_args(["--config_file", str(folder / "accelerate.yaml"), "train.py"])
    found, _, _ = _validate_launch_command(arguments)
    kept = ("num_", "use_", "fsdp_", "dynamo_", "mixed_", "main_process", "deepspeed_config_file")
    return {name: str(value) for name, value in vars(found).items() if name.startswith(kept)}


def llamafactory(folder: Path, _: int) -> dict[str, Any]:
    import yaml

    for name, value in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1")):
        os.environ[name] = value
    os.environ.setdefault("MASTER_PORT", "29517")
    from llamafactory.data.parser import get_dataset_list
    from llamafactory.hparams import get_train_args

    config = yaml.safe_load((folder / "train.yaml").read_text())
    config["dataset_dir"] = str(folder)
    if "deepspeed" in config:
        config["deepspeed"] = str(folder / "deepspeed.json")
    if "reward_model" not in config:
        config["output_dir"] = str(folder / "out")
    config |= {"use_cpu": True, "ddp_backend": "gloo"}  # what only this machine without a GPU needs
    model, data, training, tuning, _ = get_train_args(config)
    (dataset,) = get_dataset_list(data.dataset, data.dataset_dir)
    return {
        "stage": tuning.stage,
        "tuning": tuning.finetuning_type,
        "template": data.template,
        "cutoff": data.cutoff_len,
        "micro": training.per_device_train_batch_size,
        "accumulation": training.gradient_accumulation_steps,
        "workers": training.dataloader_num_workers,
        "pinned": training.dataloader_pin_memory,
        "warmup": training.warmup_steps,
        "recompute": not model.disable_gradient_checkpointing,
        "file": dataset.dataset_name,
        "format": dataset.formatting,
        "ranking": dataset.ranking,
    }


def megatron(folder: Path, world: int) -> dict[str, Any]:
    typing.override = lambda function: function  # type: ignore[assignment] # CPython 3.12 has it; this one may be 3.11
    os.environ |= {"WORLD_SIZE": str(world), "RANK": "0", "CUDA_DEVICE_MAX_CONNECTIONS": "1"}
    import torch

    hopper = types.SimpleNamespace(major=9, minor=0, name="H100")  # this machine has no GPU to ask
    torch.cuda.get_device_properties = lambda *_: hopper
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    from megatron.training.arguments import add_megatron_arguments, validate_args

    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_megatron_arguments(parser)
    lines = (folder / "megatron.args").read_text().splitlines()
    words = [word for line in lines if not line.startswith("#") for word in shlex.split(line)]
    found = parser.parse_args(words)
    found.rank, found.world_size = 0, world
    found._is_global_batch_size_explicitly_specified = True
    validate_args(found)
    found = vars(found)
    kept = (
        "_parallel_size",
        "batch_size",
        "num_",
        "hidden_size",
        "seq_length",
        "moe_",
        "recompute_",
        "bf16",
        "save",
        "sft",
    )
    return {name: str(value) for name, value in found.items() if any(part in name for part in kept)}


def vllm(folder: Path, _: int) -> dict[str, Any]:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = make_arg_parser(FlexibleArgumentParser())
    found = parser.parse_args(["serve", "--config", str(folder / "vllm.yaml")])
    engine = AsyncEngineArgs.from_cli_args(found)
    return {"host": found.host, "port": found.port, "logs": found.enable_log_requests, **_engine(engine)}


def triton(folder: Path, _: int) -> dict[str, Any]:
    from vllm.engine.arg_utils import AsyncEngineArgs

    (path,) = folder.rglob("model.json")
    return _engine(AsyncEngineArgs(**json.loads(path.read_text())))


def _engine(engine: Any) -> dict[str, Any]:
    names = ("model", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "max_model_len")
    names += ("max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization", "kv_cache_dtype", "dtype")
    return {name: getattr(engine, name) for name in names}


def trl(folder: Path, _: int) -> dict[str, Any]:
    from trl import GRPOConfig, ModelConfig, TrlParser
    from trl.scripts.grpo import GRPOScriptArguments
    from trl.scripts.utils import DatasetMixtureConfig

    parser = TrlParser((GRPOScriptArguments, GRPOConfig, ModelConfig, DatasetMixtureConfig))
    arguments = ["--config", str(folder / "grpo.yaml"), "--use_cpu", "True"]
    script, training, model, _ = parser.parse_args_and_config(arguments)
    return {
        "reward": script.reward_model_name_or_path,
        "micro": training.per_device_train_batch_size,
        "accumulation": training.gradient_accumulation_steps,
        "answers": training.num_generations,
        "model": model.model_name_or_path,
    }


if __name__ == "__main__":
    kind, place, count = sys.argv[1:]
    print("READ " + json.dumps(globals()[kind](Path(place), int(count)), default=str))

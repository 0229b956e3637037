"""TRL: the configuration of `trl grpo`."""

from __future__ import annotations

from llmhw_provision.launch.files import LaunchFile, Setting, Value, as_yaml, header
from llmhw_provision.launch.llamafactory import recomputes
from llmhw_provision.launch.setup import Setup

PATH = "grpo.yaml"
_GRPO = "trl 1.16.0, trainer/grpo_config.py"
_SCRIPT = "trl 1.16.0, scripts/grpo.py"
_MODEL = "trl 1.16.0, trainer/model_config.py"


def grpo(setup: Setup) -> LaunchFile:
    """grpo.yaml."""
    of, load = setup.layout, setup.need.workload
    rule = f"{of.micro_batch} × {of.micro_batches} × {of.dp} ranks answers per step"
    found = [
        _of(_MODEL, "model_name_or_path", setup.model_path, "launch.model_path, or the project's folder of models"),
        _of(_MODEL, "dtype", "bfloat16", f"precision {setup.job.scheme}"),
        _of(_MODEL, "use_peft", load.method != "full", f"method {load.method}"),
        _of(_SCRIPT, "dataset_name", setup.data, "the project's data folder, files of prompts"),
        _of(_SCRIPT, "reward_model_name_or_path", setup.launch.reward_model, "launch.reward_model"),
        _of(_GRPO, "num_generations", setup.job.rollouts, "answers per prompt, as sized"),
        _of(_GRPO, "max_completion_length", load.sequence // 2, "half of the sequence; the prompt has the other half"),
        _of(
            _GRPO, "use_vllm", False, "vllm is not in the lock: transformers writes the answers, slower than predicted"
        ),
        _of(_GRPO, "per_device_train_batch_size", of.micro_batch, rule),
        _of(_GRPO, "gradient_accumulation_steps", of.micro_batches, rule),
        _of(_GRPO, "gradient_checkpointing", of.recompute != "none", recomputes(setup)),
        _of(_GRPO, "learning_rate", setup.rate.value, setup.rate.rule),
        _of(_GRPO, "bf16", True, f"precision {setup.job.scheme}"),
        _of(_GRPO, "max_steps", setup.launch.steps or -1, "launch.steps; -1: one pass"),
        _of(_GRPO, "num_train_epochs", 1.0, "one pass over the prompts"),
        _of(_GRPO, "output_dir", setup.output, "scratch; a copy goes to the project while training goes on"),
        _of(_GRPO, "save_steps", setup.save_every.value, setup.save_every.rule),
        _of(_GRPO, "save_total_limit", load.checkpoints.keep, "checkpoints.keep, for which scratch was sized"),
        _of(_GRPO, "save_on_each_node", setup.nodes > 1, "scratch is local to each host"),
        _of(_GRPO, "report_to", "tensorboard", "in the lock; nothing leaves the host"),
        _of(_GRPO, "dataloader_num_workers", setup.workers.value, setup.workers.rule),
        _of(_GRPO, "dataloader_pin_memory", True, setup.pinned.rule),
    ]
    if load.method != "full":
        found += [
            _of(_MODEL, "lora_r", setup.job.rank, "training.rank"),
            _of(_MODEL, "lora_alpha", 2 * setup.job.rank, "twice the rank"),
            _of(_MODEL, "lora_target_modules", setup.job.adapted or ("all-linear",), "training.targets"),
        ]
    return LaunchFile(PATH, as_yaml(found, header(setup.plan.identity, "TRL")), tuple(found))


def _of(source: str, name: str, value: Value, rule: str) -> Setting:
    return Setting(name, value, rule, source)

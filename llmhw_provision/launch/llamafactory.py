"""LLaMA-Factory: the YAML of one training and its dataset_info.json."""

from __future__ import annotations

from llmhw_provision.errors import InputError
from llmhw_provision.launch import deepspeed
from llmhw_provision.launch.accelerate import sharding
from llmhw_provision.launch.files import LaunchFile, Setting, Value, as_json, as_yaml, header
from llmhw_provision.launch.setup import Setup

PATH = "train.yaml"
DATASET = "dataset_info.json"
_MODEL = "llamafactory 0.9.5, hparams/model_args.py"
_DATA = "llamafactory 0.9.5, hparams/data_args.py"
_TUNING = "llamafactory 0.9.5, hparams/finetuning_args.py"
_TRAINER = "transformers 5.6.0, training_args.py"
_STAGES = {"pretrain": "pt", "sft": "sft", "dpo": "dpo", "ppo": "ppo"}
_OPTIMIZERS = {"adamw": "adamw_torch_fused", "adafactor": "adafactor", "sgd": "sgd"}
# start of the name in the catalogue → template of llamafactory 0.9.5, data/template.py; longest first
_TEMPLATES = {
    "llama-4": "llama4",
    "llama-3": "llama3",
    "llama-2": "llama2",
    "mixtral": "mistral",
    "mistral-small": "mistral_small",
    "mistral": "mistral",
    "qwen3": "qwen3",
    "qwen2.5-vl": "qwen2_vl",
    "qwen2-vl": "qwen2_vl",
    "qwen": "qwen",
    "gemma-3": "gemma3",
    "gemma-2-": "gemma2",
    "gemma": "gemma",
    "phi-4-mini": "phi4_mini",
    "phi-4": "phi4",
    "phi-3": "phi",
    "yi-": "yi",
    "deepseek-v3": "deepseek3",
    "deepseek": "deepseek",
    "gpt-oss": "gpt_oss",
}


def llamafactory(setup: Setup) -> tuple[LaunchFile, ...]:
    """train.yaml and dataset_info.json; raises InputError when no chat template is known."""
    found = [*_model(setup), *_tuning(setup), *_data(setup), *_batches(setup), *_saving(setup), *_loading(setup)]
    text = as_yaml(found, header(setup.plan.identity, "LLaMA-Factory"))
    return (LaunchFile(PATH, text, tuple(found)), _dataset_info(setup))


def _of(source: str, name: str, value: Value, rule: str) -> Setting:
    return Setting(name, value, rule, source)


def _model(setup: Setup) -> list[Setting]:
    attention = "sdpa" if setup.job.flash else "disabled"
    return [
        _of(_MODEL, "model_name_or_path", setup.model_path, "launch.model_path, or the project's folder of models"),
        _of(_MODEL, "trust_remote_code", False, "no code out of a model's folder"),
        _of(_MODEL, "flash_attn", attention, "PyTorch's fused attention; flash-attn is not in the lock"),
        _of(_MODEL, "enable_liger_kernel", False, "liger-kernel is not in the lock"),
        _of(_MODEL, "disable_gradient_checkpointing", setup.layout.recompute == "none", recomputes(setup)),
    ]


def recomputes(setup: Setup) -> str:
    """What becomes of the layout's recomputation: transformers recomputes whole blocks or nothing."""
    asked = setup.layout.recompute
    if asked in ("none", "full"):
        return f"recompute {asked}"
    return f"recompute {asked} has no switch in transformers: full is less memory and more time than planned"


def _tuning(setup: Setup) -> list[Setting]:
    load = setup.need.workload
    found = [
        _of(_TUNING, "stage", _STAGES[load.job], f"job {load.job}"),
        _of(_TRAINER, "do_train", True, "training"),
        _of(_TUNING, "finetuning_type", "full" if load.method == "full" else "lora", f"method {load.method}"),
    ]
    if load.method != "full":
        targets = ",".join(setup.job.adapted) or "all"
        found += [
            _of(_TUNING, "lora_rank", setup.job.rank, "training.rank"),
            _of(_TUNING, "lora_alpha", 2 * setup.job.rank, "twice the rank, LLaMA-Factory's default"),
            _of(_TUNING, "lora_target", targets, f"training.targets {load.training.targets}"),
        ]
    if load.job == "dpo":
        found.append(_of(_TUNING, "pref_beta", 0.1, "DPO, arXiv 2305.18290, section 6"))
    if load.job == "ppo":
        found.append(_of(_TUNING, "reward_model", setup.launch.reward_model, "launch.reward_model"))
        found.append(_of(_TUNING, "reward_model_type", "full", "a model of its own, as sized"))
    if setup.job.scheme == "pure":
        found.append(_of(_TUNING, "pure_bf16", True, "precision pure: no fp32 copy of the weights"))
    return found


def _template(setup: Setup) -> str:
    if setup.launch.template:
        return setup.launch.template
    found = next((value for start, value in _TEMPLATES.items() if setup.name.startswith(start)), None)
    if found is None:
        raise InputError(
            f"launch: no chat template is known for {setup.name}",
            "write launch.template, a name of LLaMA-Factory's data/template.py, for example llama3 or default",
        )
    return found


def _data(setup: Setup) -> list[Setting]:
    load = setup.need.workload
    found = [
        _of(_DATA, "dataset", "planned", f"the entry in {DATASET}"),
        _of(_DATA, "dataset_dir", f"{setup.kept}/launch", f"folder of {DATASET}"),
        _of(_DATA, "cutoff_len", load.sequence, "tokens per sample of the workload"),
        _of(_DATA, "preprocessing_num_workers", max(1, setup.work.cores // 2), "half of the cores, before training"),
        _of(_DATA, "data_shared_file_system", setup.nodes > 1, "the project's folder is the same on all hosts"),
    ]
    if load.job != "pretrain":
        found.insert(0, _of(_DATA, "template", _template(setup), "launch.template, or by the model's name"))
    if load.job == "sft":
        found.append(_of(_DATA, "packing", True, "samples fill the sequence: the speed that was predicted"))
    return found


def _batches(setup: Setup) -> list[Setting]:
    of, kind = setup.layout, sharding(setup)
    rule = f"batch {setup.global_batch} = {of.micro_batch} × {of.micro_batches} × {of.dp} ranks"
    found = [
        _of(_TRAINER, "per_device_train_batch_size", of.micro_batch, rule),
        _of(_TRAINER, "gradient_accumulation_steps", of.micro_batches, rule),
        _of(_TRAINER, "learning_rate", setup.rate.value, setup.rate.rule),
        _of(_TRAINER, "lr_scheduler_type", "cosine", "LLaMA-Factory's examples"),
        _of(_TRAINER, "warmup_steps", 0.1, "a tenth of the steps, LLaMA-Factory's examples"),
        _of(_TRAINER, "optim", _OPTIMIZERS[setup.job.optimizer], f"optimizer {setup.job.optimizer}"),
        _of(_TRAINER, "bf16", setup.job.scheme != "fp32", f"precision {setup.job.scheme}"),
        _of(_TRAINER, "torch_compile", setup.job.compile, "training.compile"),
        _of(_TRAINER, "ddp_timeout", 7200, "seconds: one host may prepare data or load weights longer than others"),
    ]
    if setup.launch.steps:
        found.append(_of(_TRAINER, "max_steps", setup.launch.steps, "launch.steps"))
    else:
        found.append(
            _of(_TRAINER, "num_train_epochs", 1.0, "one pass over the data; give launch.steps for another end")
        )
    if kind == "deepspeed":
        path = f"{setup.kept}/launch/{deepspeed.PATH}"
        found.append(_of(_TRAINER, "deepspeed", path, "ZeRO and offload of the layout"))
    return found


def _saving(setup: Setup) -> list[Setting]:
    keep = setup.need.workload.checkpoints.keep
    return [
        _of(_TRAINER, "output_dir", setup.output, "scratch; a copy goes to the project while training goes on"),
        _of(_TRAINER, "save_strategy", "steps", "by steps"),
        _of(_TRAINER, "save_steps", setup.save_every.value, setup.save_every.rule),
        _of(_TRAINER, "save_total_limit", keep, "checkpoints.keep, for which scratch was sized"),
        _of(_TRAINER, "save_on_each_node", setup.nodes > 1, "scratch is local to each host"),
        _of(_TRAINER, "logging_steps", 10, "LLaMA-Factory's examples"),
        _of(_TRAINER, "report_to", "tensorboard", "in the lock; nothing leaves the host"),
    ]


def _loading(setup: Setup) -> list[Setting]:
    return [
        _of(_TRAINER, "dataloader_num_workers", setup.workers.value, setup.workers.rule),
        _of(_TRAINER, "dataloader_pin_memory", setup.pinned.value, setup.pinned.rule),
    ]


def _dataset_info(setup: Setup) -> LaunchFile:
    load, source = setup.need.workload, "llamafactory 0.9.5, data/parser.py"
    file = f"{setup.data}/{setup.launch.data or 'train.jsonl'}"
    found = [
        Setting("planned.file_name", file, "launch.data in the project's data folder", source),
        Setting("planned.formatting", setup.launch.data_format, "launch.data_format", source),
    ]
    if load.job == "dpo":
        found.append(Setting("planned.ranking", True, "pairs of a chosen and a rejected answer", source))
    if load.job == "dpo" or load.job == "pretrain":
        columns = {"chosen": "chosen", "rejected": "rejected"} if load.job == "dpo" else {"prompt": "text"}
        found += [Setting(f"planned.columns.{name}", column, "column", source) for name, column in columns.items()]
    if load.job != "pretrain" and setup.launch.data_format == "openai":
        found.append(Setting("planned.columns.messages", "messages", "column of the messages", source))
        tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}
        found += [Setting(f"planned.tags.{name}", tag, "names in a message", source) for name, tag in tags.items()]
    return LaunchFile(DATASET, as_json(found), tuple(found))

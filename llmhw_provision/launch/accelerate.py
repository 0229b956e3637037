"""Accelerate's configuration: processes, precision, FSDP or DeepSpeed, torch.compile."""

from __future__ import annotations

from llmhw_provision.launch import deepspeed
from llmhw_provision.launch.files import LaunchFile, Setting, as_yaml, header
from llmhw_provision.launch.setup import MASTER_PORT, Setup

PATH = "accelerate.yaml"
_CONFIG = "accelerate 1.11 and 1.15, commands/config/config_args.py"
_FSDP = "accelerate 1.11 and 1.15, FullyShardedDataParallelPlugin; PyTorch FSDP2"
_PRECISION = {"mixed": "bf16", "mixed-fp32-grads": "bf16", "pure": "no", "fp32": "no", "fp8": "fp8"}


def sharding(setup: Setup) -> str:
    """`deepspeed`, `fsdp`, `ddp` or `none`: offloaded states are DeepSpeed's, for that is what was sized."""
    of = setup.layout
    if of.sharder == "deepspeed" or of.offload_optimizer or of.offload_params or of.ep > 1:
        return "deepspeed"
    if setup.launch.zero_plus_plus:
        return "deepspeed"
    if of.sharder == "fsdp":
        return "fsdp"
    return "ddp" if of.gpus > 1 else "none"


def accelerate(setup: Setup, *, recompute: bool) -> LaunchFile:
    """accelerate.yaml; with `recompute` FSDP recomputes activations, else the trainer does."""
    of, kind = setup.layout, sharding(setup)
    types = {"deepspeed": "DEEPSPEED", "fsdp": "FSDP", "ddp": "MULTI_GPU", "none": "NO"}
    rule = f"{of.gpus // of.nodes} GPUs × {of.nodes} hosts, one process per GPU"
    found = [
        Setting("compute_environment", "LOCAL_MACHINE", "the hosts of the site", _CONFIG),
        Setting("distributed_type", types[kind], f"the layout has {of.sharder}, ZeRO {of.zero}", _CONFIG),
        Setting("num_processes", of.gpus, rule, _CONFIG),
        Setting("num_machines", of.nodes, "hosts of the plan", _CONFIG),
        Setting("main_process_ip", setup.hosts[0].address, "the first host of the plan", _CONFIG),
        Setting("main_process_port", MASTER_PORT, "PyTorch's default", _CONFIG),
        Setting("rdzv_backend", "static" if of.nodes == 1 else "c10d", "hosts agree on ranks by themselves", _CONFIG),
        Setting("same_network", True, "one site", _CONFIG),
        Setting("main_training_function", "main", "Accelerate's default", _CONFIG),
        Setting("use_cpu", False, "GPUs of the plan", _CONFIG),
    ]
    if kind != "deepspeed":  # with a DeepSpeed file precision is said there, and only there
        found.append(Setting("mixed_precision", _PRECISION[setup.job.scheme], f"precision {setup.job.scheme}", _CONFIG))
    found += {"fsdp": _fsdp(setup, recompute), "deepspeed": _by_deepspeed(setup)}.get(kind, [])
    if setup.job.compile:
        found += [
            Setting("dynamo_config.dynamo_backend", "INDUCTOR", "training.compile", "torch.compile"),
            Setting("dynamo_config.dynamo_mode", "default", "other modes keep CUDA graphs, which hold memory", _CONFIG),
            Setting("dynamo_config.dynamo_use_dynamic", False, "samples are packed to one length", _CONFIG),
            Setting("dynamo_config.dynamo_use_fullgraph", False, "a graph break is slow, not wrong", _CONFIG),
            Setting(
                "dynamo_config.dynamo_use_regional_compilation", True, "one block is compiled, not every one", _CONFIG
            ),
        ]
    text = as_yaml(found, header(setup.plan.identity, "Accelerate"))
    return LaunchFile(PATH, text, tuple(found))


def _fsdp(setup: Setup, recompute: bool) -> list[Setting]:
    of = setup.layout

    def fsdp(name: str, value: str | int | bool, rule: str) -> Setting:
        return Setting(f"fsdp_config.fsdp_{name}", value, rule, _FSDP)

    return [
        fsdp("version", 2, "FSDP2: each parameter is sharded by itself, so that frozen ones may differ"),
        fsdp("reshard_after_forward", of.zero == 3, f"ZeRO {of.zero}: 3 gathers again in backward, 2 keeps weights"),
        fsdp("auto_wrap_policy", "TRANSFORMER_BASED_WRAP", "one unit per block of the model"),
        fsdp("offload_params", False, "nothing is offloaded"),
        fsdp("state_dict_type", "SHARDED_STATE_DICT", "each rank writes its part: no rank gathers the whole model"),
        fsdp("cpu_ram_efficient_loading", True, "one process of a host reads the weights"),
        fsdp("activation_checkpointing", recompute and of.recompute != "none", f"recompute {of.recompute}"),
    ]


def _by_deepspeed(setup: Setup) -> list[Setting]:
    path = f"{setup.kept}/launch/{deepspeed.PATH}"
    return [
        Setting("deepspeed_config.deepspeed_config_file", path, "all of DeepSpeed stands in its own file", _CONFIG),
        Setting(
            "deepspeed_config.zero3_init_flag", setup.layout.zero == 3, "weights are sharded as they load", _CONFIG
        ),
        Setting("deepspeed_config.deepspeed_multinode_launcher", "standard", "started on each host, no pdsh", _CONFIG),
    ]

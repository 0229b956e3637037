"""DeepSpeed's JSON: ZeRO, offload to host or NVMe, ZeRO++, experts, activation checkpointing, overlap."""

from __future__ import annotations

from llmhw_provision.launch.files import LaunchFile, Setting, Value, as_json
from llmhw_provision.launch.setup import Setup
from llmhw_provision.units import MIB

PATH = "deepspeed.json"
_CONFIG = "deepspeed 0.19.8, runtime/config.py"
_ZERO = "deepspeed 0.19.8, runtime/zero/config.py"
_OFFLOAD = "deepspeed 0.19.8, runtime/zero/offload_config.py; ZeRO-Infinity, arXiv 2104.07857"
_PLUS = "ZeRO++, Wang et al. 2023, arXiv 2306.10209"
_EXPERTS = "deepspeed 0.19.8, module_inject/auto_ep_presets"
# model_type of config.json → preset of AutoEP
PRESETS = {
    "mixtral": "mixtral",
    "qwen2_moe": "qwen3_moe",
    "qwen3_moe": "qwen3_moe",
    "qwen3_5_moe_text": "qwen3_5_moe",
    "deepseek_v2": "deepseek_v2",
    "deepseek_v3": "deepseek_v3",
}


def deepspeed(setup: Setup) -> LaunchFile:
    """deepspeed.json of the layout; the numbers agree with those of the trainer's own file."""
    of = setup.layout
    found = [
        _of("train_batch_size", setup.global_batch, f"{of.micro_batch} × {of.micro_batches} × {of.dp} ranks"),
        _of("train_micro_batch_size_per_gpu", of.micro_batch, "micro-batch of the layout"),
        _of("gradient_accumulation_steps", of.micro_batches, "micro-batches of the layout"),
        _of("gradient_clipping", 1.0, "as in GPT-3, arXiv 2005.14165, appendix B"),
        _of("bf16.enabled", setup.job.scheme != "fp32", f"precision {setup.job.scheme}"),
        *_optimizer(setup),
        *_zero(setup),
        *_offload(setup),
        *_plus(setup),
        *_experts(setup),
        *_recompute(setup),
        _of("checkpoint.use_node_local_storage", setup.nodes > 1, "scratch is local to each host"),
        _of("wall_clock_breakdown", False, "timers synchronise the GPU in every step"),
    ]
    return LaunchFile(PATH, as_json(found, f"plan {setup.plan.identity}; why: launch --explain"), tuple(found))


def _of(name: str, value: Value, rule: str, source: str = _CONFIG) -> Setting:
    return Setting(name, value, rule, source)


def _optimizer(setup: Setup) -> list[Setting]:
    """AdamW on the CPU where its states are: DeepSpeed refuses another's there. Else the trainer brings its own."""
    if not setup.layout.offload_optimizer:
        return []
    source = "deepspeed 0.19.8, runtime/engine.py; values as in transformers' TrainingArguments"
    return [
        _of("optimizer.type", "AdamW", "runs on the CPU beside its states", source),
        _of("optimizer.params.lr", setup.rate.value, setup.rate.rule, setup.rate.source),
        _of("optimizer.params.betas", (0.9, 0.999), "Adam, arXiv 1412.6980, algorithm 1", source),
        _of("optimizer.params.eps", 1e-8, "Adam, arXiv 1412.6980, algorithm 1", source),
        _of("optimizer.params.weight_decay", 0.0, "transformers' default", source),
    ]


def _zero(setup: Setup) -> list[Setting]:
    of, hidden = setup.layout, setup.need.model.hidden

    def zero(name: str, value: Value, rule: str) -> Setting:
        return _of(f"zero_optimization.{name}", value, rule, _ZERO)

    found = [zero("stage", of.zero, "ZeRO stage of the layout")]
    if of.zero == 0:
        return found
    found += [
        zero("overlap_comm", True, "gradients are reduced while backward goes on"),
        zero("contiguous_gradients", True, "gradients are copied into one buffer as they come: no fragmentation"),
    ]
    if of.zero < 3:
        bucket = 200_000_000
        rule = "2 × 10^8 elements: with overlap two buckets of 16 bits live at once, 0.8 GB"
        found += [zero("reduce_bucket_size", bucket, rule), zero("allgather_bucket_size", bucket, rule)]
        return found
    return [
        *found,
        zero("reduce_bucket_size", hidden * hidden, f"hidden² = {hidden:,}²: one matrix of attention"),
        zero("stage3_prefetch_bucket_size", hidden * hidden * 9 // 10, "0.9 × hidden²: next matrix is fetched ahead"),
        zero("stage3_param_persistence_threshold", 10 * hidden, "10 × hidden: norms and biases stay gathered"),
        zero("stage3_gather_16bit_weights_on_model_save", True, "the last checkpoint can be loaded without DeepSpeed"),
    ]


def _offload(setup: Setup) -> list[Setting]:
    of = setup.layout
    found: list[Setting] = []
    device = "nvme" if of.nvme else "cpu"
    where = f"on {setup.scratch}, the planned scratch" if of.nvme else "in host memory"
    parts = [("offload_optimizer", of.offload_optimizer), ("offload_param", of.offload_params)]
    for part, wanted in parts:
        if not wanted:
            continue
        name = f"zero_optimization.{part}"
        found += [
            _of(f"{name}.device", device, f"the layout keeps it {where}", _OFFLOAD),
            _of(f"{name}.pin_memory", True, "page-locked buffers: copies to the GPU overlap", _OFFLOAD),
        ]
        if of.nvme:
            found.append(_of(f"{name}.nvme_path", f"{setup.scratch}/offload/{setup.run}", "ZeRO-Infinity", _OFFLOAD))
    if of.nvme and of.offload_optimizer:
        rule = "reads the next states and writes the last ones while the CPU computes"
        found += [_of(f"zero_optimization.offload_optimizer.pipeline_{way}", True, rule) for way in ("read", "write")]
    if of.nvme:
        found += [
            _of("aio.block_size", MIB, "1 MiB requests reach the rate of an NVMe drive", "DeepSpeed, ds_io sweep"),
            _of("aio.queue_depth", 32, "as many requests in flight per thread", "DeepSpeed, ds_io sweep"),
            _of("aio.single_submit", False, "requests are handed over together", "DeepSpeed, ds_io sweep"),
            _of("aio.overlap_events", True, "waits for requests while handing over others", "DeepSpeed, ds_io sweep"),
        ]
    return found


def _plus(setup: Setup) -> list[Setting]:
    if not setup.launch.zero_plus_plus:
        return []
    host = setup.work.count
    found = [
        _of("zero_optimization.zero_quantized_weights", True, "weights cross the network in 8 bits", _PLUS),
        _of("zero_optimization.zero_quantized_gradients", True, "gradients cross the network in 4 bits", _PLUS),
    ]
    if setup.nodes > 1:
        rule = f"a second copy of the weights in each host of {host} GPUs: backward gathers inside the host"
        found.append(_of("zero_optimization.zero_hpz_partition_size", host, rule, _PLUS))
    return found


def _experts(setup: Setup) -> list[Setting]:
    if setup.layout.ep == 1:
        return []
    preset = PRESETS.get(setup.need.model.family)
    return [
        _of("expert_parallel.enabled", True, "experts of a layer lie on different ranks", _EXPERTS),
        _of("expert_parallel.autoep_size", setup.layout.ep, "expert parallel ranks of the layout", _EXPERTS),
        _of("expert_parallel.preset_model", preset, "model_type of config.json", _EXPERTS),
    ]


def _recompute(setup: Setup) -> list[Setting]:
    if setup.layout.recompute == "none":
        return []
    rule = "only for code that calls deepspeed.checkpointing; transformers recomputes by its own switch"
    name = "activation_checkpointing"
    return [
        _of(f"{name}.partition_activations", False, f"{rule}; there is no tensor parallelism"),
        _of(f"{name}.cpu_checkpointing", setup.layout.offload_activations, "activations offloaded by the layout"),
        _of(f"{name}.contiguous_memory_optimization", False, "needs partitioned activations"),
    ]

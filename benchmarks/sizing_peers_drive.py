"""Runs inside a peer's own environment: cases as JSON on standard input, its answers in bytes on standard output.

Every peer is called by its public functions the way its documentation does; what it has no input for is refused with
the reason, never guessed. Only standard library and the peer are imported.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

Case = dict[str, Any]
GIB = 2**30
MIB = 2**20


class Refused(Exception):
    """The peer has no input for this."""


def need(condition: bool, reason: str) -> None:
    """Raises Refused with `reason` unless `condition` holds."""
    if not condition:
        raise Refused(reason)


def one_gpu(case: Case) -> None:
    """Refuses what is divided over GPUs."""
    need(case["gpus"] == 1 or (case["kind"] == "infer_memory" and case["tp"] == 1), "one GPU only")
    need(not (case["offload_optimizer"] or case["offload_params"]), "no offload")


def fitcheck(case: Case) -> float:
    """fitcheck-llm: its estimator on a config.json from a cache laid out as the Hub's."""
    from fitcheck import config_parser, estimator
    from fitcheck.gpu_db import get_gpu
    from fitcheck.memory.lora import LORA_TARGETS_FULL, LORA_TARGETS_MINIMAL

    one_gpu(case)
    need(case["kind"] != "states", "no model states alone")
    need(case["dpo"] is False, "no preference training")
    config_parser._reported_param_count = lambda _model, _token: case["params"]
    config_parser.hf_hub_download = lambda **_: _file(case)
    model = config_parser.fetch_model_config("peer/case")
    names = {"nf4": ("nf4", False), "nf4-dq": ("nf4", True), "int8": ("int8", False)}
    plain = case["weights"] in ("bf16", "fp16", "fp32")
    need(plain or case["weights"] in names, f"no {case['weights']} weights")
    quantization, double = ("none", False) if plain else names[case["weights"]]
    precision = case["weights"] if plain else "bf16"
    gpu = get_gpu(None, vram_mib=10_000_000)
    if case["kind"] in ("weights", "kv_cache", "infer_memory"):
        asked = estimator.ServingConfig(precision, quantization, double, case["context"], case["concurrency"])
        found = estimator.estimate_inference(model, asked, gpu)
        if case["kind"] == "weights":
            return found.weight_mib * MIB
        if case["kind"] == "kv_cache":
            return found.kv_cache_mib * MIB
        return (found.total_mib - (0 if case["device"] else found.overhead_mib)) * MIB
    optimizers = {"adamw": "adamw", "adamw-8bit": "adam8bit", "sgd": "sgd-momentum"}
    need(case["optimizer"] in optimizers, f"no {case['optimizer']}")
    need(not case["in_backward"], "no optimizer inside backward")
    need(case["recompute"] in ("none", "full"), f"no {case['recompute']} recomputation")
    training = estimator.TrainingConfig(
        precision=precision,
        quantization=quantization,
        double_quant=double,
        optimizer=optimizers[case["optimizer"]],
        optimizer_dtype="bf16" if case["scheme"] == "pure" else "fp32",
        batch_size=case["micro_batch"],
        seq_len=case["sequence"],
        lora_rank=None if case["method"] == "full" else case["rank"],
        lora_targets=list(LORA_TARGETS_FULL if case["all_linear"] else LORA_TARGETS_MINIMAL),
        grad_checkpoint=case["recompute"] == "full",
        flash_attn=case["flash"],
    )
    found = estimator.estimate(model, training, gpu)
    return (found.total_mib - (0 if case["device"] else found.overhead_mib)) * MIB


def vramcalc(case: Case) -> float:
    """vramcalc: estimate() on a config."""
    from vramcalc.estimate import estimate

    one_gpu(case)
    need(case["kind"] != "states", "no model states alone")
    need(case["dpo"] is False, "no preference training")
    need(case["weights"] in ("bf16", "fp16", "fp32"), f"no {case['weights']} weights")
    if case["kind"] in ("weights", "kv_cache", "infer_memory"):
        found = estimate(case["config"], dtype=case["weights"], batch=case["concurrency"], seq_len=case["context"])
        one = {"weights": found.weights, "kv_cache": found.kv_cache}
        return one.get(case["kind"], found.total + (found.overhead if case["device"] else 0))
    need(case["optimizer"] in ("adamw", "sgd"), f"no {case['optimizer']}")
    need(not case["in_backward"], "no optimizer inside backward")
    need(case["recompute"] in ("none", "full"), f"no {case['recompute']} recomputation")
    found = estimate(
        case["config"],
        mode="train",
        dtype=case["weights"],
        batch=case["micro_batch"],
        seq_len=case["sequence"],
        lora_rank=None if case["method"] == "full" else case["rank"],
        grad_checkpoint=case["recompute"] == "full",
        optimizer=case["optimizer"],
        precision="pure" if case["scheme"] == "pure" else "amp",
        attn_impl="flash" if case["flash"] else "eager",
    )
    return found.total + (found.overhead if case["device"] else 0)


def accelerate(case: Case) -> float:
    """accelerate: the sizes that `accelerate estimate-memory` prints, and its factor of four for training with Adam."""
    need(case["kind"] in ("weights", "infer_memory", "train_memory", "ft_memory", "states"), "no KV cache")
    one_gpu(case)
    need(case["method"] == "full", "no adapters")
    need(case["optimizer"] == "adamw", f"no {case['optimizer']}")
    bits = {"fp32": 32, "bf16": 16, "fp16": 16, "int8": 8, "int4": 4}
    need(case["weights"] in bits, f"no {case['weights']} weights")
    size = _total_size(json.dumps(case["config"], sort_keys=True)) * bits[case["weights"]] / 32
    return 4 * size if case["kind"] in ("train_memory", "ft_memory", "states") else size


@cache
def _total_size(config: str) -> float:
    from accelerate import init_empty_weights
    from accelerate.utils import calculate_maximum_sizes
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

    data = json.loads(config)
    kind = data.pop("model_type")
    with init_empty_weights():
        build = AutoModel if kind == "bert" else AutoModelForCausalLM
        model = build.from_config(AutoConfig.for_model(kind, **data))
    return float(calculate_maximum_sizes(model)[0]) * (4 / next(model.parameters()).element_size())


def hf_mem(case: Case) -> float:
    """hf-mem: its KV cache; for weights, what the headers of a 16-bit checkpoint sum up to."""
    from hf_mem.safetensors.kv_cache import compute_safetensors_kv_cache_size

    need(case["kind"] in ("weights", "kv_cache", "infer_memory"), "no training")
    need(case["tp"] == 1, "no tensor parallelism")
    need(case["weights"] in ("bf16", "fp16", "fp32"), "weights are read from the Hub's headers")
    width = {"fp32": 4}.get(case["weights"], 2)
    cache = compute_safetensors_kv_cache_size(case["config"], "BF16", case["context"], case["concurrency"])
    if case["kind"] == "kv_cache":
        return float(cache)
    weights = case["params"] * width
    return float(weights + (cache if case["kind"] == "infer_memory" else 0))


def deepspeed(case: Case) -> float:
    """DeepSpeed: estimate_zero2 and estimate_zero3_model_states_mem_needs, GPU side."""
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs as stage3
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs as stage2

    need(case["kind"] in ("states", "train_memory", "ft_memory"), "no serving")
    need(case["method"] == "full", "no adapters")
    need(case["optimizer"] == "adamw", f"no {case['optimizer']}")
    need(case["zero"] in (2, 3), f"no ZeRO stage {case['zero']}")
    need(case["tp"] * case["pp"] * case["cp"] == 1, "no tensor, pipeline or context parallelism")
    gpus, nodes = case["gpus"] // case["nodes"], case["nodes"]
    if case["zero"] == 2:
        return float(stage2(case["params"], gpus, nodes, case["offload_optimizer"])[1])
    largest = case["largest_layer"]
    return float(stage3(case["params"], largest, gpus, nodes, case["offload_optimizer"], case["offload_params"])[1])


def llm_analysis(case: Case) -> float:
    """llm-analysis: training() and inference() on a GPU with room for anything."""
    from llm_analysis.analysis import ActivationRecomputation, DSZeRO, LLMAnalysis
    from llm_analysis.config import DtypeConfig, GPUConfig, ModelConfig, ParallelismConfig

    config = case["config"]
    need(case["kind"] != "states" or "hidden_size" in config, "no bare parameter counts")
    need(case["method"] == "full", "no adapters")
    need(case["optimizer"] == "adamw", f"no {case['optimizer']}")
    need(case["dpo"] is False, "no preference training")
    need(not (case["offload_optimizer"] or case["offload_params"]), "no offload")
    need(case["cp"] == 1, "no context parallelism")
    need("kv_lora_rank" not in config, "no latent attention")
    need(not config.get("n_shared_experts"), "no shared experts")
    bits = {"fp32": 32, "bf16": 16, "fp16": 16, "int8": 8, "int4": 4, "fp8": 8}
    need(case["weights"] in bits, f"no {case['weights']} weights")
    ffn = config.get("moe_intermediate_size") or config["intermediate_size"]
    model = ModelConfig(
        name="case",
        num_layers=config["num_hidden_layers"],
        n_head=config["num_attention_heads"],
        hidden_dim=config["hidden_size"],
        vocab_size=config["vocab_size"],
        max_seq_len=max(config["max_position_embeddings"], case["sequence"], case["context"] + 1),
        num_key_value_heads=config["num_key_value_heads"],
        ffn_embed_dim=ffn,
        expansion_ratio=ffn / config["hidden_size"],  # without it the release refuses most widths
        moe_num_experts=config.get("num_experts", 1),
        moe_top_k=config.get("num_experts_per_tok", 1),
    )
    gpu = GPUConfig("any", 1e6, 2000, 600, 1e-6, 312)
    ways = case["tp"] * case["pp"]
    spread = ParallelismConfig(
        tp_size=case["tp"],
        pp_size=case["pp"],
        dp_size=max(1, case["gpus"] // ways) if case["kind"] != "infer_memory" else 1,
        sp_size=case["tp"] if case["sequence_parallel"] else 1,
    )
    dtype = DtypeConfig("case", bits[case["weights"]], 16, 16)
    peer = LLMAnalysis(model, gpu, dtype, spread, flops_efficiency=0.5, hbm_memory_efficiency=0.5)
    if case["kind"] in ("weights", "kv_cache", "infer_memory"):
        prompt = max(1, case["prompt"])
        new = max(1, case["context"] - prompt)
        found = peer.inference(case["concurrency"], prompt, new, kv_cache_dtype_bytes=2)
        weights, cache = found["weight_memory_per_gpu"], found["kv_cache_memory_per_gpu"]
        if case["kind"] != "infer_memory":
            return float(weights if case["kind"] == "weights" else cache * case["context"] / (prompt + new))
        return float(weights + cache + found["prefill_activation_memory_per_gpu"])
    recompute = {
        "none": ActivationRecomputation.NONE,
        "selective": ActivationRecomputation.SELECTIVE,
        "selective-op": ActivationRecomputation.SELECTIVE,
        "full": ActivationRecomputation.FULL,
    }
    pure = case["scheme"] == "pure"
    found = peer.training(
        batch_size_per_gpu=case["micro_batch"],
        seq_len=case["sequence"],
        total_num_tokens=10**9,
        activation_recomputation=recompute[case["recompute"]],
        ds_zero=DSZeRO(case["zero"]),
        flash_attn=case["flash"],
        mlp_gated_linear_units=config.get("hidden_act") == "silu",
        master_weights_dtype_bytes=0 if pure else 4,
        other_op_bytes=4 if pure else None,
    )
    states = found["(weight+op_state+grad)_memory_per_gpu"]
    return float(states if case["kind"] == "states" else states + found["activation_memory_per_gpu"])


def _file(case: Case) -> str:
    path = Path(tempfile.gettempdir()) / f"peer-config-{os.getpid()}.json"
    path.write_text(json.dumps(case["config"]))
    return str(path)


PEERS: dict[str, Callable[[Case], float]] = {
    "fitcheck-llm": fitcheck,
    "vramcalc": vramcalc,
    "llm-analysis": llm_analysis,
    "accelerate": accelerate,
    "deepspeed": deepspeed,
    "hf-mem": hf_mem,
}


def main() -> None:
    """Answers every case on standard input for the peer named as argument."""
    peer = PEERS[sys.argv[1]]
    answers = []
    output = sys.stdout
    for case in json.load(sys.stdin):
        try:
            if not case["config"] and peer is not deepspeed:
                raise Refused("a bare parameter count")
            with contextlib.redirect_stdout(sys.stderr):
                answers.append({"id": case["id"], "bytes": peer(case), "reason": ""})
        except Refused as error:
            answers.append({"id": case["id"], "bytes": None, "reason": str(error)})
        except Exception as error:
            text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            answers.append({"id": case["id"], "bytes": None, "reason": text[:160]})
    json.dump(answers, output)


if __name__ == "__main__":
    main()

"""A published case's inputs → the engine's ordinary options. No numbers of its own: what is not said stays default."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from llmhw_provision.catalogue.loader import ModelKind, find, names
from llmhw_provision.model import Architecture, from_dimensions, from_parameters
from llmhw_provision.sizing.cards import Card, find_card, generic_card
from llmhw_provision.sizing.job import ALL_LINEAR, Job, Layout
from llmhw_provision.sizing.serving import Known
from llmhw_provision.sizing.terms import Term
from llmhw_provision.units import GIB, MIB


class Unsupported(Exception):
    """Something in a case that the engine cannot honour; the text says what."""


@dataclass(frozen=True)
class Setup:
    """A case in the engine's terms. `model` is None when a case describes none."""

    inputs: dict[str, Any]
    model: Architecture | None
    job: Job
    layout: Layout
    card: Card | None
    context: Term | None
    known: Known = field(default_factory=Known)

    @property
    def architecture(self) -> Architecture:
        """The model; raises Unsupported without one."""
        if self.model is None:
            raise Unsupported("no model, architecture or parameter count is given")
        return self.model


# Keys that say where or when a figure was read, and nothing about memory.
SILENT = {"cluster", "container", "note_long", "remark", "system", "torch", "packed", "per_gpu_gbs"}


def setup(inputs: dict[str, Any], models: dict[str, Any]) -> Setup:
    """The case as model, job, layout and card; raises Unsupported for what the engine cannot honour."""
    unknown = sorted(set(inputs) - KEYS)
    if unknown:
        raise Unsupported(f"input {unknown[0]!r} is not known")
    if "settings" in inputs:
        raise Unsupported(f"settings: {inputs['settings']}")
    job, layout = _job(inputs), _layout(inputs)
    model = _model(inputs, models)
    if job.kind in ("ppo", "grpo") and "zero" not in inputs and layout.gpus > 1:
        layout = replace(layout, zero=3, sharder="fsdp")
    return Setup(inputs, model, job, layout, _card(inputs), _context(inputs), _known(inputs))


def described(name: str, data: dict[str, Any], *, stated: bool) -> Architecture:
    """The model `name` as described under models; its catalogue entry where both have the same dimensions."""
    if name in names("models"):
        kind = find("models", name, ModelKind).architecture
        same = ("hidden", "layers", "kv_heads", "vocab")
        if all(data.get(key) in (None, getattr(kind, key)) for key in same):
            return kind
    return _from_description(data, stated=stated)


def _from_description(data: dict[str, Any], *, stated: bool) -> Architecture:
    moe = data.get("experts", 0)
    width = data.get("moe_ffn", data.get("ffn", 0)) if moe else 0
    fields: dict[str, Any] = {
        key: data[key]
        for key in ("heads", "kv_heads", "head_dim", "ffn", "vocab", "tied", "experts", "experts_per_token")
        if key in data
    }
    fields |= {key: data[key] for key in ("sliding_window", "kv_lora_rank", "qk_rope_head_dim") if key in data}
    if "sliding_window" in data:
        fields["sliding_layers"] = data.get("sliding_layers", data["layers"])
    if moe:
        fields["moe_layers"] = data["layers"] - data.get("dense_layers", 0)
        fields["moe_ffn"] = width
        fields["shared_ffn"] = data.get("shared_experts", 0) * width
    if stated and "params" in data:
        fields["params"] = int(data["params"])
    if stated and "active_params" in data:
        fields["active"] = int(data["active_params"])
    gated = data.get("mlp", "swiglu") == "swiglu"
    layer_norm = {} if gated else {"norm_bias": True, "norms_per_layer": 2, "family": "gpt"}
    return from_dimensions(hidden=data["hidden"], layers=data["layers"], gated=gated, **fields, **layer_norm)


def _model(inputs: dict[str, Any], models: dict[str, Any]) -> Architecture | None:
    found = _named(inputs, models)
    stated = {ours: inputs[theirs] for theirs, ours in _STATED if theirs in inputs}
    if found is None or not stated:
        return found
    return replace(found, **stated)


_STATED = (
    ("layers", "layers"),
    ("kv_heads", "kv_heads"),
    ("head_dim", "head_dim"),
    ("kv_lora_rank", "kv_lora_rank"),
    ("rope_dim", "qk_rope_head_dim"),
    ("sliding", "sliding_window"),
)


def _named(inputs: dict[str, Any], models: dict[str, Any]) -> Architecture | None:
    name = inputs.get("model")
    if name in models:
        return described(name, models[name], stated=True)
    if name in names("models"):
        return find("models", name, ModelKind).architecture
    if "arch" in inputs:
        return _from_arch(inputs["arch"], inputs)
    if "params" in inputs:
        return from_parameters(int(inputs["params"]))
    if "layers" in inputs and ("kv_heads" in inputs or "kv_lora_rank" in inputs):
        heads, width = inputs.get("kv_heads", 1), inputs.get("head_dim", 1)
        return from_dimensions(hidden=heads * width, layers=inputs["layers"], kv_heads=heads, head_dim=width)
    if name is not None:
        raise Unsupported(f"model {name!r} is not described")
    return None


def _from_arch(arch: dict[str, Any], inputs: dict[str, Any]) -> Architecture:
    gated = arch.get("mlp") == "swiglu"
    norm = {} if gated else _GPT
    return from_dimensions(
        hidden=arch["h"],
        layers=arch["L"],
        heads=arch.get("heads", 0),
        kv_heads=arch.get("kv_heads", 0),
        ffn=arch.get("ff", 0),
        vocab=arch.get("V", 0),
        gated=gated,
        tied=arch.get("tied", True),
        position_rows=arch.get("seq", 0),
        params=int(inputs.get("params", 0)),
        **norm,
    )


# biases on every matrix and LayerNorm, as in GPT-2 and GPT-3
_GPT: dict[str, Any] = {
    "norm_bias": True,
    "attention_bias": True,
    "output_bias": True,
    "mlp_bias": True,
    "family": "gpt",
}


def _card(inputs: dict[str, Any]) -> Card | None:
    for key in ("total_gib", "gpu_total_gib"):
        if key in inputs:
            return Card("as stated", int(inputs[key] * GIB), 0)
    if "gpu_gb" in inputs:
        return generic_card(int(inputs["gpu_gb"]))
    return find_card(inputs["gpu"]) if "gpu" in inputs else None


def _context(inputs: dict[str, Any]) -> Term | None:
    if "overhead" not in inputs:
        return None
    found = re.fullmatch(r"(\d+) MiB context", inputs["overhead"])
    if not found:
        raise Unsupported(f"overhead {inputs['overhead']!r}")
    return Term("CUDA context", int(found[1]) * MIB, inputs["overhead"], "stated", "overhead")


def _known(inputs: dict[str, Any]) -> Known:
    def size(key: str) -> int | None:
        return int(inputs[key] * GIB) if key in inputs else None

    return Known(size("weights_gib"), size("activation_gib"), size("non_torch_gib"))


# the job


def _job(inputs: dict[str, Any]) -> Job:
    changes: dict[str, Any] = {}
    for read in (_workload, _method, _precision, _optimizer, _loss, _quant, _serving):
        changes |= read(inputs)
    return Job(**changes)


def _workload(inputs: dict[str, Any]) -> dict[str, Any]:
    text = inputs.get("workload", "")
    kind = {"PPO": "ppo", "GRPO": "grpo"}.get(text[: len("GRPO")].strip(": "), "" if text else "sft")
    if text.startswith("PPO"):
        kind = "ppo"
    if not kind:
        raise Unsupported(f"workload {text!r}")
    simple: dict[str, Any] = {"kind": kind}
    if "seq" in inputs:
        simple["sequence"] = inputs["seq"]
    elif "tokens" in inputs:
        simple["sequence"] = inputs["tokens"]
    if "flash" in inputs:
        simple["flash"] = bool(inputs["flash"])
    if inputs.get("attn") not in (None, "flash_attention_2"):
        raise Unsupported(f"attn {inputs['attn']!r}")
    if "compile" in inputs:
        simple["compile"] = inputs["compile"]
    if "bytes_per_param" in inputs:
        simple["state_bytes"] = int(inputs["bytes_per_param"])
    if "optimizer_in_backward" in inputs:
        simple["in_backward"] = inputs["optimizer_in_backward"]
    return simple


def _method(inputs: dict[str, Any]) -> dict[str, Any]:
    text = inputs.get("method", "full")
    changes: dict[str, Any] = {}
    for method in ("qlora", "lora", "full", "GaLore"):
        if text.startswith(method):
            break
    else:
        raise Unsupported(f"method {text!r}")
    changes["method"] = "full" if method == "GaLore" else method
    if method == "GaLore":
        changes |= {"optimizer": "galore-8bit", "in_backward": "per-layer" in text, "scheme": "pure"}
    if method == "qlora":
        changes["weights"] = {"qlora-gptq4": "int4", "qlora8": "int8"}.get(text, "nf4-dq")
    if "DPO" in text:
        changes |= {"kind": "dpo", "loss": "log-probabilities"}
    rank = re.search(r"\br(\d+)\b", text)
    if rank:
        changes["rank"] = int(rank[1])
    if "rank" in inputs:
        changes["rank"] = inputs["rank"]
    if "all linear" in text or "lora_targets" in inputs:
        changes["targets"] = ALL_LINEAR
    if "lora_params" in inputs:
        changes["adapter_parameters"] = int(inputs["lora_params"])
    if "adapter_bytes_per_param" in inputs:
        changes["adapter_bytes"] = int(inputs["adapter_bytes_per_param"])
    return changes


_PRECISIONS = (
    # the first pattern that is found decides
    (r"fp32 params in optimizer|amp_", {"scheme": "fp32-params"}),
    (r"fp32 grads", {"scheme": "mixed-fp32-grads"}),
    (r"^pure bf16|bf16 pure|bf16-true", {"scheme": "pure"}),
    (r"^fp32$", {"scheme": "fp32", "weights": "fp32"}),
    (r"^nf4$", {"weights": "nf4-dq"}),
    (r"^fp8$", {"weights": "fp8", "scheme": "fp8"}),
    (r"^fp8 current scaling$", {"scheme": "fp8"}),
    (r"^(bf16|fp16|16-bit)( mixed.*)?$", {}),
)


def _precision(inputs: dict[str, Any]) -> dict[str, Any]:
    text = inputs.get("precision", inputs.get("dtype"))
    if text is None:  # Megatron keeps fp32 gradients unless told otherwise
        return {"scheme": "mixed-fp32-grads"} if "dist_opt" in inputs else {}
    for pattern, changes in _PRECISIONS:
        if re.search(pattern, text):
            return dict(changes)
    raise Unsupported(f"precision {text!r}")


_OPTIMIZERS = {
    "Adam": "adamw",
    "AdamW": "adamw",
    "AdamW/LionW": "adamw",
    "8-bit AdamW": "adamw-8bit",
    "PagedAdamW8bit": "paged-adamw-8bit",
}


def _optimizer(inputs: dict[str, Any]) -> dict[str, Any]:
    return _chosen(inputs, "optimizer", "optimizer", _OPTIMIZERS)


def _chosen(inputs: dict[str, Any], key: str, option: str, table: dict[Any, str]) -> dict[str, Any]:
    if key not in inputs:
        return {}
    if inputs[key] not in table:
        raise Unsupported(f"{key} {inputs[key]!r}")
    return {option: table[inputs[key]]}


def _loss(inputs: dict[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    text = f"{inputs.get('loss', '')} {inputs.get('framework', '')}"
    if inputs.get("sp") is not None or "dist_opt" in inputs:
        changes["loss"] = "vocab-parallel"
    if text.strip().startswith("HF +"):
        changes["loss"] = "trainer"
    if "Unsloth" in text:
        changes["loss"] = "fused"
    elif "chunked CE" in text:
        changes["loss"] = "chunked"
        found = re.search(r"chunked CE \((\d+)\)", text)
        if found:
            changes["chunks"] = int(found[1])
    elif "compiled with the model" in text:
        changes["loss"] = "compiled"
    if "chunks" in inputs:
        changes |= {"loss": "chunked", "chunks": inputs["chunks"]}
    return changes


_QUANTS = (
    (r"^bf16$", "bf16"),
    (r"nf4-dq", "nf4-dq"),
    (r"nf4", "nf4"),
    (r"gptq-int4 g128|^gptq-int4$", "int4"),
    (r"int4 g32", "int4-g32"),
    (r"gptq-int8", "gptq-int8"),
    (r"^fp8 \(Meta release", "fp8-mlp"),
    (r"^fp8$", "fp8"),
    (r"^w8a8|^int8$", "int8"),
    (r"^mxfp4 experts", "mxfp4"),
)


def _quant(inputs: dict[str, Any]) -> dict[str, Any]:
    text = inputs.get("quant", inputs.get("weight"))
    if text is None:
        return {}
    for pattern, form in _QUANTS:
        if re.search(pattern, text):
            return {"weights": form}
    raise Unsupported(f"quant {text!r}")


def _serving(inputs: dict[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if "framework" in inputs and inputs["framework"].startswith("transformers"):
        changes["runtime"] = "transformers"
    if "util" in inputs:
        changes["utilisation"] = round(inputs["util"] * 100)
    if "batch" in inputs:
        changes["concurrency"] = inputs["batch"]
    prompt, new = inputs.get("prompt"), inputs.get("new_tokens")
    if prompt is not None:
        changes["prompt"] = prompt
    if isinstance(new, int):
        changes["context"] = (prompt or 0) + new
    if "context" in inputs:
        changes["context"] = inputs["context"]
    if "max_model_len" in inputs:
        changes["context"] = inputs["max_model_len"]
        if inputs.get("chunked_prefill") is False:
            changes["batched_tokens"] = inputs["max_model_len"]
    elif inputs.get("chunked_prefill") is False:
        raise Unsupported("chunked_prefill off without max_model_len")
    return changes


# the layout


def _layout(inputs: dict[str, Any]) -> Layout:
    changes: dict[str, Any] = {
        ours: int(inputs[theirs])
        for theirs, ours in (("tp", "tp"), ("pp", "pp"), ("cp", "cp"), ("ep", "ep"), ("vpp", "vpp"), ("vp", "vpp"))
        if inputs.get(theirs)
    }
    if "model_parallel" in inputs:
        changes["tp"] = inputs["model_parallel"]
    if inputs.get("schedule", "").startswith("interleaved"):
        changes.setdefault("vpp", _INTERLEAVED)
    for key in ("nodes", "dcp"):
        if key in inputs:
            changes[key] = inputs[key]
    ways = changes.get("tp", 1) * changes.get("pp", 1) * changes.get("cp", 1)
    sharded = inputs.get("fsdp") if isinstance(inputs.get("fsdp"), int) else 1
    changes["gpus"] = int(inputs.get("gpus", ways * (inputs.get("dp") or sharded or 1)))
    changes |= _sharding(inputs, changes)
    changes |= _recompute(inputs)
    changes |= _offload(inputs)
    changes |= _batches(inputs, changes)
    return Layout(**changes)


_INTERLEAVED = 2  # model chunks per stage that an interleaved schedule has at least


def _sharding(inputs: dict[str, Any], so_far: dict[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    zero = inputs.get("zero", 3 if inputs.get("method") == "lora-zero3" else None)
    if zero is not None:
        changes |= {"zero": zero, "sharder": "deepspeed" if zero else "ddp"}
    if "fsdp" in inputs:
        full = inputs["fsdp"] != "SHARD_GRAD_OP"
        changes |= {"zero": 3 if full else 2, "sharder": "fsdp"}
        if isinstance(inputs["fsdp"], int):
            changes["shard"] = inputs["fsdp"] * so_far.get("cp", 1)
    if "dist_opt" in inputs or "sp" in inputs or "6+12/DP" in inputs.get("precision", ""):
        split = inputs.get("dist_opt", "6+12/DP" in inputs.get("precision", ""))
        changes |= {"zero": 1 if split else 0, "sharder": "megatron"}
    parallel = inputs.get("sp", so_far.get("tp", 1) > 1 and "fsdp" in inputs)
    return changes | {"sequence_parallel": bool(parallel)}


_RECOMPUTE: dict[Any, tuple[str, bool]] = {
    "none": ("none", False),
    "selective": ("selective", False),
    "selective(op)": ("selective-op", False),
    "full": ("full", False),
    "full+offload": ("full", True),
}


def _recompute(inputs: dict[str, Any]) -> dict[str, Any]:
    text = inputs.get("recompute", "none")
    if text not in _RECOMPUTE:
        raise Unsupported(f"recompute {text!r}")
    recompute, offloaded = _RECOMPUTE[text]
    return {"recompute": recompute, "offload_activations": offloaded or "activation_offload" in inputs}


def _offload(inputs: dict[str, Any]) -> dict[str, Any]:
    what, _, where = inputs.get("offload", "none").partition(":")
    if what not in ("none", "Adam", "optimizer", "param", "optimizer+param") or where not in ("", "cpu", "nvme"):
        raise Unsupported(f"offload {inputs['offload']!r}")
    return {
        "offload_optimizer": what in ("Adam", "optimizer", "optimizer+param"),
        "offload_params": "param" in what,
        "nvme": where == "nvme",
    }


def _batches(inputs: dict[str, Any], so_far: dict[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {"micro_batch": inputs.get("mbs", inputs.get("batch", 1)), "micro_batches": inputs.get("grad_accum", 1)}
    stages = so_far.get("pp", 1)
    if stages == 1:
        return changes
    if so_far.get("sharder") == "fsdp":  # PyTorch's schedules cut the local batch into one micro-batch per stage
        changes |= {"micro_batch": -(-changes["micro_batch"] // stages), "micro_batches": stages}
    elif "gbs" in inputs and "mbs" in inputs:
        ranks = so_far["gpus"] // (stages * so_far.get("tp", 1) * so_far.get("cp", 1))
        changes["micro_batches"] = max(1, inputs["gbs"] // (ranks * inputs["mbs"]))
    return changes


Reader = Callable[[dict[str, Any]], dict[str, Any]]
KEYS = SILENT | set(
    """
    activation_gib activation_offload active_params adapter_bytes_per_param algo arch attn batch block bytes
    bytes_per_param checkpoint_bytes chunked_prefill chunks collective compile content context cp cuda_module_loading
    dcp direction dist_opt dp dtype ep flash float8 flops_convention formula framework from_fsdp from_tokens fsdp gbs
    gpu gpu_gb gpu_total_gib gpus grad_accum head_dim host_ram_gb kv_bytes kv_heads kv_lora_rank kv_memory_gib
    largest_layer layers link lora_or_offload lora_params lora_targets loss max_model_len mbs method model
    model_parallel new_tokens nodes non_torch_gib offload optimizer optimizer_in_backward overhead params pp precision
    prompt quant rank recompute rope_dim rule schedule second_block seq settings sliding sp stage to_fsdp to_tokens
    tokens total_gib tp util vocab vp vpp weight weights_gib what workload writers zero zero_init
    """.split()
)

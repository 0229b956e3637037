"""A published case's inputs → the layout."""

from __future__ import annotations

from typing import Any

from llmhw_provision.sizing.case_error import Unsupported
from llmhw_provision.sizing.job import Layout


def layout(inputs: dict[str, Any]) -> Layout:
    """The layout of a case; raises Unsupported for a text that is not known."""
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
    changes: dict[str, Any] = {
        "micro_batch": inputs.get("mbs", inputs.get("batch", 1)),
        "micro_batches": inputs.get("grad_accum", 1),
    }
    stages = so_far.get("pp", 1)
    if stages == 1:
        return changes
    if so_far.get("sharder") == "fsdp":  # PyTorch's schedules cut the local batch into one micro-batch per stage
        changes |= {"micro_batch": -(-changes["micro_batch"] // stages), "micro_batches": stages}
    elif "gbs" in inputs and "mbs" in inputs:
        ranks = so_far["gpus"] // (stages * so_far.get("tp", 1) * so_far.get("cp", 1))
        changes["micro_batches"] = max(1, inputs["gbs"] // (max(1, ranks) * inputs["mbs"]))
    return changes

"""A published case's inputs → the job."""

from __future__ import annotations

import re
from typing import Any

from llmhw_provision.sizing.case_error import Unsupported
from llmhw_provision.sizing.job import ALL_LINEAR, Job
from llmhw_provision.sizing.kv import value_bytes


def job(inputs: dict[str, Any]) -> Job:
    """The job of a case; raises Unsupported for a text that is not known."""
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
    if "amp" in text:  # fp32 weights and gradients, 16-bit copies of the weights: 18 bytes
        changes["scheme"] = "mixed-fp32-grads"
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


_PRECISIONS: tuple[tuple[str, dict[str, str]], ...] = (
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
    if text is None:
        return {}
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
    if "optimizer" not in inputs and "Unsloth" in inputs.get("framework", ""):
        return {"optimizer": "adamw-8bit"}  # its default
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
    if "seq" in inputs or "tokens" in inputs:
        changes["context"] = inputs.get("seq", inputs.get("tokens"))
    if prompt is not None:
        changes["prompt"] = prompt
    if isinstance(new, int):
        changes["context"] = (prompt or 0) + new
    if "context" in inputs:
        changes["context"] = inputs["context"]
    if "max_model_len" in inputs:
        changes["context"] = inputs["max_model_len"]
    if inputs.get("chunked_prefill") is False:
        if "context" not in changes and "activation_gib" not in inputs:
            raise Unsupported("chunked_prefill off without max_model_len")
        changes["batched_tokens"] = changes.get("context", Job.batched_tokens)
        changes["graphs_inside"] = False  # only versions with graphs outside the share let prefill be whole
    if "kv_bytes" in inputs:
        changes |= _chosen(
            inputs, "kv_bytes", "kv", {value_bytes(kind): kind for kind in ("int4", "fp8", "bf16", "fp32")}
        )
    return changes

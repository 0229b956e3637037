"""What the engine says to a published case: one function per kind of case."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from llmhw_provision.sizing import overhead
from llmhw_provision.sizing.case_error import Unsupported
from llmhw_provision.sizing.cases import Answer, Setup, described, setup
from llmhw_provision.sizing.cluster_case import comm_case, min_gpus_case, storage_case
from llmhw_provision.sizing.decode_case import decode_case, offload_infer_case
from llmhw_provision.sizing.formats import constant_bits, double_quantised_bits, format_of
from llmhw_provision.sizing.host import host_terms, offloaded
from llmhw_provision.sizing.job import Layout
from llmhw_provision.sizing.need import checkpoint
from llmhw_provision.sizing.predict_serving import (
    cache_memory,
    generation_terms,
    inference_case,
    kv_case,
    vllm_case,
    weights_case,
)
from llmhw_provision.sizing.predict_time import flops_case, mfu_case, throughput_case, train_time_case
from llmhw_provision.sizing.predict_training import (
    activations_case,
    all_states,
    deepspeed_setting,
    least_layout,
    logits_case,
    max_context_case,
    states_case,
    training_case,
    training_terms,
)
from llmhw_provision.sizing.rules import deepspeed_host
from llmhw_provision.sizing.search import largest_model, largest_states
from llmhw_provision.sizing.shards import held, parameters
from llmhw_provision.sizing.states import frozen_weights
from llmhw_provision.sizing.terms import Term, total
from llmhw_provision.sizing.training import peak
from llmhw_provision.units import GB


def predict(case: dict[str, Any], models: dict[str, Any]) -> Answer:
    """The engine's figure in the case's unit; raises Unsupported with the reason where there is none."""
    kind = case["kind"]
    if kind not in _KINDS:
        raise Unsupported(f"kind {kind} is not known")
    return _KINDS[kind](setup(case, models))


def terms(case: dict[str, Any], models: dict[str, Any]) -> tuple[Term, ...]:
    """The terms behind the prediction of one GPU's memory; raises Unsupported for other kinds of cases."""
    of = setup(case, models)
    if case["kind"] in ("train_memory", "ft_memory"):
        return training_terms(of)
    if case["kind"] == "infer_memory" and not of.says("per prompt token"):
        return generation_terms(of)
    raise Unsupported(f"kind {case['kind']} is not the memory of a GPU")


def params_case(of: Setup) -> Answer:
    """Parameters."""
    name = of.inputs.get("model")
    model = described(name, of.models[name], stated=False) if name in of.models else of.architecture
    count = model.active_parameters if of.says("activated") else model.parameters
    return count if of.unit == "params" else count / 1e9


def host_case(of: Setup) -> Answer:
    """Host memory."""
    if "formula" in of.inputs:
        return of.in_unit(deepspeed_host(deepspeed_setting(of)).size)
    if of.says("offloaded optimizer"):
        layout = replace(of.layout, offload_optimizer=True)
        found = [term for term in offloaded(of.architecture, of.job, layout) if "offloaded" in term.name]
        return of.in_unit(total(found))
    return of.in_unit(_host_bytes(of))


def _host_bytes(of: Setup) -> int:
    return total(term for term in host_terms(of.architecture, of.job, of.layout) if term.kind == "host")


def overhead_case(of: Setup) -> Answer:
    """Memory outside tensors."""
    what = of.inputs.get("what", "")
    if of.says("usable memory"):
        if of.card is None:
            raise Unsupported("no card is given")
        return of.in_unit(of.gpu.usable)
    if of.says("CUDA graph"):
        return of.in_unit(overhead.CUDA_GRAPHS)
    if "NCCL" in what:
        term = overhead.communicators(of.layout)
        return of.in_unit(term.size if term else 0)
    lazy = of.inputs.get("cuda_module_loading") == "LAZY" or "first tensor" not in what
    return of.in_unit(overhead.context(lazy=lazy).size)


def fit_case(of: Setup) -> Answer:
    """Whether it fits, or the largest that does."""
    if of.says("host RAM"):
        return _host_bytes(of) <= float(of.inputs["host_ram_gb"]) * GB
    if of.says("KV cache space"):
        return cache_memory(of).cache > 0
    if of.says("states only"):
        count = largest_states(
            of.gpu.nominal * GB or of.gpu.usable, lambda model: all_states(replace(of, model=model), of.layout)
        )
        return count / 1e9
    if of.says("largest"):
        recompute = of.layout if "recompute" in of.inputs else replace(of.layout, recompute="full")
        return largest_model(of.job, recompute, of.gpu.usable) / 1e9
    moment = peak(of.architecture, of.job, least_layout(of), of.context)
    return of.in_unit(moment.device) if of.unit != "bool" else moment.device <= of.gpu.usable


def rule_of_thumb_case(of: Setup) -> Answer:
    """Memory of all GPUs by the defaults."""
    layout = replace(of.layout, recompute="full")
    return of.in_unit(peak(of.architecture, of.job, layout).device)


def quant_case(of: Setup) -> Answer:
    """Bits of block constants."""
    block = of.inputs["block"]
    if of.says("without"):
        return float(constant_bits(block))
    return float(double_quantised_bits(block, of.inputs["second_block"]))


def checkpoint_case(of: Setup) -> Answer:
    """Bytes of a checkpoint."""
    count = parameters(held(of.architecture, Layout()))
    found = re.search(r"= (\d+) B/param", of.inputs.get("content", ""))
    if found:
        return of.in_unit(int(found[1]) * count)
    if of.says("weights"):
        return of.in_unit(frozen_weights(of.architecture, Layout(), "only", format_of(of.architecture, "bf16")).size)
    if "content" in of.inputs:
        raise Unsupported(f"content {of.inputs['content']!r}")
    return of.in_unit(checkpoint(of.architecture, of.job).size)


_KINDS: dict[str, Callable[[Setup], Answer]] = {
    "train_memory": training_case,
    "ft_memory": training_case,
    "states": states_case,
    "activations": activations_case,
    "logits": logits_case,
    "max_context": max_context_case,
    "infer_memory": inference_case,
    "kv_cache": kv_case,
    "vllm_kv": vllm_case,
    "weights": weights_case,
    "params": params_case,
    "host_ram": host_case,
    "overhead": overhead_case,
    "fit": fit_case,
    "rule_of_thumb": rule_of_thumb_case,
    "quant": quant_case,
    "checkpoint": checkpoint_case,
    "train_throughput": throughput_case,
    "train_mfu": mfu_case,
    "flops": flops_case,
    "train_time": train_time_case,
    "decode": decode_case,
    "comm": comm_case,
    "storage": storage_case,
    "min_gpus": min_gpus_case,
    "offload_infer": offload_infer_case,
}

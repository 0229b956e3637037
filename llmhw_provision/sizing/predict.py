"""What the engine says to a published case: one function per kind of case."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from llmhw_provision.sizing import activations, kv, logits, overhead, rules, serving
from llmhw_provision.sizing.cases import Setup, Unsupported, described, setup
from llmhw_provision.sizing.formats import constant_bits, double_quantised_bits, format_of
from llmhw_provision.sizing.host import host_terms, offloaded
from llmhw_provision.sizing.job import Layout
from llmhw_provision.sizing.search import largest_context, largest_model, largest_states, least_recompute
from llmhw_provision.sizing.shards import held, parameters
from llmhw_provision.sizing.states import frozen_weights, lora_parameters, training_states
from llmhw_provision.sizing.terms import Term, total
from llmhw_provision.sizing.training import Moment, peak
from llmhw_provision.units import GB, GIB, KIB, MB, MIB, TB, TIB

Answer = float | bool
_UNITS = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB, "MB": MB, "GB": GB, "TB": TB}


def predict(case: dict[str, Any], models: dict[str, Any]) -> Answer:
    """The engine's figure in the case's unit; raises Unsupported with the reason where there is none."""
    kind = case["kind"]
    if kind not in _KINDS:
        raise Unsupported(f"kind {kind}: time, network and power are not part of the memory accounting")
    return _KINDS[kind](case, setup(case["inputs"], models), models)


def _size(case: dict[str, Any], size: Fraction | int) -> float:
    """Bytes in the unit of the case; per token where the unit says so."""
    unit = case["unit"].partition("/")[0]
    if unit not in _UNITS:
        raise Unsupported(f"unit {case['unit']!r}")
    return float(Fraction(size) / _UNITS[unit])


def _says(case: dict[str, Any], *words: str) -> bool:
    return any(word in case["quantity"] for word in words)


# training


def _layout(case: Setup) -> Layout:
    """The layout; what a case leaves open about recomputation is the least that fits its card."""
    if "recompute" in case.inputs or case.card is None:
        return case.layout
    return least_recompute(case.architecture, case.job, case.layout, case.card.usable)


def _seen(case: dict[str, Any], of: Setup, moment: Moment) -> int:
    """The peak as the tool of the case shows it: tensors, allocator or whole device."""
    if _says(case, "active", "max GPU RAM", "peak memory"):
        size = moment.allocated
    elif _says(case, "reserved"):
        size = moment.reserved
    else:
        size = moment.device
    return size * of.layout.gpus if _says(case, "sum over") else size


def _training(case: dict[str, Any], of: Setup, models: dict[str, Any]) -> Answer:
    if _says(case, "saved by selective recompute"):
        return _size(case, _selective_saving(of))
    return _size(case, _seen(case, of, peak(of.architecture, of.job, _layout(of), of.context)))


def _selective_saving(of: Setup) -> int:
    layouts = [replace(of.layout, recompute=recompute) for recompute in ("none", "selective")]
    none, selective = (activations.kept(of.architecture, of.job, layout).size for layout in layouts)
    return none - selective


def _states(case: dict[str, Any], of: Setup, models: dict[str, Any]) -> Answer:
    if "rule" in of.inputs:
        weights = frozen_weights(of.architecture, of.layout, "only", format_of(of.architecture, of.job.weights))
        return _size(case, rules.accelerate_training(weights.size).size)
    if "formula" in of.inputs:
        return _size(case, rules.deepspeed_gpu(_deepspeed(of)).size)
    if "from_fsdp" in of.inputs:
        sizes = [_all_states(of, Layout(gpus=of.inputs[key], zero=3, sharder="fsdp")) for key in ("from_fsdp", "to_fsdp")]
        return _size(case, sizes[0] - sizes[1])
    if _says(case, "optimizer states per GPU"):
        states = training_states(of.architecture, of.job, of.layout)
        return _size(case, states.optimizer.size if states.optimizer else 0)
    if _says(case, "total"):
        return _size(case, _all_states(of, Layout()))
    return _size(case, _all_states(of, of.layout))


def _all_states(of: Setup, layout: Layout) -> int:
    """Weights, gradients, optimizer of the most loaded stage; what is offloaded is not on the GPU."""
    sizes = []
    for stage in layout.stages:
        states = training_states(of.architecture, of.job, layout, stage)
        terms = [] if layout.offload_params else [states.weights]
        terms += [] if layout.offload_optimizer else [states.gradients, states.optimizer]
        sizes.append(total(term for term in (*terms, states.adapters) if term is not None))
    return max(sizes)


def _deepspeed(of: Setup) -> rules.DeepSpeedSetting:
    inputs = of.inputs
    return rules.DeepSpeedSetting(
        params=int(inputs["params"]),
        largest_layer=int(inputs.get("largest_layer", 0)),
        gpus_per_node=inputs["gpus"] // inputs.get("nodes", 1),
        nodes=inputs.get("nodes", 1),
        stage=inputs["zero"],
        offload_optimizer=of.layout.offload_optimizer,
        offload_params=of.layout.offload_params,
        zero_init=inputs.get("zero_init", True),
        revised=">=" in inputs["formula"],
    )


def _activations(case: dict[str, Any], of: Setup, models: dict[str, Any]) -> Answer:
    model, job, layout = of.architecture, of.job, of.layout
    if _says(case, "a*s/h") and case["unit"] == "coefficient":
        found = rules.attention_coefficient(heads=model.heads, hidden=model.hidden, sequence=job.sequence)
        return float(found)
    if case["unit"] == "fraction":
        return float(rules.selective_share(heads=model.heads, hidden=model.hidden, sequence=job.sequence))
    count = activations.tokens(job, layout)
    if _says(case, "paper approximation"):
        return _size(case, rules.zero_activations(hidden=model.hidden, layers=model.layers, tokens=count).size)
    if _says(case, "per layer"):
        return _size(case, activations.one_block(model, job, layout).size)
    stage = layout.stages[0]
    terms = [activations.kept(model, job, layout, stage)]
    if layout.sharder == "megatron":
        terms += [term for term in [activations.embedding_dropout(model, job, layout, stage)] if term]
        terms += [logits.logits(model, job, layout)] if stage == "only" else []
    return _size(case, total(terms))


def _logits(case: dict[str, Any], of: Setup, models: dict[str, Any]) -> Answer:
    model, job = of.architecture, of.job
    if _says(case, "logits copy"):
        count = activations.tokens(job, of.layout)
        return _size(case, logits.one_copy(model, count, activations.width(job)).size)
    if _says(case, "saved by chunked"):
        eager = replace(job, loss="eager")
        return _size(case, logits.logits(model, eager, of.layout).size - logits.logits(model, job, of.layout).size)
    if _says(case, "per extra token"):
        each = logits.logits(model, replace(job, sequence=1), of.layout).size
        return _size(case, each)
    raise Unsupported(f"quantity {case['quantity']!r}")


def _max_context(case: dict[str, Any], of: Setup, models: dict[str, Any]) -> Answer:
    if of.card is None:
        raise Unsupported("no card is given")
    return largest_context(of.architecture, of.job, of.layout, of.card.usable)


# serving


def _inference(case: dict[str, Any], of: Setup, models: dict[str, Any]) -> Answer:
    job = replace(of.job, kind="serve", runtime="transformers")
    if of.inputs.get("new_tokens") == "short":
        job = replace(job, context=1, prompt=1)
    layout = replace(of.layout, gpus=1)  # layers on several cards: the sum of what they hold
    if _says(case, "per prompt token"):
        sizes = [
            serving.serving(of.architecture, replace(job, prompt=count, context=count), layout).allocated
            for count in (1, 2)
        ]
        return _size(case, sizes[1] - sizes[0])
    moment = serving.serving(of.architecture, job, layout)
    if _says(case, "weights+KV"):
        return _size(case, total(term for term in moment.terms if term.kind in ("states", "kv")))
    return _size(case, moment.device if _says(case, "nvidia-smi", "used") else moment.allocated)


def _kv(case: dict[str, Any], of: Setup, models: dict[str, Any]) -> Answer:
    each = Fraction(of.inputs.get("kv_bytes", kv.value_bytes(of.job.kv)))
    if _says(case, "vLLM accounting"):
        return _size(case, kv.per_token(of.architecture, of.layout, each=each))
    if case["unit"] == "tokens":
        if "kv_memory_gib" not in of.inputs:
            return _vllm(case, of, models)
        one = kv.per_token(of.architecture, of.layout, each=each)
        return int(Fraction(of.inputs["kv_memory_gib"]) * GIB / one) // kv.BLOCK * kv.BLOCK
    term = kv.kv_of(
        of.architecture, of.layout, context=of.job.context, concurrency=of.job.concurrency, each=each
    )
    return _size(case, term.size)


def _vllm(case: dict[str, Any], of: Setup, models: dict[str, Any]) -> Answer:
    model, job, layout = of.architecture, of.job, of.layout
    if _says(case, "activation peak"):
        count = job.sequence if "tokens" in of.inputs or "seq" in of.inputs else job.batched_tokens
        return _size(case, serving.profiled_activations(model, layout, count).size)
    memory = _vllm_memory(of)
    return memory.tokens if case["unit"] == "tokens" else _size(case, memory.cache)


def _vllm_memory(of: Setup) -> serving.VllmMemory:
    if of.card is None:
        raise Unsupported("no card is given")
    return serving.vllm_memory(of.architecture, replace(of.job, kind="serve"), of.layout, of.card.usable, of.known)


def _weights(case: dict[str, Any], of: Setup, models: dict[str, Any]) -> Answer:
    model = of.architecture
    form = format_of(model, of.job.weights)
    if _says(case, "largest layer"):
        largest = max(model.embedding_parameters, model.layer_parameters)
        if _says(case, "embedding"):
            largest = model.vocab * model.hidden
        return _size(case, largest * form.rest)
    size = serving.serving_weights(model, of.layout, form).size
    if _says(case, "used after load"):
        size += (of.context or overhead.context()).size
    return _size(case, size)


# the rest


def _params(case: dict[str, Any], of: Setup, models: dict[str, Any]) -> Answer:
    name = of.inputs.get("model")
    model = described(name, models[name], stated=False) if name in models else of.architecture
    count = model.active_parameters if _says(case, "activated") else model.parameters
    return count if case["unit"] == "params" else count / 1e9


def _host(case: dict[str, Any], of: Setup, models: dict[str, Any]) -> Answer:
    if "formula" in of.inputs:
        return _size(case, rules.deepspeed_host(_deepspeed(of)).size)
    if _says(case, "offloaded optimizer"):
        terms = [term for term in offloaded(of.architecture, of.job, of.layout) if "offloaded" in term.name]
        return _size(case, total(terms))
    return _size(case, total(host_terms(of.architecture, of.job, of.layout)))


def _overhead(case: dict[str, Any], of: Setup, models: dict[str, Any]) -> Answer:
    what = of.inputs.get("what", "")
    if _says(case, "usable memory"):
        if of.card is None:
            raise Unsupported("no card is given")
        return _size(case, of.card.usable)
    if _says(case, "CUDA graph"):
        return _size(case, overhead.CUDA_GRAPHS)
    if "NCCL" in what:
        term = overhead.communicators(of.layout)
        return _size(case, term.size if term else 0)
    lazy = of.inputs.get("cuda_module_loading") == "LAZY" or "first tensor" not in what
    return _size(case, overhead.context(lazy=lazy).size)


def _fit(case: dict[str, Any], of: Setup, models: dict[str, Any]) -> Answer:
    if _says(case, "host RAM"):
        return total(host_terms(of.architecture, of.job, of.layout)) <= of.inputs["host_ram_gb"] * GB
    if of.card is None:
        raise Unsupported("no card is given")
    if _says(case, "KV cache space"):
        return _vllm_memory(of).cache > 0
    if _says(case, "states only"):
        count = largest_states(of.layout, of.card.nominal * GB, lambda model: _all_states(replace(of, model=model), of.layout))
        return count / 1e9
    if _says(case, "largest"):
        recompute = of.layout if "recompute" in of.inputs else replace(of.layout, recompute="full")
        return largest_model(of.job, recompute, of.card.usable) / 1e9
    moment = peak(of.architecture, of.job, _layout(of), of.context)
    return _size(case, moment.device) if case["unit"] != "bool" else moment.device <= of.card.usable


def _rule_of_thumb(case: dict[str, Any], of: Setup, models: dict[str, Any]) -> Answer:
    layout = replace(of.layout, recompute="full")
    return _size(case, peak(of.architecture, of.job, layout).device)


def _quant(case: dict[str, Any], of: Setup, models: dict[str, Any]) -> Answer:
    block = of.inputs["block"]
    if _says(case, "without"):
        return float(constant_bits(block))
    return float(double_quantised_bits(block, of.inputs["second_block"]))


def _checkpoint(case: dict[str, Any], of: Setup, models: dict[str, Any]) -> Answer:
    count = parameters(held(of.architecture, Layout()))
    found = re.search(r"= (\d+) B/param", of.inputs.get("content", ""))
    if found:
        return _size(case, int(found[1]) * count)
    if _says(case, "weights"):
        return _size(case, frozen_weights(of.architecture, Layout(), "only", format_of(of.architecture, "bf16")).size)
    raise Unsupported(f"content {of.inputs.get('content')!r}")


_KINDS: dict[str, Callable[[dict[str, Any], Setup, dict[str, Any]], Answer]] = {
    "train_memory": _training,
    "ft_memory": _training,
    "states": _states,
    "activations": _activations,
    "logits": _logits,
    "max_context": _max_context,
    "infer_memory": _inference,
    "kv_cache": _kv,
    "vllm_kv": _vllm,
    "weights": _weights,
    "params": _params,
    "host_ram": _host,
    "overhead": _overhead,
    "fit": _fit,
    "rule_of_thumb": _rule_of_thumb,
    "quant": _quant,
    "checkpoint": _checkpoint,
}

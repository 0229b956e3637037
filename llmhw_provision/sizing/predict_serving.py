"""What the engine says to published cases of serving."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from llmhw_provision.sizing import kv, overhead, serving
from llmhw_provision.sizing.cases import Answer, Setup
from llmhw_provision.sizing.formats import format_of
from llmhw_provision.sizing.job import Job
from llmhw_provision.sizing.terms import Term, total
from llmhw_provision.units import GIB


def generation_terms(of: Setup) -> tuple[Term, ...]:
    """The terms behind the memory of one GPU in generation."""
    moment = serving.serving(of.architecture, _generation(of), replace(of.layout, gpus=1))
    if of.says("weights+KV"):
        return tuple(term for term in moment.terms if term.kind in ("states", "kv"))
    if of.says("nvidia-smi", "used"):
        return moment.terms
    return tuple(term for term in moment.terms if term.kind != "overhead")


def _generation(of: Setup) -> Job:
    job = replace(of.job, kind="serve", runtime="transformers")
    return replace(job, context=1, prompt=1) if of.inputs.get("new_tokens") == "short" else job


def inference_case(of: Setup) -> Answer:
    """Memory of generation."""
    if not of.says("per prompt token"):
        return of.in_unit(total(generation_terms(of)))
    job = _generation(of)
    layout = replace(of.layout, gpus=1)  # layers on several cards: the sum of what they hold
    sizes = [
        serving.serving(of.architecture, replace(job, prompt=count, context=count), layout).allocated
        for count in (1, 2)
    ]
    return of.in_unit(sizes[1] - sizes[0])


def kv_case(of: Setup) -> Answer:
    """KV cache, or tokens in it."""
    each = Fraction(of.inputs.get("kv_bytes", kv.value_bytes(of.job.kv)))
    if of.says("vLLM accounting"):
        return of.in_unit(kv.per_token(of.architecture, of.layout, each=each))
    if of.unit == "tokens":
        if "kv_memory_gib" not in of.inputs:
            return vllm_case(of)
        one = kv.per_token(of.architecture, of.layout, each=each)
        return int(Fraction(of.inputs["kv_memory_gib"]) * GIB / one) // kv.BLOCK * kv.BLOCK
    term = kv.kv_of(of.architecture, of.layout, context=of.job.context, concurrency=of.job.concurrency, each=each)
    return of.in_unit(term.size)


def vllm_case(of: Setup) -> Answer:
    """vLLM's accounting."""
    model, job, layout = of.architecture, of.job, of.layout
    if of.says("activation peak"):
        count = job.sequence if "tokens" in of.inputs or "seq" in of.inputs else job.batched_tokens
        return of.in_unit(serving.profiled_activations(model, layout, count).size)
    memory = cache_memory(of)
    return memory.tokens if of.unit == "tokens" else of.in_unit(max(0, memory.cache))


def cache_memory(of: Setup) -> serving.VllmMemory:
    """vLLM's accounting of the case."""
    return serving.vllm_memory(of.architecture, replace(of.job, kind="serve"), of.layout, of.gpu.usable, of.known)


def weights_case(of: Setup) -> Answer:
    """Weights, or the largest layer."""
    model = of.architecture
    form = format_of(model, of.job.weights)
    if of.says("largest layer"):
        largest = max(model.embedding_parameters, model.layer_parameters)
        if of.says("embedding"):
            largest = model.vocab * model.hidden
        return of.in_unit(largest * form.rest)
    size = serving.serving_weights(model, of.layout, form).size
    if of.says("used after load"):
        size += (of.context or overhead.context()).size
    return of.in_unit(size)

"""What the engine says to published cases of training."""

from __future__ import annotations

from dataclasses import replace

from llmhw_provision.sizing import activations, logits, rules
from llmhw_provision.sizing.case_error import Unsupported
from llmhw_provision.sizing.cases import Answer, Setup
from llmhw_provision.sizing.formats import format_of
from llmhw_provision.sizing.job import Layout, under
from llmhw_provision.sizing.search import largest_context, least_recompute
from llmhw_provision.sizing.states import frozen_weights, training_states
from llmhw_provision.sizing.terms import Term, total
from llmhw_provision.sizing.training import Moment, peak


def least_layout(of: Setup) -> Layout:
    """The layout; what a case leaves open about recomputation is the least that fits its card."""
    if "recompute" in of.inputs or of.card is None:
        return of.layout
    return least_recompute(of.architecture, of.job, of.layout, of.card.usable)


def _shown(of: Setup, moment: Moment) -> tuple[Term, ...]:
    """The terms of a moment that the tool of the case shows: tensors, allocator or whole device."""
    if of.says("active", "max GPU RAM", "peak memory"):
        return tuple(term for term in moment.terms if term.kind != "overhead")
    if of.says("reserved"):
        return tuple(term for term in moment.terms if term.kind != "overhead" or term.name == "fragmentation")
    return moment.terms


def training_terms(of: Setup) -> tuple[Term, ...]:
    """The terms behind the memory of one GPU in training."""
    return _shown(of, peak(of.architecture, of.job, least_layout(of), of.context))


def training_case(of: Setup) -> Answer:
    """Memory of training."""
    if of.says("saved by selective recompute"):
        return of.in_unit(_selective_saving(of))
    size = total(training_terms(of))
    return of.in_unit(size * of.layout.gpus if of.says("sum over") else size)


def _selective_saving(of: Setup) -> int:
    """Bytes that selective recomputation saves; none once a fused kernel keeps no scores."""
    if of.job.fused_attention:
        return 0
    layouts = [replace(of.layout, recompute=recompute) for recompute in ("none", "selective")]
    none, selective = (activations.kept(of.architecture, of.job, layout).size for layout in layouts)
    return none - selective


def states_case(of: Setup) -> Answer:
    """Model states."""
    if "rule" in of.inputs:
        weights = frozen_weights(of.architecture, of.layout, "only", format_of(of.architecture, of.job.weights))
        return of.in_unit(rules.accelerate_training(weights.size).size)
    if "formula" in of.inputs:
        return of.in_unit(rules.deepspeed_gpu(deepspeed_setting(of)).size)
    if "from_fsdp" in of.inputs:
        sizes = [
            all_states(of, Layout(gpus=of.inputs[key], zero=3, sharder="fsdp")) for key in ("from_fsdp", "to_fsdp")
        ]
        return of.in_unit(sizes[0] - sizes[1])
    if of.says("optimizer states per GPU"):
        states = training_states(of.architecture, of.job, of.layout)
        return of.in_unit(states.optimizer.size if states.optimizer else 0)
    if of.says("total"):
        return of.in_unit(all_states(of, Layout()))
    return of.in_unit(all_states(of, of.layout))


def all_states(of: Setup, layout: Layout) -> int:
    """Weights, gradients, optimizer of the most loaded stage; what is offloaded is not on the GPU."""
    sizes = []
    for stage in layout.stages:
        states = training_states(of.architecture, of.job, layout, stage)
        found = [None if layout.offload_params else states.weights, states.adapters]
        found += [] if layout.offload_optimizer else [states.gradients, states.optimizer]
        sizes.append(total(term for term in found if term is not None))
    return max(sizes)


def deepspeed_setting(of: Setup) -> rules.DeepSpeedSetting:
    """The case in the terms of DeepSpeed's estimators."""
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


def activations_case(of: Setup) -> Answer:
    """Activations."""
    model, job, layout = of.architecture, under(of.job, of.layout), of.layout
    if of.says("a*s/h") and of.unit == "coefficient":
        return float(rules.attention_coefficient(heads=model.heads, hidden=model.hidden, sequence=job.sequence))
    if of.unit == "fraction":
        return float(rules.selective_share(heads=model.heads, hidden=model.hidden, sequence=job.sequence))
    count = activations.tokens(job, layout)
    if of.says("paper approximation"):
        return of.in_unit(rules.zero_activations(hidden=model.hidden, layers=model.layers, tokens=count).size)
    if of.says("per layer"):
        return of.in_unit(activations.one_block(model, job, layout).size)
    stage = layout.stages[0]
    found = [activations.kept(model, job, layout, stage)]
    if layout.sharder == "megatron":
        found += [term for term in [activations.embedding_dropout(model, job, layout, stage)] if term]
        found += [logits.logits(model, job, layout)] if stage == "only" else []
    return of.in_unit(total(found))


def logits_case(of: Setup) -> Answer:
    """Logits."""
    model, job = of.architecture, of.job
    if of.says("logits copy"):
        count = activations.tokens(job, of.layout)
        return of.in_unit(logits.one_copy(model, count, activations.width(job)).size)
    if of.says("saved by chunked"):
        eager, chunked = replace(job, loss="eager"), replace(job, loss="chunked")
        return of.in_unit(logits.logits(model, eager, of.layout).size - logits.logits(model, chunked, of.layout).size)
    if of.says("per extra token"):
        each = logits.logits(model, replace(job, sequence=1), of.layout).size
        return of.in_unit(each)
    raise Unsupported(f"quantity {of.quantity!r}")


def max_context_case(of: Setup) -> Answer:
    """Tokens of the longest sequence."""
    layout = of.layout if "recompute" in of.inputs else replace(of.layout, recompute="full")
    return largest_context(of.architecture, of.job, layout, of.gpu.usable)

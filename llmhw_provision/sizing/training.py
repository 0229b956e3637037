"""Training on one GPU: the moments at which memory can peak, each with its terms."""

from __future__ import annotations

from dataclasses import dataclass

from llmhw_provision.model import Architecture
from llmhw_provision.sizing import activations, buffers, logits, overhead, preference
from llmhw_provision.sizing.job import Job, Layout, under
from llmhw_provision.sizing.states import frozen_format, training_states
from llmhw_provision.sizing.terms import Term, total


@dataclass(frozen=True)
class Moment:
    """One moment of a step on the GPU of one pipeline stage, with everything that lives then."""

    name: str
    stage: str
    terms: tuple[Term, ...]

    @property
    def allocated(self) -> int:
        """Bytes in tensors: what torch.cuda.max_memory_allocated shows."""
        return total(term for term in self.terms if term.kind != "overhead")

    @property
    def reserved(self) -> int:
        """Bytes that PyTorch's allocator holds, fragmentation included: torch.cuda.max_memory_reserved."""
        return self.allocated + total(term for term in self.terms if term.name == "fragmentation")

    @property
    def device(self) -> int:
        """Bytes that nvidia-smi shows, CUDA context and NCCL included."""
        return total(self.terms)


_ANSWERS = "generation of answers"


def moments(
    model: Architecture, job: Job, layout: Layout, context: Term | None = None, known: Known | None = None
) -> tuple[Moment, ...]:
    """Every moment of every pipeline stage that can be the peak; the largest decides.

    `known` keeps what layouts of the same model, job and GPUs share; it must not be passed on to others.
    """
    found: list[Moment] = []
    job = under(job, layout)
    known = Known() if known is None else known
    tail = (context or overhead.context(), *_some(overhead.communicators(layout)))
    for stage in layout.stages:
        held, active = known.held(model, job, layout, stage), known.active(model, job, layout, stage)
        for name, extra in _passing(layout, held, active):
            terms = (*held.kept, *extra)
            found.append(Moment(name, stage, (*terms, overhead.fragmentation(total(terms)), *tail)))
        if job.kind in ("ppo", "grpo"):
            terms = (*held.kept, *_before(layout, held), *preference.generation(model, job, layout))
            found.append(Moment(_ANSWERS, stage, (*terms, overhead.fragmentation(total(terms)), *tail)))
    return tuple(found)


def peak(model: Architecture, job: Job, layout: Layout, context: Term | None = None) -> Moment:
    """The moment that needs most."""
    return max(moments(model, job, layout, context), key=lambda moment: moment.device)


def gradients_persist(layout: Layout) -> bool:
    """Whether gradients are there before backward begins: accumulated, sharded, or in buckets of their own."""
    return layout.micro_batches > 1 or layout.zero >= 2 or layout.dp > 1 or layout.sharder == "megatron"


@dataclass(frozen=True)
class Held:
    """Terms of one stage that follow from how states are divided, whatever the micro-batch."""

    kept: tuple[Term, ...]  # live through the whole step
    gradients: tuple[Term, ...]
    unit: tuple[Term, ...]
    head: tuple[Term, ...]  # put together in the loss
    pair: tuple[Term, ...]  # put together in backward
    copy: tuple[Term, ...]  # of the optimizer step
    shared: tuple[Term, ...]


@dataclass(frozen=True)
class Active:
    """Terms of one stage that follow from the micro-batch, whatever shards the states."""

    kept: tuple[Term, ...]
    loss: tuple[Term, ...]
    block: tuple[Term, ...]
    shared: tuple[Term, ...]


class Known:
    """Terms of one model and job on a number of GPUs, by what they read of a layout."""

    def __init__(self) -> None:
        self._held: dict[tuple[object, ...], Held] = {}
        self._active: dict[tuple[object, ...], Active] = {}

    def held(self, model: Architecture, job: Job, layout: Layout, stage: str) -> Held:
        """The terms of states."""
        of = layout
        key = (
            *(stage, of.tp, of.pp, of.ep, of.shards, of.dp > 1, of.zero, of.sharder),
            *(of.offload_optimizer, of.offload_params),
        )
        if key not in self._held:
            self._held[key] = _held(model, job, layout, stage)
        return self._held[key]

    def active(self, model: Architecture, job: Job, layout: Layout, stage: str) -> Active:
        """The terms of a micro-batch."""
        of = layout
        batches = of.micro_batches if of.pp > 1 else 1
        key = (
            *(stage, of.tp, of.pp, of.vpp, of.cp, of.micro_batch, batches, of.recompute),
            *(of.sequence_parallel, of.offload_activations, of.sharder),
        )
        if key not in self._active:
            self._active[key] = _active(model, job, layout, stage)
        return self._active[key]


def _held(model: Architecture, job: Job, layout: Layout, stage: str) -> Held:
    states = training_states(model, job, layout, stage)
    kept = [] if layout.offload_params else [states.weights]
    kept += [] if layout.offload_optimizer else _some(states.optimizer)
    kept += _some(states.adapters)
    kept += preference.other_models(model, job, layout, stage)
    pair = buffers.layers_together(model, job, layout, head=False)
    if job.method != "full" and (form := frozen_format(model, job)).quantised:
        pair.append(buffers.dequantised(model, layout, form))
    return Held(
        tuple(kept),
        () if layout.offload_optimizer else tuple(_some(states.gradients)),
        tuple(_some(states.gradient_unit)),
        tuple(buffers.layers_together(model, job, layout, head=stage != "first")),
        tuple(pair),
        tuple(_some(buffers.step_copy(model, job, layout, stage))),
        buffers.passing(model, job, layout, stage),
    )


def _active(model: Architecture, job: Job, layout: Layout, stage: str) -> Active:
    kept = [activations.kept(model, job, layout, stage)]
    kept += _some(activations.embedding_dropout(model, job, layout, stage)) if layout.sharder == "megatron" else []
    loss = [logits.logits(model, job, layout)] if stage != "first" else []
    if layout.pp > 1 and layout.sharder == "fsdp" and stage == "last":
        loss.append(logits.kept_outputs(model, job, layout))
    block = [activations.one_block(model, job, layout)] if layout.recompute != "none" else []
    return Active(tuple(kept), tuple(loss), tuple(block), tuple(_some(buffers.sequences(model, job, layout))))


def _before(layout: Layout, held: Held) -> tuple[Term, ...]:
    return held.gradients if gradients_persist(layout) else ()


def _passing(layout: Layout, held: Held, active: Active) -> list[tuple[str, tuple[Term, ...]]]:
    before, shared, unit = _before(layout, held), (*held.shared, *active.shared), held.unit
    name = "loss" if active.loss else "end of forward"
    found = [(name, (*before, *active.kept, *active.loss, *unit, *held.head, *shared))]
    if layout.recompute != "none":
        kept, block, pair = active.kept, active.block, held.pair
        found.append(("backward of the last layer", (*before, *kept, *block, *unit, *pair, *shared)))
        found.append(("backward of the first layer", (*held.gradients, *block, *unit, *pair, *shared)))
    found.append(("optimizer step", (*held.gradients, *held.copy, *shared)))
    return found


def _some(term: Term | None) -> list[Term]:
    return [] if term is None else [term]

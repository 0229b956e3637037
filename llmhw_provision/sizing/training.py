"""Training on one GPU: the moments at which memory can peak, each with its terms."""

from __future__ import annotations

from dataclasses import dataclass

from llmhw_provision.model import Architecture
from llmhw_provision.sizing import activations, buffers, logits, overhead, preference
from llmhw_provision.sizing.job import Job, Layout, under
from llmhw_provision.sizing.states import States, frozen_format, training_states
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


def moments(model: Architecture, job: Job, layout: Layout, context: Term | None = None) -> tuple[Moment, ...]:
    """Every moment of every pipeline stage that can be the peak; the largest decides."""
    found: list[Moment] = []
    job = under(job, layout)
    for stage in layout.stages:
        states = training_states(model, job, layout, stage)
        kept = _kept(model, job, layout, states, stage)
        for name, extra in _passing(model, job, layout, states, stage):
            terms = (*kept, *extra)
            tail = (
                overhead.fragmentation(total(terms)),
                context or overhead.context(),
                *_some(overhead.communicators(layout)),
            )
            found.append(Moment(name, stage, (*terms, *tail)))
    return tuple(found)


def peak(model: Architecture, job: Job, layout: Layout, context: Term | None = None) -> Moment:
    """The moment that needs most."""
    return max(moments(model, job, layout, context), key=lambda moment: moment.device)


def _kept(model: Architecture, job: Job, layout: Layout, states: States, stage: str) -> list[Term]:
    """What lives through the whole step on the GPU."""
    terms = [] if layout.offload_params else [states.weights]
    terms += [] if layout.offload_optimizer else _some(states.optimizer)
    terms += _some(states.adapters)
    terms += preference.other_models(model, job, layout, stage)
    return terms


def gradients_persist(layout: Layout) -> bool:
    """Whether gradients are there before backward begins: accumulated, sharded, or in buckets of their own."""
    return layout.micro_batches > 1 or layout.zero >= 2 or layout.dp > 1 or layout.sharder == "megatron"


def _passing(model: Architecture, job: Job, layout: Layout, states: States, stage: str) -> list[tuple[str, list[Term]]]:
    gradients = [] if layout.offload_optimizer else _some(states.gradients)
    before = gradients if gradients_persist(layout) else []
    shared = list(buffers.passing(model, job, layout, stage))
    kept = [activations.kept(model, job, layout, stage)]
    kept += _some(activations.embedding_dropout(model, job, layout, stage)) if layout.sharder == "megatron" else []
    unit = _some(states.gradient_unit)
    loss = [logits.logits(model, job, layout)] if stage != "first" else []
    if layout.pp > 1 and layout.sharder == "fsdp" and stage == "last":
        loss.append(logits.kept_outputs(model, job, layout))
    head = buffers.layers_together(model, job, layout, head=stage != "first")
    pair = buffers.layers_together(model, job, layout, head=False)
    if job.method != "full" and (form := frozen_format(model, job)).quantised:
        pair.append(buffers.dequantised(model, layout, form))
    found = [("loss" if loss else "end of forward", [*before, *kept, *loss, *unit, *head, *shared])]
    if layout.recompute != "none":
        block = activations.one_block(model, job, layout)
        found.append(("backward of the last layer", [*before, *kept, block, *unit, *pair, *shared]))
        found.append(("backward of the first layer", [*gradients, block, *unit, *pair, *shared]))
    found.append(("optimizer step", [*gradients, *_some(buffers.step_copy(model, job, layout, stage)), *shared]))
    if job.kind in ("ppo", "grpo"):
        found.append(("generation of answers", [*before, *preference.generation(model, job, layout)]))
    return found


def _some(term: Term | None) -> list[Term]:
    return [] if term is None else [term]

"""What the arithmetic of a claim is made of: the engine's own terms, in a form to print."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from llmhw_provision.catalogue.loader import Gpu, find
from llmhw_provision.model import Architecture
from llmhw_provision.sizing.cards import Card, card_of
from llmhw_provision.sizing.estimate import Estimate, Hardware
from llmhw_provision.sizing.job import Job, Layout
from llmhw_provision.sizing.layout import best
from llmhw_provision.sizing.models import resolve_model
from llmhw_provision.sizing.states import States, training_states
from llmhw_provision.sizing.terms import Term
from llmhw_provision.units import GIB, disk, memory
from llmhw_provision.workload import Parallel


@dataclass(frozen=True)
class Shown:
    """What comes out of the arithmetic: whether the claim is right, its lines in symbols, values for the words."""

    right: bool
    lines: tuple[str, ...]
    values: Mapping[str, str] = field(default_factory=dict)


Arithmetic = Callable[[], Shown]


def model(name: str) -> Architecture:
    """A model of the catalogue, or of a parameter count."""
    return resolve_model(name)


def gpu(name: str) -> Gpu:
    """A record of the catalogue."""
    return find("gpus", name, Gpu)


def card(name: str) -> Card:
    """The card of a record."""
    return card_of(gpu(name), name)


def about(value: float, said: float, share: float = 0.03) -> bool:
    """Whether a value is what was said, give or take `share`."""
    return abs(value / said - 1) <= share


def states_of(name: str, *, scheme: Any = "mixed", ways: int = 1, zero: int = 0) -> tuple[Term, ...]:
    """Weights, gradients and optimizer on one of `ways` GPUs."""
    layout = Layout(gpus=ways, zero=zero, sharder="deepspeed" if zero else "ddp")
    found: States = training_states(model(name), Job(scheme=scheme), layout)
    return tuple(term for term in (found.weights, found.gradients, found.optimizer) if term is not None)


def size(terms: tuple[Term, ...]) -> int:
    """Sum in bytes."""
    return sum(term.size for term in terms)


def each(terms: tuple[Term, ...], name: str) -> str:
    """States as bytes per parameter of the model `name`."""
    count = model(name).parameters
    return f"{model(name).title}: {count:,} parameters × {size(terms) / count:.3g} B = {disk(size(terms))}"


def line(term: Term) -> str:
    """One term with its formula."""
    return f"{term.name} = {term.formula} = {disk(term.size)} ({memory(term.size)})"


def trained(name: str, on: str, gpus: int, *, offload: str = "none", **job: Any) -> Estimate:
    """The best layout of training on `gpus` cards, one sample of 2,048 tokens per card and nothing offloaded."""
    given = Parallel.model_validate({"offload": offload, **job.pop("layout", {})})
    return best(Job(**job), model(name), Hardware(card(on), gpus), given, gpus)


def least(name: str, on: str, gpus: int, **job: Any) -> Estimate:
    """The same with everything recomputed, which needs least."""
    return trained(name, on, gpus, layout={"recompute": "full"}, **job)


def served(name: str, on: str, gpus: int, *, weights: str, concurrency: int = 8, context: int = 4096) -> Estimate:
    """Serving by vLLM with tensor parallelism over `gpus` cards."""
    job = Job(kind="serve", weights=weights, concurrency=concurrency, context=context)
    return best(job, model(name), Hardware(card(on), gpus), Parallel(tp=gpus), 1)


def need(found: Estimate) -> str:
    """The need of one GPU against what it has."""
    return f"{memory(found.device_bytes)} ± {found.device_band / GIB:.1f} GiB / {memory(found.limit)}"


def verdict(title: str, found: Estimate) -> str:
    """An estimate in one line of symbols: what, need against room, ✓ or ✗."""
    mark = {"fits": "✓", "tight": "≈", "does not fit": "✗"}[found.verdict]
    return f"{title}: {need(found)} {mark}"


def fits(found: Estimate) -> bool:
    """Whether it surely fits or may fit within its uncertainty."""
    return found.verdict != "does not fit"

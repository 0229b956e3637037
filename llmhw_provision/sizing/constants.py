"""Constants that a user has measured: per GPU a factor on memory and on time, each shown as a term of its own.

A factor on the whole need is the same as a card that is smaller by it, so that the choice of a layout needs no other
arithmetic: it is made for the smaller card, and the difference appears as the term "calibration".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from llmhw_provision.catalogue.loader import names
from llmhw_provision.documents import Record, read
from llmhw_provision.errors import InputError
from llmhw_provision.sizing.estimate import Estimate, Hardware
from llmhw_provision.sizing.job import Job
from llmhw_provision.sizing.speed import Speed
from llmhw_provision.sizing.step import Part
from llmhw_provision.sizing.terms import Term, number, up
from llmhw_provision.sizing.training import Moment

LEAST, MOST = 0.5, 2.0  # a factor beyond says that something else ran than was described
NAME = "calibration"

ConstantsName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]


class Factor(Record):
    """Measured over predicted: the median of `runs` runs, from which none is further than `spread`."""

    factor: float = Field(ge=LEAST, le=MOST)
    runs: int = Field(ge=1)
    spread: float = Field(ge=0, le=1)

    @property
    def exact(self) -> Fraction:
        """The factor with four decimals."""
        return Fraction(round(self.factor * 10_000), 10_000)


class GpuConstants(Record):
    """What was measured on one kind of GPU; time is that of a step or of a token.

    vLLM has no factor on memory: it takes its share of the card whatever is served.
    """

    training_memory: Factor | None = None
    generation_memory: Factor | None = None
    training_time: Factor | None = None
    decoding_time: Factor | None = None


class Constants(Record):
    """A file of constants: the user's own, written by --calibrate and read by --constants."""

    format: Literal[1] = Field(alias="schema")
    name: ConstantsName
    measured: str = Field(max_length=400, description="file of the runs, with the start of its SHA-256")
    gpus: dict[str, GpuConstants] = Field(min_length=1)

    def of(self, kind: str) -> GpuConstants:
        """The constants of a GPU of the catalogue, empty when nothing was measured on it."""
        return self.gpus.get(kind, GpuConstants())


def read_constants(path: Path) -> Constants:
    """The constants in a file; raises InputError, also for GPUs that the catalogue does not know."""
    found = read(path, Constants)
    unknown = [kind for kind in found.gpus if kind not in names("gpus")]
    if unknown:
        raise InputError(f"{path}: gpus.{unknown[0]}: not in the catalogue", f"known: {', '.join(names('gpus'))}")
    return found


def measured_best(
    chosen: Callable[[Hardware], Estimate], job: Job, hardware: Hardware, constants: Constants | None
) -> Estimate:
    """The estimate of `job` that `chosen` makes of `hardware`, with the measured factor on memory."""
    memory = _memory(constants.of(hardware.card.kind), job) if constants else None
    if constants is None or memory is None:
        return chosen(hardware)
    smaller = replace(hardware.card, usable=int(hardware.card.usable / memory.exact))
    found = chosen(replace(hardware, card=smaller))
    moments = tuple(_more(moment, constants.name, memory) for moment in found.moments)
    return replace(found, hardware=hardware, moments=moments)


def _memory(of: GpuConstants, job: Job) -> Factor | None:
    if job.trains:
        return of.training_memory
    return of.generation_memory if job.runtime == "transformers" else None


def room(found: Estimate) -> int:
    """Bytes of the card for what the engine computes itself, the calibration taken off."""
    term = next((term for term in found.peak.terms if term.name == NAME), None)
    if term is None:
        return found.limit
    return found.limit * (found.device_bytes - term.size) // found.device_bytes


def measured_speed(found: Speed | None, kind: str, constants: Constants | None) -> Speed | None:
    """The speed with the measured factor on time as a part of its own."""
    if found is None or constants is None:
        return found
    of = constants.of(kind)
    if found.step is not None and of.training_time is not None:
        parts = (*found.step.parts, _slower(found.step.seconds, constants.name, of.training_time))
        rate = found.read * found.step.seconds / sum(part.seconds for part in parts)
        return replace(found, step=replace(found.step, parts=parts), read=rate)
    if found.served is not None and of.decoding_time is not None:
        part = _slower(found.served.token_seconds, constants.name, of.decoding_time)
        return replace(found, served=replace(found.served, token=(*found.served.token, part)))
    return found


def words(constants: Constants, kinds: tuple[str, ...]) -> list[str]:
    """What is known of GPUs of `kinds`, one line each."""
    lines = []
    for kind in dict.fromkeys(kinds):
        of = constants.of(kind)
        parts = [
            f"{name.replace('_', ' ')} × {factor.factor:.3g} ({_runs(factor)})"
            for name, factor in of
            if factor is not None
        ]
        lines.append(f"constants {constants.name}: {kind} {', '.join(parts) or 'was not measured, nothing applied'}")
    return lines


def _runs(factor: Factor) -> str:
    return "1 run" if factor.runs == 1 else f"{factor.runs} runs ±{factor.spread:.0%}"


def _more(moment: Moment, name: str, factor: Factor) -> Moment:
    more = up(moment.device * (factor.exact - 1))
    text = f"{moment.device:,} B × ({number(factor.exact)} - 1)"
    return replace(moment, terms=(*moment.terms, Term(NAME, more, text, _source(name, factor), "overhead")))


def _slower(seconds: float, name: str, factor: Factor) -> Part:
    text = f"{seconds:.4g} s × ({number(factor.exact)} - 1)"
    return Part(NAME, seconds * float(factor.exact - 1), text, _source(name, factor))


def _source(name: str, factor: Factor) -> str:
    return f"constants {name}: measured over predicted, {_runs(factor)}"

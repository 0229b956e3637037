"""Runs that a user has measured, and the constants that follow from them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from pydantic import Field

from llmhw_provision.catalogue.loader import Gpu, find
from llmhw_provision.documents import Record, dump_json, read, write_atomic
from llmhw_provision.errors import InputError, Problem, ProvisionError
from llmhw_provision.sizing.cards import card_of
from llmhw_provision.sizing.constants import LEAST, MOST, Constants, ConstantsName, Factor, GpuConstants
from llmhw_provision.sizing.estimate import Estimate, Hardware
from llmhw_provision.sizing.layout import best, describe
from llmhw_provision.sizing.models import resolve_model
from llmhw_provision.sizing.need import need
from llmhw_provision.sizing.speed import speed
from llmhw_provision.units import memory
from llmhw_provision.workload import MemorySize, Workload

DISAGREE = 1.5  # largest over smallest factor of one kind
Kind = Literal["training_memory", "generation_memory", "training_time", "decoding_time"]


class MeasuredRun(Record):
    """One run: what ran on what, and what was seen."""

    gpu: str
    gpus: int = Field(default=1, ge=1, le=100_000, description="GPUs per host")
    nodes: int = Field(default=1, ge=1, le=100_000)
    workload: Workload
    peak_memory: MemorySize | None = Field(default=None, description="of the fullest GPU, as nvidia-smi shows it")
    tokens_per_second: float | None = Field(default=None, gt=0, description="of all GPUs; of answers when serving")


class Measured(Record):
    """measured.json: the user's runs and the name that their constants get."""

    format: Literal[1] = Field(alias="schema")
    name: ConstantsName
    runs: tuple[MeasuredRun, ...] = Field(min_length=1, max_length=1000)


@dataclass(frozen=True)
class Compared:
    """One measured figure against its prediction; above 1 more memory or time than predicted."""

    run: int
    gpu: str
    kind: Kind
    factor: float
    text: str
    layout: str


def calibrate(path: Path) -> tuple[Constants, tuple[Compared, ...]]:
    """Constants from the runs in the file at `path`; raises InputError naming every run that makes no sense."""
    measured = read(path, Measured)
    found: list[Compared] = []
    problems: list[Problem] = []
    for index, run in enumerate(measured.runs):
        try:
            found += _compared(index, run, path.parent)
        except ProvisionError as error:
            problems += [Problem(f"{path}: runs[{index}]: {item.message}", item.hint) for item in error.problems]
    problems += _disagreeing(path, found)
    if problems:
        raise InputError.of(problems)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    gpus = {
        gpu: _constants([item for item in found if item.gpu == gpu]) for gpu in sorted({item.gpu for item in found})
    }
    return Constants(schema=1, name=measured.name, measured=f"{path.name} ({digest})", gpus=gpus), tuple(found)


def write_constants(constants: Constants, path: Path) -> None:
    """Writes the file; raises InputError rather than replacing anything but constants of the same name."""
    if path.exists():
        try:
            old = read(path, Constants).name
        except ProvisionError:
            raise InputError(f"{path}: is there and is no file of constants", "name another with --constants") from None
        if old != constants.name:
            raise InputError(f"{path}: holds the constants {old}, not {constants.name}", "name another file")
    write_atomic(path, dump_json(constants))


def _compared(index: int, run: MeasuredRun, folder: Path) -> list[Compared]:
    if run.peak_memory is None and run.tokens_per_second is None:
        raise InputError("measures nothing", "give peak_memory or tokens_per_second")
    gpu = find("gpus", run.gpu, Gpu)
    wanted = need(run.workload, resolve_model(run.workload.model, folder))
    if run.peak_memory is not None and run.peak_memory > gpu.memory_bytes:
        raise InputError(f"peak_memory {memory(run.peak_memory)} exceeds the {memory(gpu.memory_bytes)} of {gpu.title}")
    if run.peak_memory is not None and not wanted.job.trains and wanted.job.runtime == "vllm":
        raise InputError("peak_memory of vLLM says nothing: it takes its share whatever is served", "leave it out")
    hardware = Hardware(card_of(gpu, run.gpu), run.gpus, run.nodes)
    chosen = best(wanted.job, wanted.model, hardware, run.workload.layout, run.workload.batch)
    layout = describe(chosen.job, chosen.layout)
    found: list[Compared] = []
    if run.peak_memory is not None:
        text = f"{memory(run.peak_memory)} measured, {memory(chosen.device_bytes)} predicted"
        kind: Kind = "training_memory" if chosen.job.trains else "generation_memory"
        found.append(_one(index, run.gpu, kind, run.peak_memory / chosen.device_bytes, text, layout))
    if run.tokens_per_second is not None:
        found.append(_timed(index, run, chosen, run.tokens_per_second, layout))
    return found


def _timed(index: int, run: MeasuredRun, chosen: Estimate, rate: float, layout: str) -> Compared:
    fast = speed(chosen)
    if fast is None or not fast.tokens_per_second:
        raise InputError("tokens_per_second cannot be compared: no speed is predicted for such a job")
    if fast.step is not None and rate / fast.step.gpus * fast.step.model_flops > fast.step.top:
        share = rate / fast.step.gpus * fast.step.model_flops / fast.step.top
        raise InputError(f"{rate:,.0f} tokens/s is {share:.1f} times the peak of {fast.chip.title}")
    text = f"{rate:,.1f} tokens/s measured, {fast.tokens_per_second:,.1f} predicted"
    kind: Kind = "training_time" if chosen.job.trains else "decoding_time"
    return _one(index, run.gpu, kind, fast.tokens_per_second / rate, text, layout)


def _one(index: int, gpu: str, kind: Kind, factor: float, text: str, layout: str) -> Compared:
    if not LEAST <= factor <= MOST:
        raise InputError(
            f"{kind} {text}: factor {factor:.3g} is outside {LEAST:g} to {MOST:g}",
            f"what ran is not what is described ({layout})",
        )
    return Compared(index, gpu, kind, factor, text, layout)


def _disagreeing(path: Path, found: list[Compared]) -> list[Problem]:
    """Runs on one kind of GPU whose factors no single constant can stand for."""
    problems = []
    for key in sorted({(item.gpu, item.kind) for item in found}):
        same = sorted((item for item in found if (item.gpu, item.kind) == key), key=lambda item: item.factor)
        if same[-1].factor > DISAGREE * same[0].factor:
            low, high = same[0], same[-1]
            text = f"runs[{low.run}] × {low.factor:.3g} and runs[{high.run}] × {high.factor:.3g}"
            problems.append(Problem(f"{path}: {key[0]} {key[1]}: {text} contradict each other", "leave one out"))
    return problems


def _constants(found: list[Compared]) -> GpuConstants:
    def factor(kind: Kind) -> Factor | None:
        values = [item.factor for item in found if item.kind == kind]
        return _factor(values) if values else None

    return GpuConstants(
        training_memory=factor("training_memory"),
        generation_memory=factor("generation_memory"),
        training_time=factor("training_time"),
        decoding_time=factor("decoding_time"),
    )


def _factor(values: Iterable[float]) -> Factor:
    items = tuple(values)
    middle = median(items)
    spread = max(abs(value / middle - 1) for value in items)
    return Factor(factor=round(middle, 4), runs=len(items), spread=round(spread, 4))

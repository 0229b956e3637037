"""One sizing as a self-contained HTML page: memory of a GPU, what another batch or context would need, speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from llmhw_provision.claims.chinese import WORDS, translated
from llmhw_provision.errors import InputError
from llmhw_provision.report.page import CODES, Language, template
from llmhw_provision.report.roofline import Roofline, roofline
from llmhw_provision.report.sizing_words import LABELS, PHRASES
from llmhw_provision.sizing.bands import band
from llmhw_provision.sizing.constants import room
from llmhw_provision.sizing.estimate import Estimate, Verdict, verdict
from llmhw_provision.sizing.layout import describe
from llmhw_provision.sizing.limits import require
from llmhw_provision.sizing.search import need
from llmhw_provision.sizing.speed import Speed
from llmhw_provision.sizing.training import Moment
from llmhw_provision.units import GIB, memory

SYMBOLS: dict[str, str] = {"fits": "✓", "tight": "≈", "does not fit": "✗", "no layout": "–"}
# by kind of term; terms of one kind take the shades in turn
_COLOURS = {
    "states": ("#1f4e9c", "#4f83cc", "#8fb4e3", "#16386f"),
    "activations": ("#c96a12", "#e59a4f"),
    "logits": ("#b8930a",),
    "kv": ("#2c7a4b",),
    "buffers": ("#7a4aa0", "#a582c2"),
    "overhead": ("#6b7280", "#9aa1ab", "#c3c8cf", "#4b5159"),
}
_STEPS = (-2, -1, 0, 1, 2, 3)  # rows and columns of what-if, in doublings


@dataclass(frozen=True)
class Sheet:
    """One machine of a sizing: its title, what was found on it or why nothing was."""

    title: str
    gpus: str
    card: str
    found: Estimate | None
    speed: Speed | None
    problem: str = ""

    @property
    def verdict(self) -> str:
        """fits, tight, does not fit or no layout."""
        return self.found.verdict if self.found else "no layout"

    @property
    def layout(self) -> str:
        """The layout in words."""
        return describe(self.found.job, self.found.layout) if self.found else ""


@dataclass(frozen=True)
class Segment:
    """One term in a bar."""

    number: int
    name: str
    size: str
    formula: str
    source: str
    colour: str
    percent: float


@dataclass(frozen=True)
class Bar:
    """The memory of one GPU at its peak, in percent of `whole`."""

    stage: str
    moment: str
    total: str
    segments: tuple[Segment, ...]
    limit_percent: float
    band_from: float
    band_width: float


@dataclass(frozen=True)
class Cell:
    """One combination of batch and context."""

    text: str
    verdict: Verdict | Literal["no layout"]
    current: bool


@dataclass(frozen=True)
class WhatIf:
    """Need per GPU in GiB by context (rows) and batch (columns), the layout kept."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


@dataclass(frozen=True)
class Share:
    """One part of a step, in percent of it."""

    number: int
    name: str
    seconds: float
    percent: float
    formula: str
    colour: str


def bars(found: Estimate) -> tuple[Bar, ...]:
    """One bar per pipeline stage, at the moment at which it needs most."""
    result = []
    for stage in dict.fromkeys(moment.stage for moment in found.moments):
        peak = max((item for item in found.moments if item.stage == stage), key=lambda moment: moment.device)
        result.append(_bar(found, peak))
    return tuple(result)


def _bar(found: Estimate, peak: Moment) -> Bar:
    wide = band(peak.terms)
    whole = max(found.hardware.card.usable, peak.device + wide)
    segments: list[Segment] = []
    used: dict[str, int] = {}
    for term in sorted((term for term in peak.terms if term.size), key=lambda term: -term.size):
        shades = _COLOURS.get(term.kind, _COLOURS["overhead"])
        colour = shades[used.get(term.kind, 0) % len(shades)]
        used[term.kind] = used.get(term.kind, 0) + 1
        percent = 100 * max(0, term.size) / whole
        size, number = memory(term.size), len(segments) + 1
        segments.append(Segment(number, term.name, size, term.formula, term.source, colour, percent))
    return Bar(
        stage=peak.stage,
        moment=peak.name,
        total=memory(peak.device),
        segments=tuple(segments),
        limit_percent=100 * found.limit / whole,
        band_from=100 * (peak.device - wide) / whole,
        band_width=200 * wide / whole,
    )


def what_if(found: Estimate) -> WhatIf:
    """Contexts and batches around the ones asked for, in doublings, on the same layout."""
    job, layout = found.job, found.layout
    context, batch = (job.sequence, layout.micro_batch) if job.trains else (job.context, job.concurrency)
    contexts, batches = _around(context), _around(batch)
    rows = []
    for length in contexts:
        cells = tuple(
            replace(_cell(found, length, count), current=(length, count) == (context, batch)) for count in batches
        )
        rows.append((f"{length:,}", cells))
    shown = batches if job.trains else tuple(count * layout.dp for count in batches)
    return WhatIf(tuple(f"{count:,}" for count in shown), tuple(rows))


def _around(value: int) -> tuple[int, ...]:
    """The value and its neighbours by doubling; whole numbers from 1."""
    below = [value >> -step for step in _STEPS if step < 0 and value % (1 << -step) == 0 and value >> -step]
    return (*below, *(value << step for step in _STEPS if step >= 0))


def _cell(found: Estimate, context: int, batch: int) -> Cell:
    job, layout = found.job, found.layout
    if job.trains:
        job, layout = replace(job, sequence=context), replace(layout, micro_batch=batch)
    else:
        job = replace(job, context=context, concurrency=batch)
    try:
        require(found.model, job, layout)
    except InputError:
        return Cell("–", "no layout", False)
    peak, limit = need(found.model, job, layout), room(found)
    shown = peak.device * found.limit / limit  # the calibration, where there is one
    return Cell(f"{shown / GIB:,.1f}", verdict(peak.device, band(peak.terms), limit), False)


def shares(fast: Speed) -> tuple[Share, ...]:
    """The parts of a training step, longest first; none when serving."""
    if fast.step is None:
        return ()
    palette = ("#1f4e9c", "#c96a12", "#2c7a4b", "#7a4aa0", "#b8930a", "#4f83cc", "#6b7280", "#a582c2", "#9aa1ab")
    parts = sorted(fast.step.parts, key=lambda part: -part.seconds)
    return tuple(
        Share(
            number=index + 1,
            name=part.name,
            seconds=part.seconds,
            percent=100 * max(0.0, part.seconds) / fast.step.seconds,
            formula=part.formula,
            colour=palette[index % len(palette)],
        )
        for index, part in enumerate(parts)
    )


def duration(seconds: float) -> str:
    """Seconds or milliseconds with three digits."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def render(heading: str, sheets: Sequence[Sheet], notes: Sequence[str], language: Language) -> str:
    """The page; it asks for nothing from the network and runs no script. The same input gives the same bytes."""
    words = (lambda line: translated(line, {**WORDS, **PHRASES})) if language == "zh" else str
    return template("sizing.html.j2").render(
        heading=heading,
        sheets=sheets,
        notes=notes,
        language=CODES[language],
        t=LABELS[language].__getitem__,
        words=words,
        symbols=SYMBOLS,
        bars=bars,
        what_if=what_if,
        shares=shares,
        roofline=_roofline,
        duration=duration,
        memory=memory,
    )


def _roofline(sheet: Sheet) -> Roofline | None:
    return roofline(sheet.found, sheet.speed) if sheet.found and sheet.speed else None

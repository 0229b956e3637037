"""Prefill and decoding against the roofline of one GPU, as coordinates of a drawing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from llmhw_provision.sizing import flops
from llmhw_provision.sizing.chips import Chip
from llmhw_provision.sizing.decode import Serving, decode_step, prefill
from llmhw_provision.sizing.estimate import Estimate
from llmhw_provision.sizing.kv import kv_cache
from llmhw_provision.sizing.speed import Speed, serving_of

# the drawing: its size, and the plane inside
WIDTH, HEIGHT = 640, 380
LEFT, RIGHT, TOP, BOTTOM = 78, 42, 16, 50
_BATCHES = (1, 8, 64, 256)
_PROMPTS = (128, 1024, 8192)


@dataclass(frozen=True)
class Point:
    """One operation: FLOP per byte and FLOP/s of one GPU, with its place in the drawing."""

    kind: str  # "decode" or "prefill"
    count: int  # requests at once, or tokens of the prompt
    asked: bool  # what the workload asks for
    intensity: float
    reached: float
    x: float
    y: float
    bound: str  # "memory" or "computing"


@dataclass(frozen=True)
class Tick:
    """A grid line with its label."""

    place: float
    text: str


@dataclass(frozen=True)
class Roofline:
    """The roof as a line of coordinates, the points below it, the ticks of both axes."""

    title: str
    roof: str
    ridge: float  # FLOP per byte at which the roof bends
    peak: float
    bandwidth: float
    points: tuple[Point, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


def roofline(found: Estimate, fast: Speed) -> Roofline | None:
    """The drawing for a serving job; None for training, whose step has parts of its own."""
    if fast.served is None:
        return None
    job, chip = found.job, fast.chip
    base = serving_of(found, chip)
    peak = chip.top(fp8=base.form.name.startswith("fp8"))
    asked = job.prompt or job.context
    decodes = [(count, _decoded(base, count)) for count in sorted({*_BATCHES, job.concurrency})]
    prompts = [(count, _prefilled(base, count)) for count in sorted({*_PROMPTS, asked})]
    plane = _Plane(chip, peak, [place for _, place in (*decodes, *prompts)])
    points = tuple(
        plane.point(kind, count, place, asked=count == wanted)
        for kind, wanted, items in (("decode", job.concurrency, decodes), ("prefill", asked, prompts))
        for count, place in items
    )
    return Roofline(chip.title, plane.roof, peak / chip.bandwidth, peak, chip.bandwidth, points, plane.across, plane.up)


def _decoded(base: Serving, batch: int) -> tuple[float, float]:
    """FLOP per byte and FLOP/s of one GPU in a decoding step."""
    of = replace(base, batch=batch)
    ways = of.layout.tp * of.layout.pp
    work = 2.0 * flops.matrix_parameters(of.model) * batch / ways
    return work / (of.read + of.cached), work / sum(part.seconds for part in decode_step(of))


def _prefilled(base: Serving, prompt: int) -> tuple[float, float]:
    """The same of one prompt: weights read once, keys and values written once."""
    ways = base.layout.tp * base.layout.pp
    work = flops.prefill_flops(base.model, prompt) / ways
    written = kv_cache(base.model, base.layout, context=prompt, concurrency=1, kv=base.cache).size
    moved = replace(base, batch=prompt).read + written
    return work / moved, work / sum(part.seconds for part in prefill(base, prompt))


class _Plane:
    """Logarithmic axes that hold the roof and all points."""

    def __init__(self, chip: Chip, peak: float, places: list[tuple[float, float]]) -> None:
        self._peak, self._bandwidth = peak, chip.bandwidth
        ridge = peak / chip.bandwidth
        self._x = _decades([ridge, *(place[0] for place in places)])
        self._y = _decades([peak, *(place[1] for place in places)])
        low, high = (10.0**end for end in self._x)
        floor = 10.0 ** self._y[0]
        start = max(low, floor / chip.bandwidth)
        corners = [(start, start * chip.bandwidth), (ridge, peak), (high, peak)]
        self.roof = " ".join(f"{self.across_of(x):.1f},{self.up_of(y):.1f}" for x, y in corners)
        self.across = tuple(Tick(self.across_of(10.0**power), _number(10.0**power)) for power in _whole(self._x))
        self.up = tuple(Tick(self.up_of(10.0**power), _number(10.0**power / 1e12)) for power in _whole(self._y))

    def across_of(self, value: float) -> float:
        """Horizontal place of an intensity."""
        low, high = self._x
        return LEFT + (math.log10(value) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def up_of(self, value: float) -> float:
        """Vertical place of a rate."""
        low, high = self._y
        return HEIGHT - BOTTOM - (math.log10(value) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def point(self, kind: str, count: int, place: tuple[float, float], *, asked: bool) -> Point:
        """A point at its place."""
        intensity, reached = place
        bound = "memory" if intensity < self._peak / self._bandwidth else "computing"
        x, y = self.across_of(intensity), self.up_of(reached)
        return Point(kind, count, asked, intensity, reached, x, y, bound)


def _decades(values: list[float]) -> tuple[int, int]:
    """Whole powers of ten around all values."""
    return math.floor(math.log10(min(values))), math.ceil(math.log10(max(values) * 1.05))


def _whole(ends: tuple[int, int]) -> range:
    return range(ends[0], ends[1] + 1)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"

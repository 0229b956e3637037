"""Bands of uncertainty from published measurements: per kind of term, widened until sources left out are covered.

A measurement tells about a kind of term as much as that kind makes up of it. The raw band of a kind is therefore the
90th percentile of the relative errors, each weighted with the share of the kind; the bands of a sum add up. Leaving one
source out at a time, a common factor is found that covers nine in ten of the measurements that were left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmhw_provision.sizing.terms import Term

KINDS = ("states", "activations", "logits", "kv", "buffers", "overhead")
COVERED = 90  # percent


@dataclass(frozen=True)
class Measurement:
    """One published figure with the terms that explain it."""

    source: str
    published: float
    terms: tuple[Term, ...]

    @property
    def total(self) -> int:
        """Bytes predicted."""
        return sum(term.size for term in self.terms)

    @property
    def error(self) -> float:
        """Relative error of the published figure against the prediction, without sign."""
        return abs(self.published / self.total - 1)

    def share(self, kind: str) -> float:
        """Part of the total that is of this kind."""
        return sum(term.size for term in self.terms if term.kind == kind) / self.total


def fit_bands(found: list[Measurement]) -> dict[str, float]:
    """Relative band per kind; the host, which hardly any source measures, takes the widest."""
    ratios = []
    for source in sorted({item.source for item in found}):
        raw = _raw([item for item in found if item.source != source])
        ratios += [item.error / _band(item, raw) for item in found if item.source == source]
    factor = _quantile([(ratio, 1.0) for ratio in ratios])
    bands = {kind: factor * value for kind, value in _raw(found).items()}
    return {**bands, "host": max(bands.values())}


def covered(found: list[Measurement], bands: dict[str, float]) -> float:
    """Share of measurements within the band."""
    return sum(item.error <= _band(item, bands) for item in found) / len(found)


def _raw(found: list[Measurement]) -> dict[str, float]:
    return {kind: _quantile([(item.error, item.share(kind)) for item in found]) for kind in KINDS}


def _band(item: Measurement, bands: dict[str, float]) -> float:
    return sum(bands[kind] * item.share(kind) for kind in KINDS)


def _quantile(values: list[tuple[float, float]]) -> float:
    """The smallest value that covers 90 percent of the weight."""
    wanted = sum(weight for _, weight in values) * COVERED / 100
    reached = 0.0
    for value, weight in sorted(values):
        reached += weight
        if reached >= wanted:
            return value
    return max((value for value, _ in values), default=0.0)

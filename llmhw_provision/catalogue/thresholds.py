"""Limits that a machine is held to, by the part they concern: read from thresholds.yml and checked as a whole."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from llmhw_provision.catalogue.loader import names
from llmhw_provision.documents import Record, read
from llmhw_provision.errors import InputError, Problem

PATH = Path(__file__).with_name("thresholds.yml")
UNKNOWN_DRIVE = "unknown"
Unit = Literal["GB/s", "Gbit/s", "GT/s", "TFLOP/s", "W", "%", "links", "generation"]
Better = Literal["more", "less"]
Metric = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+\.[a-z0-9_]+$")]
Text = Annotated[str, StringConstraints(min_length=3)]
_ROW = "each row has reference, fail, unit, method, source and reason"


class Row(Record):
    """One limit: what a healthy part reaches, and what is a warning or a failure."""

    reference: float = Field(ge=0)
    warn: float | None = Field(default=None, ge=0)
    fail: float = Field(ge=0)
    unit: Unit
    better: Better = "more"
    times_drives: bool = Field(default=False, description="the figures are of one drive of the array")
    method: Text
    source: Text
    reason: Text

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        require_order(self.reference, self.warn, self.fail, better=self.better)
        return self


def require_order(reference: float, warn: float | None, fail: float, *, better: Better) -> None:
    """Raises ValueError unless reference, warning and failure follow each other from good to bad."""
    steps = [value for value in (reference, warn, fail) if value is not None]
    if steps != sorted(steps, reverse=better == "more"):
        text = ", ".join(f"{value:g}" for value in steps)
        raise ValueError(f"reference, warn and fail ({text}) do not go from good to bad where {better} is better")


class Applies(Record):
    """Which part of a host the rows concern; what is left out does not matter."""

    part: Literal["board", "card", "pcie", "port", "drive", "machine"]
    kinds: tuple[str, ...] = Field(default=(), description="names in the catalogue; empty: any")
    count: int | None = Field(default=None, ge=1, description="GPUs of a host")
    several: bool = Field(default=False, description="two GPUs of a host or more")
    nvlink: Literal["none", "switch", "mesh", "pairs"] | None = None
    hosts: int = Field(default=1, ge=1, description="fewest hosts of this kind")
    rate_gbit: int | None = None
    link_layer: Literal["InfiniBand", "Ethernet"] | None = None
    generation: int | None = None


class Profile(Record):
    """The rows of one kind of part."""

    title: Text
    applies: Applies
    date: str = Field(pattern=r"^\d{4}-\d\d-\d\d$")
    confidence: Literal["high", "medium", "low"]
    rows: dict[Metric, Row] = Field(min_length=1)


class Percentages(Record):
    """Of the reference, where there is no row."""

    warn: int = Field(ge=1, le=100)
    fail: int = Field(ge=1, le=100)
    source: Text
    date: str


class Promised(Record):
    """What a source article promises of machines, and what physics allows."""

    machines: tuple[str, ...] = Field(min_length=1)
    metric: Metric
    value: float
    unit: Unit
    says: Text
    allowed: Text
    source: Text
    date: str


class Thresholds(Record):
    """thresholds.yml."""

    percentages: Percentages
    profiles: dict[str, Profile]
    promises: tuple[Promised, ...]

    @model_validator(mode="after")
    def _known_kinds(self) -> Self:
        machines = {*names("machines"), *names("tiers")}
        known = {"drive": {*names("disks"), UNKNOWN_DRIVE}, "machine": machines}
        for name, profile in self.profiles.items():
            for kind in profile.applies.kinds:
                if kind not in known.get(profile.applies.part, set(names("gpus"))):
                    raise ValueError(f"profiles.{name}.applies.kinds: {kind!r} is not in the catalogue")
        units = {metric: row.unit for item in self.profiles.values() for metric, row in item.rows.items()}
        for index, promise in enumerate(self.promises):
            if units.get(promise.metric) != promise.unit:
                raise ValueError(f"promises[{index}]: no row has {promise.metric} in {promise.unit}")
        return self


@cache
def thresholds(path: Path = PATH) -> Thresholds:
    """The table in `path`; raises InputError naming file and place of every row that lacks something."""
    try:
        return read(path, Thresholds)
    except InputError as error:
        problems = [
            Problem(item.message, _ROW if item.message.endswith(": missing") else item.hint) for item in error.problems
        ]
        raise InputError.of(problems) from None

"""What a check is and what it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from llmhw_provision.documents import Record
from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import HostPlan

Status = Literal["pass", "warn", "fail", "could-not-run"]
Severity = Literal["minor", "major", "critical"]
Level = Literal["before", "quick", "standard"]
Area = Literal[
    "access",
    "use",
    "packages",
    "host",
    "base",
    "tuning",
    "disks",
    "array",
    "filesystem",
    "tmpfs",
    "gpu",
    "fabric",
    "drives",
    "services",
    "python",
    "throughput",
]
LEVELS: tuple[Level, ...] = ("before", "quick", "standard")


@dataclass(frozen=True)
class Outcome:
    """What a check saw; `variant` picks another cause and next step than the check's usual ones."""

    status: Status
    found: str
    expected: str
    variant: str = ""


Subjects = Callable[[HostPlan], tuple[str, ...]]
Judge = Callable[[HostPlan, Evidence, str], Outcome]


@dataclass(frozen=True)
class Check:
    """One question about each of its subjects (a volume, a disk, a folder; `("",)` for the host itself)."""

    id: str
    area: Area
    levels: tuple[Level, ...]
    severity: Severity
    runbook: str
    evidence: str
    subjects: Subjects
    judge: Judge


class Finding(Record):
    """The answer of one check about one subject of one host."""

    host: str
    check: str
    subject: str = ""
    variant: str = ""
    area: Area
    status: Status
    severity: Severity
    title: str
    found: str
    expected: str
    cause: str = Field(description="likely cause; empty when passed")
    next_step: str = Field(description="what to do; empty when passed")
    runbook: str = Field(description="page under docs/runbooks")
    evidence: str = Field(description="key of the command whose answer decided")


def passed(found: str, expected: str) -> Outcome:
    """As planned."""
    return Outcome("pass", found, expected)


def failed(found: str, expected: str, variant: str = "") -> Outcome:
    """Not as planned."""
    return Outcome("fail", found, expected, variant)


def warned(found: str, expected: str, variant: str = "") -> Outcome:
    """Works, but somebody should look."""
    return Outcome("warn", found, expected, variant)


def compared(found: str, expected: str, variant: str = "") -> Outcome:
    """Passed when both are the same text, else failed."""
    return passed(found, expected) if found == expected else failed(found, expected, variant)

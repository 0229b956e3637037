"""A claim with its verdict: computed where there is something to compute, else as stated with its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llmhw_provision.catalogue.loader import ClaimKind, find, names
from llmhw_provision.claims.engine import Arithmetic, Shown
from llmhw_provision.claims.hardware import HARDWARE
from llmhw_provision.claims.memory import MEMORY
from llmhw_provision.errors import InputError

Verdict = Literal["holds", "condition", "false"]
Language = Literal["en", "zh"]
ARITHMETIC: dict[str, Arithmetic] = {**MEMORY, **HARDWARE}


@dataclass(frozen=True)
class Judged:
    """One claim of an article, in both languages."""

    name: str
    claim: ClaimKind
    verdict: Verdict
    shown: Shown | None

    @property
    def lines(self) -> tuple[str, ...]:
        """The arithmetic; none where the claim is stated."""
        return self.shown.lines if self.shown else ()

    def says(self, language: Language) -> str:
        """What the article says, in our words."""
        return str(getattr(self.claim.says, language))

    def because(self, language: Language) -> str:
        """Why, with the computed figures."""
        text = str(getattr(self.claim.because, language))
        return text.format_map(self.shown.values) if self.shown else text

    def condition(self, language: Language) -> str:
        """Under which it holds; empty otherwise."""
        if self.verdict != "condition" or self.claim.condition is None:
            return ""
        return str(getattr(self.claim.condition, language))


def claims() -> tuple[str, ...]:
    """Names of all claims, in the order of the articles."""
    return names("claims")


def judge(name: str) -> Judged:
    """The claim `name`, computed now; raises InputError naming the nearest."""
    claim = find("claims", name, ClaimKind)
    work = ARITHMETIC.get(name)
    shown = work() if work else None
    return Judged(name, claim, verdict(claim, shown), shown)


def verdict(claim: ClaimKind, shown: Shown | None) -> Verdict:
    """What the arithmetic says of a claim; without arithmetic what its record states."""
    if shown is None:
        if claim.stated is None:
            raise InputError(f"claim {claim.says.en!r}: nothing is computed and nothing stated")
        return claim.stated
    if not shown.right:
        return "false"
    return "condition" if claim.condition else "holds"

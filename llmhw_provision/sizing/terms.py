"""A named part of a total, kept with its arithmetic."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """One named amount of bytes, with the formula as it was computed and where the formula comes from."""

    name: str
    size: int
    formula: str
    source: str


def total(terms: tuple[Term, ...]) -> int:
    """Sum of all terms in bytes."""
    return sum(term.size for term in terms)

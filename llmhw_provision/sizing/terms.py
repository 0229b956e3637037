"""A named part of a total, kept with its arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

# What a term is made of decides how far it can be trusted: the error bands are kept per kind. Elastic is host memory
# that is used where there is some: page cache, staging of checkpoints.
Kind = Literal["states", "activations", "logits", "kv", "buffers", "overhead", "host", "elastic", "disk"]


@dataclass(frozen=True)
class Term:
    """One named amount of bytes, with the formula as it was computed and where the formula comes from."""

    name: str
    size: int
    formula: str
    source: str
    kind: Kind = "states"


def total(terms: Iterable[Term]) -> int:
    """Sum of all terms in bytes."""
    return sum(term.size for term in terms)


def up(value: Fraction | int) -> int:
    """The next whole number upwards: needs are rounded towards more."""
    return -int(-value // 1)


def divided(value: int, parts: int) -> int:
    """`value` over `parts`, rounded up."""
    return -(-value // parts)


def times(term: Term, count: int, what: str) -> Term:
    """`term` `count` times over, its formula saying so."""
    return replace(term, size=term.size * count, formula=f"{count} {what} × ({term.formula})")


def number(value: Fraction | int) -> str:
    """A factor for a formula: whole, or with up to four decimals."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{float(value):.4f}".rstrip("0").rstrip(".")

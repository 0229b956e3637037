"""How far a term can be trusted: a band per kind of term, estimated from published cases and kept in bands.json."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from llmhw_provision.sizing.terms import Term

FILE = Path(__file__).with_name("bands.json")
PARTS = 10_000  # bands are kept in ten-thousandths


@cache
def bands() -> dict[str, Any]:
    """The file: share of each kind in ten-thousandths, with source and date."""
    loaded: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return loaded


def band(terms: Iterable[Term]) -> int:
    """Bytes by which the sum of `terms` may be wrong: bands of the kinds, added up."""
    shares = bands()["bands"]
    sums: dict[str, int] = {}
    for term in terms:
        sums[term.kind] = sums.get(term.kind, 0) + term.size
    return sum(-(-size * shares[kind] // PARTS) for kind, size in sums.items() if kind not in ("disk", "elastic"))

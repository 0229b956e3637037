"""Megabytes of every hostile shape into the parser of each of our own commands: bounded time, bounded memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llmhw_provision.probes.reading import ProbeError
from tests.probes.limited import wrong_when_grown
from tests.probes.parsers import parsers
from tests.unit.recordings import recorded

pytestmark = pytest.mark.proof

PARSERS = parsers()
ANSWERS = {key: result.stdout for key, result in recorded("provisioned").results.items() if result.stdout}


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_grown_answers(name: str) -> None:
    """Each parser of our own commands, on the answer that it reads best."""
    mine = [raw for raw in ANSWERS.values() if _reads(PARSERS[name], raw)]
    raw = max(mine, key=len) if mine else b"== /scratch\nvalue\n"
    assert wrong_when_grown(PARSERS[name], raw, heads=False) == {}


def _reads(parse: Callable[[bytes], object], raw: bytes) -> bool:
    try:
        parse(raw)
    except ProbeError:
        return False
    return True

"""Other line ends change no fact, and long random walks end in an answer or in the one error."""

from __future__ import annotations

import contextlib
import random

import pytest

from llmhw_provision.probes.reading import ProbeError
from llmhw_provision.probes.registry import facts_of
from tests.probes.limited import answered
from tests.probes.parsers import parsers
from tests.probes.shapes import mangled, one_a_form, seeds
from tests.unit.recordings import recorded

pytestmark = pytest.mark.proof

WALKS = 60_000
FORMS = one_a_form(seeds())
PARSERS = parsers()
ANSWERS = {key: result.stdout for key, result in recorded("provisioned").results.items() if result.stdout}


@pytest.mark.parametrize("name", sorted(seeds()))
def test_other_line_ends_marks_and_blanks_change_no_fact(name: str) -> None:
    raw = seeds()[name]
    try:
        whole = facts_of(raw)
    except ProbeError:
        return  # a piece of an output, of use only in a longer one
    for dressed in (raw.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + raw, raw.replace(b"\n", b"  \n"), b"\n" + raw):
        with contextlib.suppress(ProbeError):
            assert facts_of(dressed) == whole


@pytest.mark.parametrize("part", range(10))
def test_random_walks(part: int) -> None:
    chance = random.Random(part)
    small = [raw for raw in [*FORMS.values(), *ANSWERS.values()] if len(raw) < 60_000]
    names = sorted(PARSERS)
    for _ in range(WALKS // 10):
        answered(facts_of, mangled(chance.choice(small), chance))
        answered(PARSERS[chance.choice(names)], mangled(chance.choice(small), chance))

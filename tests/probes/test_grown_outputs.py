"""Megabytes of every hostile shape into every form of output: bounded time, bounded memory."""

from __future__ import annotations

import pytest

from llmhw_provision.probes.registry import facts_of
from tests.probes.limited import wrong_when_grown
from tests.probes.shapes import one_a_form, seeds

pytestmark = pytest.mark.proof

FORMS = one_a_form(seeds())


@pytest.mark.parametrize("name", sorted(FORMS))
def test_grown_outputs(name: str) -> None:
    assert wrong_when_grown(facts_of, FORMS[name]) == {}

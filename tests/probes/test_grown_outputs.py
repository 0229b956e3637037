"""Ten megabytes of every hostile shape into every form of output: bounded time, bounded memory."""

from __future__ import annotations

import pytest

from llmhw_provision.probes.registry import facts_of
from tests.probes.limited import SIZE, answered, in_a_child
from tests.probes.shapes import grown, one_a_form, seeds

pytestmark = pytest.mark.proof

FORMS = one_a_form(seeds())


@pytest.mark.parametrize("name", sorted(FORMS))
def test_grown_outputs(name: str) -> None:
    wrong = {
        shape: said
        for shape, raw in grown(FORMS[name], SIZE)
        if (said := in_a_child(lambda raw=raw: answered(facts_of, raw)))  # type: ignore[misc]
    }
    assert wrong == {}

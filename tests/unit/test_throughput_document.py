"""The document of our own measurement: damaged, cut off or of another day it is never a pass."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmhw_provision.errors import ProvisionError
from llmhw_provision.probes import throughput as probe
from tests.unit import benches
from tests.unit.benches import HOST, changed, judged, setting

DAMAGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "another format": lambda document: document.update(format=2),
    "no collectives": lambda document: document.pop("collectives"),
    "errors as text": lambda document: document.update(errors="none"),
    "a speed that time contradicts": setting("collectives", 2, busbw=900.0),
    "negative time": setting("collectives", 0, seconds={"min": -1, "avg": -1, "max": -1}),
    "other bytes than asked": setting("collectives", 0, bytes=4096),
    "one rank": setting("collectives", 0, ranks=1),
    "wrong values not counted": setting("collectives", 0, wrong=None),
    "another operation": setting("collectives", 0, name="broadcast"),
    "speed as text": setting("copies", 0, gbs="fast"),
    "no speed": setting("copies", 0, gbs=0),
    "a flag that is none": setting("pairs", 0, equal="yes"),
    "a flat matrix": setting("products", 0, shape=[8192, 8192]),
    "half a checksum": setting("sums", 0, sha256="abab"),
    "load that is none": setting("copies", 0, load=["x"]),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_document_is_never_a_pass(name: str) -> None:
    found = judged(changed(DAMAGED[name]))
    assert {said[0] for said in found.values()} == {"could-not-run"}
    assert all("could not read throughput output" in said[2] for said in found.values())


RAW = benches.evidence(benches.healthy(HOST)).results[probe.KEY].stdout


@settings(max_examples=40, deadline=None)
@given(st.integers(0, len(RAW) - 3), st.binary(max_size=3))
def test_cut_output_is_an_error_and_overwritten_output_that_or_a_document(at: int, new: bytes) -> None:
    with pytest.raises(ProvisionError):
        probe.parse(RAW[:at])
    with contextlib.suppress(ProvisionError):
        probe.parse(RAW[:at] + new + RAW[at + len(new) :])


def test_what_was_measured_on_another_day_is_not_taken() -> None:
    found = judged(changed(lambda document: document.update(began="2026-11-28T22:00:00Z")))
    assert {said[0] for said in found.values()} == {"could-not-run"}
    assert "more than a day lies between" in found["bench-sums"][2]
    assert "not a time" in judged(changed(lambda document: document.update(began="today")))["bench-sums"][2]

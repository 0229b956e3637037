"""Mangled, translated and arbitrary input to every parser: an answer, or the one error; never a traceback."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmhw_provision.probes.reading import ProbeError
from llmhw_provision.probes.registry import facts_of
from tests.probes.parsers import parsers
from tests.probes.shapes import mangled, seeds
from tests.unit.recordings import recorded

PARSERS = parsers()
SMALL = [raw for raw in seeds().values() if len(raw) < 30_000]
ANSWERS = [result.stdout for name in ("before", "provisioned") for result in recorded(name).results.values()]
ROUGH = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def refused_or_read(name: str, raw: bytes) -> None:
    """Calls a parser; any exception but the documented one fails the test."""
    said = ""
    try:
        PARSERS[name](raw) if name else facts_of(raw)
    except ProbeError as error:
        said = str(error)
    assert not said or (said.startswith("could not read") and len(said) < 400)


def test_parsers_are_found() -> None:
    assert len(PARSERS) > 200
    assert {"lsblk.parse", "lsblk.blocks", "nccl_tests.facts", "system.parse_os", "folders.bare"} <= PARSERS.keys()


@settings(ROUGH, max_examples=100)
@given(st.sampled_from(SMALL), st.integers(0, 2**32))
def test_mangled_outputs(raw: bytes, number: int) -> None:
    refused_or_read("", mangled(raw, random.Random(number)))


@settings(ROUGH, max_examples=200)
@given(st.sampled_from(sorted(PARSERS)), st.sampled_from(ANSWERS + SMALL), st.integers(0, 2**32))
def test_mangled_answers_to_any_parser(name: str, raw: bytes, number: int) -> None:
    refused_or_read(name, mangled(raw, random.Random(number)))


@settings(ROUGH, max_examples=6)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_arbitrary_input_to_all_parsers(raw: bytes) -> None:
    for name in PARSERS:
        refused_or_read(name, raw)


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_nothing_and_noise(name: str) -> None:
    for raw in (b"", b"\n", b"\0", b"\xff\xfe", b"{", b"[" * 5000, b"== x\n", b"1" * 5000 + b"\n", "²\n".encode()):
        refused_or_read(name, raw)

"""Layouts of other versions of the tools: read right, or not at all."""

from __future__ import annotations

import contextlib

import pytest

from llmhw_provision.probes.reading import ProbeError
from llmhw_provision.probes.registry import facts_of, form_of
from tests.unit.variants_gpu import GERMAN, GPU_CASES, HOT, NCCL, NCCL_JSON, NVIDIA_384, THROUGHPUT
from tests.unit.variants_host import (
    FDR10,
    FIO_TEXT,
    GRES,
    IBSTAT,
    METRICS,
    NO_NODES,
    NODE,
    OTHER_CASES,
    PERFTEST_MIB,
    RDMA_JSON,
    SENSORS,
    VERBOSE,
)

CASES = GPU_CASES | OTHER_CASES


@pytest.mark.parametrize("name", CASES)
def test_variant(name: str) -> None:
    text, form, expected = CASES[name]
    found = form_of(text.encode())
    assert found is not None
    assert found.name == form
    facts = facts_of(text.encode())
    assert {key: facts.get(key, "(missing)") for key in expected} == expected


@pytest.mark.parametrize(
    "text",
    [
        "PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.\n[1594978465.914536] 64 bytes from 192.0.2.1: icmp_seq=1\n",
        "P: /devices/pci0000:00/0000:00:10.0/block/sda\nE: DEVNAME=/dev/sda\n",
    ],
)
def test_what_only_looks_like_one_of_our_tools(text: str) -> None:
    assert form_of(text.encode()) is None


@pytest.mark.parametrize("name", CASES)
def test_other_line_ends_marks_and_blanks_change_no_fact(name: str) -> None:
    raw = CASES[name][0].encode()
    whole = facts_of(raw)
    for dressed in (raw.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + raw, raw.replace(b"\n", b"  \n")):
        with contextlib.suppress(ProbeError):
            assert facts_of(dressed) == whole


@pytest.mark.parametrize("text", [IBSTAT, VERBOSE, METRICS, NODE, GRES, HOT, NO_NODES, THROUGHPUT])
def test_an_output_that_is_there_twice_is_not_counted_twice(text: str) -> None:
    facts_of(text.encode())
    with pytest.raises(ProbeError, match="could not read"):
        facts_of((text + text).encode())


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (IBSTAT, "State: Active", "State: Aktiv"),
        (FDR10, "Active", "Aktiv"),
        (NVIDIA_384, "384.81", "384,81"),
        ("GPU 00000000:18:00.0\n" + GERMAN, "", ""),
        ("    Fabric\n        State : N/A\n    FB Memory Usage\n        Used : 12,5 MiB\n", "", ""),
        ("==============NVSMI LOG==============\nGPU 00000000:18:00,0\n    Product Name : X\n", "", ""),
    ],
)
def test_other_words_and_commas_are_not_taken_for_values(text: str, old: str, new: str) -> None:
    with pytest.raises(ProbeError, match="could not read"):
        facts_of(text.replace(old, new).encode())


def test_what_is_quoted_is_short_and_does_nothing_to_a_terminal() -> None:
    with pytest.raises(ProbeError) as refused:
        facts_of(SENSORS.replace("| ok", "| " + "\x1b]0;title\x07\x1b[" * 300 + "ok").encode())
    said = str(refused.value)
    assert said.startswith("could not read output of an unknown tool: Fan1 | 9000 RPM | ")
    assert said.isprintable()
    assert len(said) < 400


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (NCCL.replace("25571491840", "255714918400"), "complete"),  # the memory would have sufficed for 32 GiB
        (NCCL.replace("# Reducing maxBytes to 25571491840 due to memory limitation\n", ""), "complete"),
    ],
)
def test_a_run_without_its_last_size_is_incomplete(text: str, why: str) -> None:
    assert facts_of(text.encode())[why] is False
    assert facts_of(text.encode())["verdict"] == "error: incomplete"


@pytest.mark.parametrize(
    "text",
    [
        PERFTEST_MIB.replace("MiB/sec", "Mpps"),
        FIO_TEXT + FIO_TEXT,
        FIO_TEXT.partition("Run status")[0],
        NCCL_JSON.replace('"nwrong":0.0', '"nwrong":"nan"'),
        NCCL_JSON.replace("2.5", "NaN"),
        NCCL.replace("463.58", "9" * 5000),
        NVIDIA_384.replace("N/A   36C", "a" * 70000),
        RDMA_JSON.replace("[{", "[" * 100_000 + "{"),
    ],
)
def test_what_is_not_read(text: str) -> None:
    with pytest.raises(ProbeError, match="could not read"):
        facts_of(text.encode())

"""Our own measurement of GPUs: its formulas, its document, how it is judged and how it is run."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmhw_provision.checks import table, throughput
from llmhw_provision.checks.texts import TEXTS
from llmhw_provision.checks.throughput_request import request
from llmhw_provision.errors import ProvisionError
from llmhw_provision.on_host.bench import formulas
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import throughput as probe
from llmhw_provision.report import chinese
from tests.unit import benches

GIB = 1 << 30


# rows that NVIDIA/nccl-tests printed: size, ranks, time in µs, algbw and busbw in GB/s
@pytest.mark.parametrize(
    ("name", "nbytes", "ranks", "us", "algbw", "busbw"),
    [
        ("all_reduce", 17179869184, 8, 62341, 275.58, 482.26),
        ("all_reduce", 1073741824, 16, 4511.97, 237.98, 446.21),
        ("all_reduce", 1073741824, 4, 74912, 14.33, 21.50),
        ("all_gather", 8589934592, 8, 33646, 255.31, 223.39),
        ("all_gather", 8589934592, 16, 42713, 201.11, 188.54),
    ],
)
def test_bandwidths_are_those_of_nccl_tests(
    name: str, nbytes: int, ranks: int, us: float, algbw: float, busbw: float
) -> None:
    assert formulas.algbw(nbytes, us / 1e6) == pytest.approx(algbw, abs=0.01)
    assert formulas.busbw(name, nbytes, us / 1e6, ranks) == pytest.approx(busbw, abs=0.02)


def test_factors_are_those_of_its_performance_page() -> None:
    assert formulas.factor("all_reduce", 2) == 1
    assert formulas.factor("all_reduce", 8) == 1.75
    assert [formulas.factor(name, 8) for name in formulas.COLLECTIVES[1:]] == [0.875] * 3


def test_sizes_are_counted_per_collective_as_nccl_tests_counts_them() -> None:
    assert formulas.share("all_reduce", GIB, 8, 4) == GIB // 4  # count of the table: the whole
    assert formulas.share("all_gather", GIB, 8, 4) == GIB // 4 // 8 == 33554432  # its column count for 8 ranks
    assert formulas.share("reduce_scatter", 1000, 3, 4) == 80  # 333 bytes, rounded down to 16
    assert formulas.size("reduce_scatter", 80, 3, 4) == 960
    with pytest.raises(ValueError, match="too few"):
        formulas.share("all_gather", 64, 8, 4)
    with pytest.raises(ValueError, match="unknown collective"):
        formulas.share("broadcast", GIB, 8, 4)


def test_the_middle() -> None:
    assert (formulas.median([3, 1, 2]), formulas.median([4, 1, 2, 3])) == (2, 2.5)


HOST = benches.plan()


def judged(document: dict[str, Any] | None, host: HostPlan = HOST) -> dict[str, tuple[str, str, str]]:
    """Status, variant and what was found, by check and subject."""
    evidence = benches.evidence(document, host)
    items = [item for item in table.items(host, "standard") if item.check.area == "throughput"]
    found = [table.judge(item, evidence) for item in items]
    return {f"{one.check} {one.subject}".strip(): (one.status, one.variant, one.found) for one in found}


def changed(edit: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    document = copy.deepcopy(benches.healthy(HOST))
    edit(document)
    return document


def test_a_healthy_board_passes_every_limit_that_can_be_measured() -> None:
    found = judged(benches.healthy(HOST))
    assert {text: said for text, said in found.items() if said[0] != "pass"} == {}
    assert found["bench-collectives nccl_tests.all_reduce_busbw"][2] == (
        "478 GB/s, over 8 GPUs, 8 GiB, torch.distributed"
    )
    assert found["bench-copies nvbandwidth.host_to_device"][2] == "55 to 55.07 GB/s, 8 measured"
    metrics = {item.metric for item in HOST.thresholds}
    assert {text.partition(" ")[2] for text in found} - {""} == metrics - {"nvidia_smi.nvlink_links"}


def _set(room: str, index: int, **values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda document: document[room][index].update(values)


def _slower(name: str, busbw: float, asked: int) -> Callable[[dict[str, Any]], object]:
    def edit(document: dict[str, Any]) -> None:
        for at, one in enumerate(document["collectives"]):
            if (one["run"], one["name"], one["asked"]) == ("all", name, asked):
                document["collectives"][at] = benches.row("all", name, 8, asked, busbw)

    return edit


FAULTS: dict[str, tuple[Callable[[dict[str, Any]], object], str, tuple[str, str, str]]] = {
    "the ring's speed": (
        _slower("all_reduce", 365.0, 8 * GIB),
        "bench-collectives nccl_tests.all_reduce_busbw",
        ("fail", "ring", "over 8 GPUs, 8 GiB, torch.distributed: 365 GB/s"),
    ),
    "a little slow": (
        _slower("all_reduce", 450.0, 8 * GIB),
        "bench-collectives nccl_tests.all_reduce_busbw",
        ("warn", "", "over 8 GPUs, 8 GiB, torch.distributed: 450 GB/s"),
    ),
    "a slow gather": (
        _slower("all_gather", 200.0, 16 * GIB),
        "bench-collectives nccl_tests.all_gather_busbw",
        ("fail", "", "over 8 GPUs, 16 GiB, torch.distributed: 200 GB/s"),
    ),
    "half the lanes": (
        _set("copies", 3, gbs=27.1),
        "bench-copies nvbandwidth.host_to_device",
        ("fail", "", "GPU3: 27.1 GB/s"),
    ),
    "generation 4 under load": (
        _set("copies", 10, load={"pcie_generation": 4}),
        "bench-copies nvidia_smi.pcie_generation_under_load",
        ("fail", "", "GPU2: 4 generation"),
    ),
    "slow memory": (
        _set("copies", 21, gbs=1800.0),
        "bench-copies p2p_bandwidth.diagonal",
        ("fail", "memory", "GPU5: 1800 GB/s"),
    ),
    "a pair through the host": (
        _set("pairs", 0, gbs=21.0),
        "bench-copies p2p_bandwidth.unidirectional",
        ("fail", "pairs", "GPU0 to GPU1: 21 GB/s"),
    ),
    "both ways share one": (
        _set("pairs", 0, both_gbs=376.0),
        "bench-copies p2p_bandwidth.bidirectional",
        ("fail", "pairs", "GPU0 to GPU1: 376 GB/s"),
    ),
    "a GPU held down": (
        _set("products", 2, tflops=601.0, load={"sm_mhz": 1410, "power_w": 500.1, "limit_w": 700.0, "slowed_by": 0x64}),
        "bench-products matmul.bf16_8192",
        ("fail", "", "GPU2: 601 TFLOP/s (1410 MHz, 500 of 700 W, slowed by its power limit and heat)"),
    ),
    "one behind the others": (
        _set("products", 2, tflops=690.0),
        "bench-products matmul.bf16_behind_best",
        ("fail", "", "GPU2: 6.4 % (1755 MHz, 690 W)"),
    ),
    "one GPU computes wrongly": (
        _set("sums", 6, sha256="cd" * 32),
        "bench-sums",
        ("fail", "", "GPU6: cdcdcdcdcdcd, not abababababab"),
    ),
    "a GPU without a constant result": (
        _set("sums", 6, stable=False),
        "bench-sums",
        ("fail", "", "GPU6: another result each time"),
    ),
    "wrong values": (
        _set("collectives", 2, wrong=3),
        "bench-values",
        ("fail", "", "all_reduce (all, 8 GiB): 3 wrong"),
    ),
    "a copy that arrives changed": (
        _set("pairs", 9, equal=False),
        "bench-values",
        ("fail", "", "GPU1 to GPU3: other bytes arrived"),
    ),
    "a hang": (
        lambda document: document["errors"].append("rank 0 hangs in all_reduce of 1 bytes: nothing heard for 180 s"),
        "bench-complete",
        ("fail", "hangs", "rank 0 hangs in all_reduce of 1 bytes: nothing heard for 180 s"),
    ),
    "a rank that died": (
        lambda document: document["errors"].append("rank 2 was killed by SIGSEGV in all_reduce of 1 bytes"),
        "bench-complete",
        ("fail", "", "rank 2 was killed by SIGSEGV in all_reduce of 1 bytes"),
    ),
    "a GPU is missing": (
        lambda document: document["gpus"].pop(),
        "bench-complete",
        ("fail", "fewer", "7 GPUs"),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_and_the_place_named(name: str) -> None:
    edit, item, expected = FAULTS[name]
    found = judged(changed(edit))
    assert found[item] == expected
    passing = {text for text, said in judged(benches.healthy(HOST)).items() if said[0] == "pass"}
    others = {text for text in passing - {item} if found[text][0] != "pass"}
    assert others <= {"bench-products matmul.bf16_behind_best"}  # a GPU beyond its limit is behind the others too


def test_every_cause_is_seen() -> None:
    checks = {check.id for check in throughput.CHECKS}
    seen = {
        f"{item.partition(' ')[0]}/{said[1]}" if said[1] else item.partition(" ")[0]
        for _, item, said in FAULTS.values()
    }
    assert {key for key in TEXTS if key.partition("/")[0] in checks} == seen
    assert all(chinese.TEXTS[key].title != TEXTS[key].title for key in seen)


def test_what_was_not_measured_could_not_run_and_says_why() -> None:
    nothing = judged(None)
    assert {said[0] for said in nothing.values()} == {"could-not-run"}
    assert "there is no result of a measurement" in nothing["bench-complete"][2]

    def busy(document: dict[str, Any]) -> None:
        document["errors"].append("GPU3: 60.1 of 79.6 GiB are taken by others: nothing was measured")
        for room in ("collectives", "copies", "pairs", "products", "sums"):
            document[room].clear()

    found = judged(changed(busy))
    assert {said[0] for said in found.values()} == {"could-not-run"}
    assert "GPU3: 60.1 of 79.6 GiB are taken by others" in found["bench-products matmul.fp8_tuned"][2]
    skipped = {"run": "all", "name": "all_gather", "asked": 16 * GIB, "skipped": "17179869184 bytes needed, 9 free"}
    found = judged(changed(lambda document: document["collectives"].__setitem__(5, skipped)))
    assert found["bench-collectives nccl_tests.all_gather_busbw"][0] == "could-not-run"
    assert "9 free" in found["bench-collectives nccl_tests.all_gather_busbw"][2]
    assert judged(changed(lambda document: document.update(device="cpu")))["bench-complete"][0] == "could-not-run"


def test_checksums_without_a_majority_blame_nobody() -> None:
    pair = benches.plan(
        benches.BOARD.model_copy(update={"kind": "h100-pcie", "count": 2, "nvlink": "none", "links": 0})
    )
    document = benches.healthy(pair)
    document["sums"][1]["sha256"] = "cd" * 32
    assert judged(document, pair)["bench-sums"] == ("fail", "", "2 checksums and no majority")


def test_only_the_better_partner_of_bridged_cards_counts() -> None:
    gpus = benches.BOARD.model_copy(update={"kind": "h100-nvl", "count": 4, "nvlink": "pairs", "links": 12})
    host = benches.plan(gpus)
    document = benches.healthy(host)
    for one in document["pairs"]:
        one["gbs"] = 250.0 if {one["from"], one["to"]} in ({0, 1}, {2, 3}) else 22.0
    assert judged(document, host)["bench-copies p2p_bandwidth.unidirectional"][0] == "pass"
    for one in document["pairs"]:
        one["gbs"] = 22.0 if 3 in (one["from"], one["to"]) else one["gbs"]
    status, _, said = judged(document, host)["bench-copies p2p_bandwidth.unidirectional"]
    assert (status, said) == ("fail", "GPU2: 22 GB/s; GPU3: 22 GB/s")


@pytest.mark.parametrize(
    "host",
    [
        benches.plan(rehearsal=True),
        benches.plan(cuda=""),
        benches.plan(benches.BOARD.model_copy(update={"mig": True})),
        benches.plan(benches.BOARD.model_copy(update={"driver": None})),
    ],
    ids=["virtual machine", "torch for CPUs", "MIG", "no driver"],
)
def test_nothing_is_measured_where_nothing_can_be(host: HostPlan) -> None:
    assert judged(benches.healthy(HOST), host) == {}
    assert throughput.commands(host, "standard") == ()


def test_quick_measures_nothing() -> None:
    assert throughput.commands(HOST, "quick") == ()
    assert probe.RESULT in table.commands(HOST, "standard")


def test_the_request_asks_for_the_sizes_of_the_limits() -> None:
    asked = request(HOST)
    runs = {run["label"]: run for run in asked["runs"]}
    assert ["all_reduce", 8 * GIB] in runs["all"]["operations"]
    assert ["reduce_scatter", 16 * GIB] in runs["all"]["operations"]
    assert runs["ring"] == {
        "label": "ring", "ranks": 8, "env": {"NCCL_NVLS_ENABLE": "0"}, "operations": [["all_reduce", 16 * GIB]],
    }  # fmt: skip
    assert runs["4_gpus"]["ranks"] == 4
    single = request(benches.plan(benches.BOARD.model_copy(update={"count": 1, "nvlink": "none"})))
    assert single["runs"] == []


DAMAGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "another format": lambda document: document.update(format=2),
    "no collectives": lambda document: document.pop("collectives"),
    "errors as text": lambda document: document.update(errors="none"),
    "a speed that time contradicts": _set("collectives", 2, busbw=900.0),
    "negative time": _set("collectives", 0, seconds={"min": -1, "avg": -1, "max": -1}),
    "other bytes than asked": _set("collectives", 0, bytes=4096),
    "one rank": _set("collectives", 0, ranks=1),
    "wrong values not counted": _set("collectives", 0, wrong=None),
    "another operation": _set("collectives", 0, name="broadcast"),
    "speed as text": _set("copies", 0, gbs="fast"),
    "no speed": _set("copies", 0, gbs=0),
    "a flag that is none": _set("pairs", 0, equal="yes"),
    "a flat matrix": _set("products", 0, shape=[8192, 8192]),
    "half a checksum": _set("sums", 0, sha256="abab"),
    "load that is none": _set("copies", 0, load=["x"]),
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

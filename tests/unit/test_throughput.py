"""Our own measurement of GPUs: how it is judged, where it is made and what is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llmhw_provision.checks import table, throughput
from llmhw_provision.checks.texts import TEXTS
from llmhw_provision.checks.throughput_request import request
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import throughput as probe
from llmhw_provision.report import chinese
from tests.unit import benches
from tests.unit.benches import HOST, changed, judged, setting

GIB = 1 << 30


def test_a_healthy_board_passes_every_limit_that_can_be_measured() -> None:
    found = judged(benches.healthy(HOST))
    assert {text: said for text, said in found.items() if said[0] != "pass"} == {}
    assert found["bench-collectives nccl_tests.all_reduce_busbw"][2] == (
        "478 GB/s, over 8 GPUs, 8 GiB, torch.distributed"
    )
    assert found["bench-copies nvbandwidth.host_to_device"][2] == "55 to 55.07 GB/s, 8 measured"
    metrics = {item.metric for item in HOST.thresholds}
    assert {text.partition(" ")[2] for text in found} - {""} == metrics - {"nvidia_smi.nvlink_links"}


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
        setting("copies", 3, gbs=27.1),
        "bench-copies nvbandwidth.host_to_device",
        ("fail", "", "GPU3: 27.1 GB/s"),
    ),
    "generation 4 under load": (
        setting("copies", 10, load={"pcie_generation": 4}),
        "bench-copies nvidia_smi.pcie_generation_under_load",
        ("fail", "", "GPU2: 4 generation"),
    ),
    "slow memory": (
        setting("copies", 21, gbs=1800.0),
        "bench-copies p2p_bandwidth.diagonal",
        ("fail", "memory", "GPU5: 1800 GB/s"),
    ),
    "a pair through the host": (
        setting("pairs", 0, gbs=21.0),
        "bench-copies p2p_bandwidth.unidirectional",
        ("fail", "pairs", "GPU0 to GPU1: 21 GB/s"),
    ),
    "both ways share one": (
        setting("pairs", 0, both_gbs=376.0),
        "bench-copies p2p_bandwidth.bidirectional",
        ("fail", "pairs", "GPU0 to GPU1: 376 GB/s"),
    ),
    "a GPU held down": (
        setting(
            "products", 2, tflops=601.0, load={"sm_mhz": 1410, "power_w": 500.1, "limit_w": 700.0, "slowed_by": 0x64}
        ),
        "bench-products matmul.bf16_8192",
        ("fail", "", "GPU2: 601 TFLOP/s (1410 MHz, 500 of 700 W, slowed by its power limit and heat)"),
    ),
    "one behind the others": (
        setting("products", 2, tflops=690.0),
        "bench-products matmul.bf16_behind_best",
        ("fail", "", "GPU2: 6.4 % (1755 MHz, 690 W)"),
    ),
    "one GPU computes wrongly": (
        setting("sums", 6, sha256="cd" * 32),
        "bench-sums",
        ("fail", "", "GPU6: cdcdcdcdcdcd, not abababababab"),
    ),
    "a GPU without a constant result": (
        setting("sums", 6, stable=False),
        "bench-sums",
        ("fail", "", "GPU6: another result each time"),
    ),
    "wrong values": (
        setting("collectives", 2, wrong=3),
        "bench-values",
        ("fail", "", "all_reduce (all, 8 GiB): 3 wrong"),
    ),
    "a copy that arrives changed": (
        setting("pairs", 9, equal=False),
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

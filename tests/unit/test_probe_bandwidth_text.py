"""Forms of nccl-tests, nvbandwidth and gpu_burn, written after their sources; values that are none."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from llmhw_provision.probes import nccl_tests
from llmhw_provision.probes.reading import ProbeError
from tests.unit.gpu_texts import (
    BANDWIDTH,
    END,
    HEAD,
    ROW,
    gpu,
    read,
)


@pytest.mark.parametrize(
    "prefix",
    [
        str,
        lambda line: f"0: {line}",
        lambda line: f"[1,0]<stdout>:{line}",
        lambda line: f"[1,0]<stdout>: {line}",
        lambda line: f"node-01: {line}",
        lambda line: f"[0] {line}",
        lambda line: f"2026-11-30T10:00:00.123456789Z {line}",
    ],
)
def test_launcher_prefixes(prefix: Callable[[str], str]) -> None:
    text = "".join(prefix(line) + "\n" for line in f"{HEAD}\n{ROW}\n{END}".splitlines())
    found = read(text)
    assert (found["busbw_oop_at_1073741824"], found["busbw_ip_at_1073741824"]) == (463.58, 463.12)
    assert (found["oob"], found["avg_busbw"], found["verdict"]) == ("0 OK", 100.5, "pass")


def test_per_iteration_columns_and_timestamps() -> None:
    more = "i_min i_max i_p99 i_cv%"
    head = f"# size count type redop root time algbw busbw #wrong {more} time algbw busbw #wrong {more} timestamp"
    row = "8192 2048 float sum -1 20.1 1.5 2.5 0 19 22 21 3.1 21.2 1.4 2.4 0 19 22 21 3.1 2026-11-30 10:00:00"
    found = read(f"{head}\n{row}\n{END}")
    assert (found["busbw_oop_at_8192"], found["busbw_ip_at_8192"]) == (2.5, 2.4)


def test_in_place_of_all_to_all_is_not_measured() -> None:
    row = "  1073741824  16777216  float  none  -1  4053.3  264.90  231.70  0  4057.4  264.64  231.10  N/A"
    assert read(f"{HEAD}\n{row}\n{END}")["collective"] == "alltoall"


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (ROW.replace("463.58", "463,58"), "is no number"),
        (ROW.replace("463.58", "nan"), "is no number"),
        (ROW.rpartition(" 4057")[0], "fields under"),
        (ROW + " 12 13", "fields under"),
        (ROW.replace("-1", "zz"), "no root rank"),
    ],
)
def test_damaged_rows_are_refused(row: str, why: str) -> None:
    with pytest.raises(ProbeError, match=why):
        read(f"{HEAD}\n{row}\n{END}")


def test_wrong_values_and_failed_bounds_fail() -> None:
    wrong = ROW[:-1] + "3"
    found = read(f"{HEAD}\n{wrong}\n# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 100.5\n")
    assert (found["nwrong"], found["oob"], found["verdict"]) == (3, "3 FAILED", "fail")


def test_ranks_that_ran_alone_are_found() -> None:
    rank = "#  Rank  0 Group  0 Pid   1000 on     node01 device  0 [0000:1b:00] NVIDIA H100\n"
    found = read(f"{rank}{rank}{HEAD}\n{ROW}\n{ROW}\n{END}")
    assert (found["error"], found["verdict"]) == ("ranks_not_joined", "fail")


def test_a_run_that_did_not_reach_the_last_size_is_incomplete() -> None:
    setup = "# nThread 1 nGpus 8 minBytes 1073741824 maxBytes 17179869184 step: 2(factor) warmup iters: 5 iters: 20\n"
    assert read(f"{setup}{HEAD}\n{ROW}\n{END}")["verdict"] == "error: incomplete"


def nccl_report(**changes: object) -> str:
    side = {"time": 4053.3, "alg_bw": 264.9, "bus_bw": 463.58, "nwrong": 0.0}
    result = {"size": 1073741824, "count": 268435456, "type": "float", "redop": "sum", "root": "    -1"}
    report: dict[str, object] = {
        "version": 3,
        "start_time": "2026-11-30 10:00:00",
        "args": ["/opt/nccl-tests/build/all_reduce_perf", "-J", "x"],
        "env": ["SECRET=1"],
        "nccl_version": 22304,
        "config": {"nthreads": 1, "ngpus": 8, "maximum_bytes": 1073741824, "step_factor": 2, "devices": []},
        "results": [{**result, "out_of_place": side, "in_place": {**side, "nwrong": None}}],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 463.58, "okay": "unchecked"},
        "errors": [],
        "end_time": "2026-11-30 10:01:00",
    }
    return json.dumps({**report, **changes}, separators=(",", ":")) + "\n"


def test_nccl_json() -> None:
    found = read(nccl_report())
    assert (found["busbw_oop_at_1073741824"], found["collective"], found["nccl"]) == (463.58, "all_reduce", "2.23.4")
    assert found["verdict"] == "pass"
    assert "SECRET" not in str(found)


@pytest.mark.parametrize("results", [[], [{"size": 1}], [{"size": 1, "count": 1, "out_of_place": {"bus_bw": "nan"}}]])
def test_nccl_json_without_numbers_is_refused(results: object) -> None:
    with pytest.raises(ProbeError, match="could not read nccl-tests JSON"):
        read(nccl_report(results=results))


def test_a_collapse_is_seen_whatever_the_prefix() -> None:
    small = ROW.replace("  1073741824", "   536870912")
    slow = ROW.replace("463.58", "5.30")
    run = nccl_tests.parse(f"{HEAD}\n{small}\n{slow}\n{END}".encode())
    assert nccl_tests.collapse(run) == 1073741824


def test_gpu_burn() -> None:
    frame = "100.0%  proc'd: 45220 (46512 Gflop/s) - 43111 (44012 Gflop/s)   errors: 0 - 0   temps: 66 C - 64 C \n"
    good = f"{gpu(0)}{gpu(1)}{frame}Killing processes.. done\n\nTested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: OK\n"
    found = read(good)
    assert (found["verdict"], found["gflops"], found["errors"]) == ("pass", [46512, 44012], [0, 0])
    with pytest.raises(ProbeError, match="cut off"):
        read(good.removesuffix("\tGPU 1: OK\n"))
    with pytest.raises(ProbeError, match="cut off"):
        read(good.partition("Tested")[0])


def test_nvbandwidth_0_8() -> None:
    found = read(BANDWIDTH)
    assert (found["h2d_min"], found["p2p_min"], found["host_device_latency_sm"]) == (55.1, 377.1, 772.58)
    assert (found["waived"], found["verdict"]) == (["multinode_device_to_device_memcpy_read_ce"], "pass")


@pytest.mark.parametrize(
    ("old", "new"), [("377.10", "377,10"), (" 1    377.10       N/A\n", ""), ("    377.20\n", "\n"), ("377.10", "inf")]
)
def test_nvbandwidth_damaged(old: str, new: str) -> None:
    with pytest.raises(ProbeError, match="could not read nvbandwidth"):
        read(BANDWIDTH.replace(old, new))


def test_nvbandwidth_that_fails() -> None:
    text = BANDWIDTH.partition("Running")[0] + "Running host_to_device_memcpy_ce.\n"
    text += "[CUDA_ERROR_SYSTEM_NOT_READY] system not yet initialized in expression cuInit(0) in main() : x.cpp:1\n"
    assert (read(text)["error"], read(text)["verdict"]) == ("cuda_802", "fail")

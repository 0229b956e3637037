"""Forms of DCGM and of the fabric manager, written after their sources; values that are none."""

from __future__ import annotations

import json

import pytest

from llmhw_provision.probes.reading import ProbeError
from tests.unit.gpu_texts import (
    DIAG4,
    STATUS,
    read,
)


def test_diag_of_dcgm_4() -> None:
    found = read(DIAG4)
    assert (found["fail"], found["skipped"], found["verdict"]) == (["memory GPU1"], ["targeted_power"], "fail")
    assert found["dcgm"] == "4.4.2"


def test_diag_that_skips_all_is_not_a_pass() -> None:
    text = DIAG4.replace("Fail", "Skip").replace(
        "| memory                    | Pass", "| memory                    | Skip"
    )
    text = text.replace(
        "GPU0: Pass                                     |\n|                           | GPU1: Skip", "X"
    )
    skipped = "\n".join(line for line in text.splitlines() if "Warning" not in line and "X" not in line) + "\n"
    assert read(skipped)["verdict"] == "not tested"


def test_diag_json_of_dcgm_3() -> None:
    results = [{"gpu_ids": "0", "status": "PASS"}, {"gpu_ids": "1", "status": "FAIL", "warnings": ["too slow"]}]
    tests = [None, {"name": "PCIe", "results": results}]
    found = read(
        "WARNING: a line before\n"
        + json.dumps(
            {
                "DCGM GPU Diagnostic": {
                    "version": "3.1.3",
                    "test_categories": [{"category": "Integration", "tests": tests}],
                }
            },
            indent=1,
        )
        + "\n"
    )
    assert (found["fail"], found["messages"], found["verdict"]) == (["PCIe GPU1"], ["too slow"], "fail")


def test_an_unknown_status_is_no_pass() -> None:
    text = json.dumps(
        {"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "x", "results": [{"status": "Fine"}]}]}]}}
    )
    with pytest.raises(ProbeError, match="status Fine"):
        read(text + "\n")


def test_discovery() -> None:
    border = "+--------+----------------------------------------------------------------------+\n"
    rows = "".join(
        f"| {n}      | Name: NVIDIA H100 80GB HBM3 |\n|        | PCI Bus ID: 00000000:{n}B:00.0 |\n"
        f"|        | Device UUID: GPU-{n} |\n{border}"
        for n in range(2)
    )
    text = f"2 GPUs found.\n{border}| GPU ID | Device Information |\n{border}{rows}4 NvSwitches found.\n+-----------+\n"
    found = read(text)
    assert (found["gpus"], found["nvswitches"]) == (["GPU0", "GPU1"], 4)
    with pytest.raises(ProbeError, match="cut off"):
        read(text.replace("2 GPUs", "8 GPUs"))


@pytest.mark.parametrize(("state", "verdict"), [("Healthy", "pass"), ("Warning", "warn"), ("Failure", "fail")])
def test_health(state: str, verdict: str) -> None:
    border = "+---------------------------+----------------------------------------------------------+\n"
    text = f"{border}| Health Monitor Report                                                                |\n"
    text += f"{border.replace('-', '=')}| Overall Health            | {state}    |\n{border}"
    assert read(text)["verdict"] == verdict
    with pytest.raises(ProbeError, match="no overall health"):
        read(text.replace(state, "Internal error"))


def test_dmon_of_dcgm() -> None:
    text = "#Entity   GPUTL  TMPTR\nID\nGPU 0     0      33\nGPU 1     N/A    34\n"
    found = read(text)
    assert found["last"] == {"GPU0": {"GPUTL": 0.0, "TMPTR": 33.0}, "GPU1": {"GPUTL": None, "TMPTR": 34.0}}
    with pytest.raises(ProbeError, match="headings"):
        read(text + "GPU 0 1\n")


def test_fabric_manager_status() -> None:
    found = read(STATUS)
    assert (found["active"], found["sub"], found["enabled"], found["verdict"]) == ("active", "running", True, "pass")
    failed = read(STATUS.replace("active (running)", "failed (Result: exit-code)"))
    assert (failed["error"], failed["verdict"]) == ("failed", "fail")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:86:00.0", "sxid_fatal"),
        ("detected number of NVSwitches don't match with any supported system topology, aborting", "topology_mismatch"),
        (
            "failed to find the GPU handle 5410063385821516767 in the multicast team request setup",
            "gpu_handle_not_found",
        ),
    ],
)
def test_fabric_manager_log_errors(line: str, error: str) -> None:
    found = read(f"[Jul 23 2024 07:53:55] [ERROR] [tid 841] {line}\n")
    assert (found["error"], found["errors"], found["verdict"]) == (error, 1, "fail")
    if error == "sxid_fatal":
        assert found["sxids"] == [20034]


def test_a_switch_error_after_a_good_start_is_told() -> None:
    text = "Mar 03 18:39:19 n7 systemd[1]: Started NVIDIA fabric manager service.\n"
    text += "Mar 03 18:39:57 n7 nv-fabricmanager[5183]: detected NVSwitch non-fatal error 22013 on NodeId 0\n"
    found = read(text)
    assert (found["ok"], found["sxids"], found["verdict"]) == (True, [22013], "warn")


def test_an_old_failure_before_a_good_start_is_history() -> None:
    bad = (
        "Jan 05 14:00:00 n1 nv-fabricmanager[1]: fabric manager NVIDIA GPU driver interface version 550.1 don't match "
    )
    bad += "with driver version 550.2.\n"
    good = "Jan 05 15:00:00 n1 systemd[1]: Started nvidia-fabricmanager.service - NVIDIA fabric manager service.\n"
    assert read(bad + good)["verdict"] == "pass"
    assert read(good + bad)["error"] == "version_mismatch"

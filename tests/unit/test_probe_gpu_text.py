"""Forms of the GPU tools of which no recording is at hand, written after the tools' sources; values that are none."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable

import pytest

from llmhw_provision.probes import nccl_tests, nvidia_csv, nvidia_topo
from llmhw_provision.probes.reading import ProbeError
from llmhw_provision.probes.registry import facts_of, form_of


def read(text: str) -> dict[str, object]:
    return facts_of(text.encode())


def form(text: str) -> str:
    found = form_of(text.encode())
    return found.name if found else ""


def gpu(index: int, name: str = "NVIDIA H100 80GB HBM3") -> str:
    return f"GPU {index}: {name} (UUID: GPU-00000000-0000-0000-0000-{index:012})\n"


TABLE = """Wed Aug 12 21:53:45 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.90.12              Driver Version: 550.90.12      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:1B:00.0 Off |                    0 |
| N/A   32C    P0             69W /  700W |     437MiB /  81559MiB |      3%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA H100 80GB HBM3          On  |   00000000:43:00.0 Off |                 ERR! |
|ERR!  ERR!  ERR!            N/A  /  N/A  |     437MiB /  81559MiB |     N/A         ERR! |
|                                         |                        |                 ERR! |
+-----------------------------------------+------------------------+----------------------+
"""


def test_default_table_keeps_error_cells_apart() -> None:
    found = read(TABLE)
    assert (found["driver"], found["cuda"], found["gpus"]) == ("550.90.12", "12.4", ["GPU0", "GPU1"])
    assert found["err_gpus"] == ["GPU1"]
    rows = found["rows"]
    assert isinstance(rows, dict)
    assert rows["GPU0"]["temperature"] == "32C"
    assert "temperature" not in rows["GPU1"]
    assert rows["GPU1"]["power"] is None


def test_default_table_without_its_border_is_cut() -> None:
    lines = TABLE.splitlines(keepends=True)
    for count in (*range(3, 12), *range(13, len(lines))):  # 12: up to the border below the first GPU
        with pytest.raises(ProbeError, match="could not read"):
            read("".join(lines[:count]))


def counters(replay: int) -> str:
    return "".join(
        gpu(index)
        + "".join(
            f"\t Link {link}: {name} Errors: {replay if (index, link, name) == (1, 4, 'Replay') else 0}\n"
            for link in range(18)
            for name in ("Replay", "Recovery", "CRC")
        )
        for index in range(2)
    )


def test_nvlink_error_counters() -> None:
    found = read(counters(7))
    assert found["nonzero"] == {"GPU1": {"4": {"Replay Errors": 7}}}
    assert (found["errors"], found["replay_errors"], found["crc_errors"]) == (7, 7, 0)
    assert read(counters(0))["nonzero"] == {}


def test_nvlink_counters_that_end_early_are_cut() -> None:
    with pytest.raises(ProbeError, match="cut off"):
        read(counters(0).rpartition("\t Link 17: Recovery")[0])


def test_nvlink_with_a_word_for_a_speed_is_refused() -> None:
    text = gpu(0) + "".join(f"\t Link {link}: 26.562 GB/s\n" for link in range(18))
    assert read(text)["links_per_gpu"] == 18
    for word in ("ERR!", "N/A GB/s", "26,562 GB/s", "Unknown Error"):
        with pytest.raises(ProbeError, match="could not read nvidia-smi nvlink"):
            read(text.replace("Link 3: 26.562 GB/s", f"Link 3: {word}"))


def test_nvlink_capabilities() -> None:
    said = ("P2P is supported", "Access to system memory supported", "P2P atomics supported", "SLI is supported")
    text = gpu(0) + "".join(f"\t Link {n}, {name}: true\n" for n in range(18) for name in said)
    assert read(text)["p2p_supported"] is True


def test_nvlink_remote_ends_leave_out_links_without_a_peer() -> None:
    text = gpu(0, "NVIDIA H100 PCIe") + "\t Link 0: Remote Device 00000000:D5:00.0: Link 0\n"
    text += "\t Link 4: Remote Device 00000000:D5:00.0: Link 6\n"
    assert read(text)["remote"] == {"GPU0": {"0": "00000000:d5:00.0 link 0", "4": "00000000:d5:00.0 link 6"}}


def test_all_links_inactive_is_a_message() -> None:
    found = read(gpu(0, "NVIDIA RTX A6000") + "NVML: Unable to retrieve NVLink information as all links are inActive\n")
    assert found["links"] is None


MATRIX = """\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tPIX\t0-55\t0\t\tN/A
GPU1\tNV18\t X \tSYS\t56-111\t1\t\tN/A
NIC0\tPIX\tSYS\t X \t\t\t

Legend:

  X    = Self

NIC Legend:

  NIC0: mlx5_0
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("GPU1\tNV18\t X", "GPU1\tNV16\t X"),
        ("\tPIX\t0-55", "\tPIY\t0-55"),
        ("GPU0\t X ", "GPU0\tSYS"),
        ("NIC0\tPIX\tSYS\t X ", "NIC0\tPIX\tSYS"),
        ("GPU1\tNV18", "GPU2\tNV18"),
        ("\t0-55\t0", "\tERR!\t0"),
        ("CPU Affinity", "CPU-Affinität"),
        ("  NIC0: mlx5_0\n", "  NIC0: mlx5_0"),
    ],
)
def test_a_topology_that_is_not_one_is_refused(old: str, new: str) -> None:
    assert read(MATRIX)["nvlink"] == "NV18"
    assert old in MATRIX
    with pytest.raises(ProbeError, match="could not read nvidia-smi topo"):
        read(MATRIX.replace(old, new))


def test_glued_cells_are_told_apart() -> None:
    names = "".join(f"NIC{n}\t" for n in range(3))
    text = f"\tGPU0\t{names}CPU Affinity\tNUMA Affinity\n"
    text += "GPU0\t X \tNODENODESYS\t0-7\t0\nNIC0\tNODE\t X PIXSYS\nNIC1\tNODEPIX\t X \tSYS\nNIC2\tSYSSYSSYS\t X \n"
    found = nvidia_topo.parse(text.encode())
    assert found.relations["GPU0", "NIC2"] == "SYS"
    assert found.relations["NIC0", "NIC1"] == "PIX"


def test_csv_cells_that_are_no_values() -> None:
    text = "index, name, ecc.errors.uncorrected.volatile.total, temperature.gpu\n"
    text += "0, NVIDIA H100 80GB HBM3, [N/A], 31\n1, NVIDIA H100 80GB HBM3, [Unknown Error], [GPU requires reset]\n"
    found = read(text)
    assert found["unreadable"] == {"1": ["ecc.errors.uncorrected.volatile.total", "temperature.gpu"]}
    assert found["ecc.errors.uncorrected.volatile.total"] is None
    assert found["verdict"] == "fail"


def test_csv_rows_must_fit_the_heading() -> None:
    with pytest.raises(ProbeError, match="cells under"):
        read("index, name, pstate\n0, NVIDIA L40S\n")


def test_idle_generation_is_no_fault_but_width_is() -> None:
    row = {"pcie.link.gen.current": "1", "pcie.link.gen.max": "4", "pcie.link.width.current": "16"}
    row |= {"pcie.link.width.max": "16", "pstate": "P8"}
    assert nvidia_csv.slow_link(row) is None
    assert nvidia_csv.slow_link({**row, "pstate": "P0"}) == "gen1 x16"
    assert nvidia_csv.slow_link({**row, "pcie.link.width.current": "8"}) == "gen1 x8"
    assert nvidia_csv.slow_link({**row, "pcie.link.width.current": "[N/A]"}) is None


QUERY = """
==============NVSMI LOG==============

Timestamp                                 : Wed Jun  7 19:32:16 2023
Driver Version                            : 535.104.12
CUDA Version                              : 12.2

Attached GPUs                             : 2
GPU 00000000:1B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Clocks Throttle Reasons
        Idle                              : Not Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
    Fabric
        State                             : Completed
        Status                            : Success
    Processes                             : None
GPU 00000000:43:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Clocks Throttle Reasons
        Idle                              : Not Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
    Fabric
        State                             : In Progress
        Status                            : N/A
    Processes                             : None
"""


def test_query_of_two_gpus_that_differ() -> None:
    found = read(QUERY)
    assert found["product"] == "NVIDIA H100 80GB HBM3"
    assert found["fabric_state"] == {"00000000:1B:00.0": "Completed", "00000000:43:00.0": "In Progress"}
    assert found["slowdown"] == {"00000000:1B:00.0": ["HW Slowdown", "HW Thermal Slowdown"], "00000000:43:00.0": []}


@pytest.mark.parametrize("text", [QUERY.rpartition("GPU 0000")[0], QUERY.rpartition("    Processes")[0]])
def test_query_without_its_end_is_cut(text: str) -> None:
    with pytest.raises(ProbeError, match="could not read nvidia-smi -q"):
        read(text)


def test_query_with_an_unknown_error_gives_no_value() -> None:
    found = read(QUERY.replace(": Completed", ": Unknown Error"))
    assert found["unreadable"] == {"00000000:1B:00.0": ["fabric_state"]}
    assert found["fabric_state"] == "In Progress"


HEAD = "#       size         count      type   redop    root  " + "     time   algbw   busbw #wrong" * 2
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 100.5 \n#\n"
ROW = "  1073741824  268435456  float  sum  -1   4053.3  264.90  463.58      0   4057.4  264.64  463.12      0"


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


DIAG4 = """Successfully ran diagnostic for group.
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Metadata  ----------+------------------------------------------------|
| DCGM Version              | 4.4.2                                          |
| Driver Version Detected   | 580.105.08                                     |
| GPU Device IDs Detected   | 2237, 2237                                     |
|-----  Deployment  --------+------------------------------------------------|
| software                  | Pass                                           |
|                           | GPU0: Pass                                     |
|                           | GPU1: Pass                                     |
+-----  Hardware  ----------+------------------------------------------------+
| memory                    | Fail                                           |
|                           | GPU0: Pass                                     |
|                           | GPU1: Fail                                     |
| Warning: GPU1             | Error in memory te                             |
+-----  Stress  ------------+------------------------------------------------+
| targeted_power            | Skip                                           |
|                           | GPU0: Skip                                     |
|                           | GPU1: Skip                                     |
+---------------------------+------------------------------------------------+
"""


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


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Error: unable to establish a connection to the specified host: localhost\n", "host_engine_down"),
        ("Error: Unable to run diagnostic on unsupported GPU 0.\n", "unsupported_gpu"),
        ("Error: Health watches not enabled. Please enable watches. \n", "health_not_enabled"),
        ("Unable to determine the device handle for gpu 0000:0B:00.0: GPU is lost.  Reboot the system\n", "gpu_lost"),
        ("Failed to initialize NVML: Unknown Error\n", "nvml_unknown_error"),
        ("Failed to initialize NVML: Insufficient Permissions\n", "insufficient_permissions"),
        ("bash: nvidia-smi: command not found\n", "not_installed"),
    ],
)
def test_what_is_said_instead_of_an_answer(text: str, error: str) -> None:
    assert read(text)["error"] == error


STATUS = """● nvidia-fabricmanager.service - NVIDIA fabric manager service
     Loaded: loaded (/lib/systemd/system/nvidia-fabricmanager.service; enabled; vendor preset: enabled)
     Active: active (running) since Mon 2026-11-30 10:00:00 UTC; 2min ago
   Main PID: 1120 (nv-fabricmanage)

Nov 30 10:00:00 node01 nv-fabricmanager[1120]: Connected to 1 node.
"""


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


def test_gpu_burn() -> None:
    frame = "100.0%  proc'd: 45220 (46512 Gflop/s) - 43111 (44012 Gflop/s)   errors: 0 - 0   temps: 66 C - 64 C \n"
    good = f"{gpu(0)}{gpu(1)}{frame}Killing processes.. done\n\nTested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: OK\n"
    found = read(good)
    assert (found["verdict"], found["gflops"], found["errors"]) == ("pass", [46512, 44012], [0, 0])
    with pytest.raises(ProbeError, match="cut off"):
        read(good.removesuffix("\tGPU 1: OK\n"))
    with pytest.raises(ProbeError, match="cut off"):
        read(good.partition("Tested")[0])


def test_lspci_with_numbers_and_domains() -> None:
    text = "0001:00:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 80GB] [10de:20b2] (rev a1)\n"
    text += "0002:00:00.0 Bridge [0680]: NVIDIA Corporation GA100 [A100 NVSwitch] [10de:1af1] (rev a1)\n"
    found = read(text)
    assert found["counts"] == {"gpu": 1, "nvswitch": 1, "mlx": 0, "nvme": 0, "pex": 0}


def test_lspci_without_root_is_not_tested() -> None:
    text = "19:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)\n\tCapabilities: <access denied>\n"
    assert (read(text)["error"], read(text)["verdict"]) == ("access_denied", "not tested")


def test_lspci_names_redirecting_switch_ports() -> None:
    text = "17:00.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0)\n"
    text += "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n"
    assert read(text)["acs_redirect"] == ["17:00.0"]


BANDWIDTH = """nvbandwidth Version: v0.8
Built from Git version: v0.8

CUDA Runtime Version: 13000
CUDA Driver Version: 13000
Driver Version: 580.95.05

node01
Device 0: NVIDIA H100 80GB HBM3 (00000000:1b:00)
Device 1: NVIDIA H100 80GB HBM3 (00000000:43:00)

Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     55.30     55.10

&&&& PERF host_to_device_memcpy_ce 110.40 +GB/s

Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0       N/A    377.20
 1    377.10       N/A

SUM device_to_device_memcpy_read_ce 754.30

MIN device_to_device_memcpy_read_ce 377.10
Running multinode_device_to_device_memcpy_read_ce.
Waived:
Running host_device_latency_sm.
memory latency SM CPU(row) <-> GPU(column) (ns)
           0         1
 0    772.58    773.20

SUM host_device_latency_sm 1545.78
"""


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


@pytest.mark.parametrize("text", [TABLE, QUERY, BANDWIDTH, DIAG4, MATRIX, STATUS, f"{HEAD}\n{ROW}\n{END}", counters(0)])
def test_noise_is_refused(text: str) -> None:
    assert form(text)
    with pytest.raises(ProbeError, match="could not read"):
        facts_of(text.encode().replace(b"0", b"\x00", 3))


@pytest.mark.parametrize("text", [TABLE, QUERY, BANDWIDTH, DIAG4, MATRIX, f"{HEAD}\n{ROW}\n{END}", counters(0)])
def test_large_inputs_end_soon(text: str) -> None:
    raw = (text * (2_000_000 // len(text) + 1)).encode()
    began = time.monotonic()
    with contextlib.suppress(ProbeError):
        facts_of(raw)
    assert time.monotonic() - began < 20

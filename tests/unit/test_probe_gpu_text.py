"""Forms of nvidia-smi and lspci of which no recording is at hand; values that are none, from every GPU tool."""

from __future__ import annotations

import contextlib
import time

import pytest

from llmhw_provision.probes import nvidia_csv, nvidia_topo
from llmhw_provision.probes.reading import ProbeError
from llmhw_provision.probes.registry import facts_of
from tests.unit.gpu_texts import (
    BANDWIDTH,
    DIAG4,
    END,
    HEAD,
    MATRIX,
    QUERY,
    ROW,
    STATUS,
    TABLE,
    counters,
    form,
    gpu,
    read,
)


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

"""The stand-ins of GPU tools, read by the product's probes and judged by its checks: healthy boards and broken ones."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from llmhw_provision.checks.table import items, judge
from llmhw_provision.expected import ExpectedGpus
from llmhw_provision.probes import nvidia_csv, nvidia_errors, nvidia_list, nvidia_nvlink, nvidia_query, nvidia_topo
from llmhw_provision.probes.nvidia_query import by_gpu
from tests.assembled import SWITCHED, Assembled, assembled
from tests.gpu_texts import Cards
from tests.rehearsal.gpu.tools import nv_fabricmanager, nvidia_smi
from tests.rehearsal.gpu.tools.nvidia_smi.command import answer
from tests.unit import gpu_root
from tests.unit.gpu_root import Board

DRIVER = "580.159.03"
_COMMANDS = (
    *(*nvidia_list.COMMANDS, *nvidia_csv.COMMANDS, nvidia_query.COMMAND, *nvidia_topo.COMMANDS),
    *(*nvidia_nvlink.COMMANDS, nvidia_nvlink.ERRORS_LATER),
)
_KEYS = {command.key for command in _COMMANDS}
_PCIE = ExpectedGpus(
    kind="h100-pcie",
    count=4,
    pci_ids=("10de:2331",),
    memory_mib=81559,
    power_limit_w=350,
    pcie_generation=5,
    peer_access=True,
    ecc=True,
)
_DESKTOP = ExpectedGpus(
    kind="rtx-5090", count=1, pci_ids=("10de:2b85",), memory_mib=32153, power_limit_w=575, pcie_generation=5
)
_B200 = SWITCHED.model_copy(
    update={"kind": "b200-sxm", "pci_ids": ("10de:2901",), "memory_mib": 183359, "power_limit_w": 1000}
)
BOARDS: dict[str, tuple[Board, ExpectedGpus]] = {
    "AlphaPro660": (gpu_root.ALPHAPRO660, SWITCHED),
    "GA660M": (gpu_root.GA660M, _PCIE),
    "A330": (gpu_root.A330, _DESKTOP),
    "B200": (gpu_root.B200, _B200),
}


@pytest.fixture(autouse=True)
def _release(monkeypatch: pytest.MonkeyPatch) -> None:
    """The packages are those of one release."""
    for module in (nvidia_smi.command, nvidia_smi.screen, nv_fabricmanager):
        monkeypatch.setattr(module, "VERSION", DRIVER)


@cache
def planned(name: str) -> Assembled:
    """A host with the plan for a board; what nvidia-smi says on it is written over."""
    board, gpus = BOARDS[name]
    gpus = gpus.model_copy(update={"driver": DRIVER, "modules": "open"})
    cards = Cards(name, gpus.pci_ids[0], len(board.gpus), gpus.memory_mib or 0, gpus.power_limit_w or 0, 5, DRIVER)
    return assembled(name, replace(cards, links=gpus.links, fabric=gpus.links > 0), gpus)


def read(name: str, root: Path) -> Assembled:
    """The host after the product's commands were answered by the stand-ins."""
    machine = planned(name)
    for command in _COMMANDS:
        text, rc = answer(list(command.argv[1:]), root)
        machine = machine.answered(command.key, text, "stand-in", rc=rc)
    return machine


def judged(machine: Assembled) -> dict[str, str]:
    """Status and words of the checks that rest on what nvidia-smi says."""
    asked = [item for item in items(machine.plan, "quick") if item.check.evidence in _KEYS]
    findings = [judge(item, machine.evidence) for item in asked]
    return {one.check: f"{one.status} {one.found}" for one in findings}


def healthy(name: str, folder: Path) -> Path:
    """A machine with the board, its driver and its daemons."""
    root = gpu_root.machine(folder / "root", BOARDS[name][0], loaded=DRIVER, library=DRIVER)
    gpu_root.persistence(root, "--persistence-mode")
    if BOARDS[name][1].nvlink == "switch":
        gpu_root.fabric_manager(root)
    return root


@pytest.mark.parametrize("name", BOARDS)
def test_a_healthy_board_passes_every_check(name: str, tmp_path: Path) -> None:
    machine = read(name, healthy(name, tmp_path))
    found = judged(machine)
    assert {check: said for check, said in found.items() if not said.startswith("pass")} == {}
    expected = {"gpu-answers", "gpu-kind", "gpu-persistence", "gpu-power", "gpu-pcie", "gpu-topology"}
    if name in ("AlphaPro660", "B200"):
        expected |= {"gpu-fabric", "gpu-nvlink", "gpu-nvlink-errors", "gpu-peers"}
    expected |= {"gpu-ecc", "gpu-remap"} if name != "A330" else set()
    assert expected <= set(found)
    gpus = len(BOARDS[name][0].gpus)
    assert len(nvidia_nvlink.status(machine.evidence)) == len(nvidia_topo.topology(machine.evidence).gpus) == gpus


def test_no_module_and_another_release_of_it(tmp_path: Path) -> None:
    root = gpu_root.machine(tmp_path / "root", gpu_root.ALPHAPRO660, loaded="", library=DRIVER)
    text, rc = answer(["-L"], root)
    assert (nvidia_errors.parse(text.encode())["error"], rc) == ("driver_not_loaded", 9)
    assert judged(read("AlphaPro660", root))["gpu-answers"].startswith("fail nvidia-smi: driver not loaded")
    gpu_root.load(root, gpu_root.ALPHAPRO660, "580.126.09")
    text, rc = answer([], root)
    assert nvidia_errors.parse(text.encode()) == {
        "error": "driver_library_mismatch",
        "verdict": "fail",
        "nvml": "580.159",
    }
    assert rc == 18
    gpu_root.install(root, "580.126.09")
    assert judged(read("AlphaPro660", root))["gpu-answers"] == "pass 8 GPUs answer"


def test_without_the_library_nothing_can_be_asked(tmp_path: Path) -> None:
    root = gpu_root.machine(tmp_path / "root", gpu_root.A330, library="")
    text, rc = answer([], root)
    assert (nvidia_errors.parse(text.encode())["error"], rc) == ("nvml_not_found", 12)


def test_a_gpu_falls_off_the_bus(tmp_path: Path) -> None:
    root = healthy("AlphaPro660", tmp_path)
    gpu_root.lose(root, 5)
    text, rc = answer(["-L"], root)
    assert (nvidia_errors.parse(text.encode()), rc) == (
        {"error": "gpu_lost", "verdict": "fail", "pci": "0001:06:00.0"},
        15,
    )
    assert "gpu lost" in judged(read("AlphaPro660", root))["gpu-answers"]


def test_the_fabric_waits_for_its_manager(tmp_path: Path) -> None:
    root = gpu_root.machine(tmp_path / "root", gpu_root.ALPHAPRO660)
    gpu_root.persistence(root, "--no-persistence-mode")
    found = judged(read("AlphaPro660", root))
    assert found["gpu-fabric"].startswith("fail GPU0: In Progress, N/A")
    assert found["gpu-peers"].startswith("fail GPU0-GPU1: NS")
    assert found["gpu-persistence"].startswith("fail GPU0: Disabled")
    gpu_root.fabric_manager(root)
    assert judged(read("AlphaPro660", root))["gpu-fabric"] == "pass Completed, Success on 8 GPUs"
    (root / "proc/702/cmdline").unlink()  # it died; its pid file stays
    assert "In Progress" in judged(read("AlphaPro660", root))["gpu-fabric"]


def test_xml_and_sections_say_the_same(tmp_path: Path) -> None:
    root = healthy("GA660M", tmp_path)
    log = ElementTree.fromstring(answer(["-q", "-x"], root)[0])
    told = by_gpu(answer(["-q"], root)[0].encode())
    assert [gpu.get("id") for gpu in log.iter("gpu")] == list(told)
    assert log.findtext("gpu/fb_memory_usage/total") == f"{told['00000001:01:00.0']['memory_total_mib']} MiB"
    part = answer(["-q", "-d", "MEMORY,ECC"], root)[0]
    assert "FB Memory Usage" in part
    assert "Product Name" not in part


def test_fields_that_it_knows_and_one_that_it_does_not(tmp_path: Path) -> None:
    root = healthy("A330", tmp_path)
    names = nvidia_csv.parse_fields(answer(["--help-query-gpu"], root)[0].encode())
    assert set(nvidia_csv.WANTED) <= names
    text, rc = answer([f"--query-gpu={','.join(sorted(names))}", "--format=csv"], root)
    assert (len(nvidia_csv.parse(text.encode()).rows), rc) == (1, 0)
    assert answer(["--query-gpu=name,memory.total", "--format=csv,noheader,nounits"], root) == (
        "NVIDIA GeForce RTX 5090, 32607\n",
        0,
    )
    text, rc = answer(["--query-gpu=colour", "--format=csv"], root)
    assert (nvidia_errors.parse(text.encode())["field"], rc) == ("colour", 2)


def test_the_table_is_read(tmp_path: Path) -> None:
    facts = nvidia_list.facts_table(answer([], healthy("AlphaPro660", tmp_path))[0].encode())
    assert (facts["driver"], facts["cuda"], facts["error_cells"]) == (DRIVER, "13.0", {})
    assert len(facts["gpus"]) == 8  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("board", "loaded", "words"),
    [
        (gpu_root.ALPHAPRO660, DRIVER, ""),
        (gpu_root.ALPHAPRO660, "", "driver is not loaded"),
        (gpu_root.ALPHAPRO660, "580.126.09", f"version {DRIVER} don't match with driver version 580.126.09"),
        (gpu_root.GA660M, DRIVER, "NV_WARN_NOTHING_TO_DO"),
        (gpu_root.B200, DRIVER, "NV_WARN_NOTHING_TO_DO"),  # NVLSM does not run
    ],
)
def test_what_keeps_the_fabric_manager_from_work(board: Board, loaded: str, words: str, tmp_path: Path) -> None:
    root = gpu_root.machine(tmp_path / "root", board, loaded=loaded)
    said = nv_fabricmanager.obstacle(root)
    assert words in said
    assert bool(words) == bool(said)


def test_the_fabric_manager_works_with_nvlsm(tmp_path: Path) -> None:
    root = gpu_root.machine(tmp_path / "root", gpu_root.B200)
    gpu_root.runs(root, "nvidia-fabricmanager/nvlsm.pid", "/usr/bin/python3", "/opt/nvidia/nvlsm/sbin/nvlsm")
    assert nv_fabricmanager.obstacle(root) == ""

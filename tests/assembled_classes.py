"""The other machines: MIG, A100, PCIe cards, GeForce, bridges, older and newer column forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from tests import gpu_texts
from tests.assembled import H100, MATRIX, SWITCHED, Assembled, assembled, expected_of, full_mesh, h100, sample
from tests.gpu_texts import Cards


@cache
def mig() -> Assembled:
    """One H100 in MIG mode: NVLinks and remapped rows are not told."""
    cards = replace(H100, count=1, mig=True)
    gpus = SWITCHED.model_copy(update={"count": 1, "mig": True, "peer_access": False})
    return assembled("1× H100 in MIG mode", cards, gpus).answered(
        "nvidia-smi-topo", gpu_texts.matrix([["X"]], [0]), "written in the layout of a sample"
    )


@cache
def a100() -> Assembled:
    """8× A100 with a driver of 2022: older column forms."""
    cards = Cards("NVIDIA A100-SXM4-80GB", "10de:20b2", 8, 81920, 400, 4, "535.161.08", 12, "25", fabric=True, old=True)
    gpus = expected_of(
        "a100-sxm-80", cards, nvlink="switch", links=12, links_per_pair=12, peer_access=True, modules="open"
    )
    machine = assembled("8× A100, older column forms", cards, gpus)
    return machine.answered("nvidia-smi-topo", full_mesh("NV12"), MATRIX)


@cache
def pcie() -> Assembled:
    """4× L40S without NVLink, on two sockets."""
    cards = Cards("NVIDIA L40S", "10de:26b9", 4, 46068, 350, 4, "595.80")
    gpus = expected_of("l40s", cards, peer_access=True, modules="open")
    near, far = "NODE", "SYS"
    rows = [["X", near, far, far], [near, "X", far, far], [far, far, "X", near], [far, far, near, "X"]]
    machine = assembled("4× L40S on PCIe", cards, gpus)
    return machine.answered(
        "nvidia-smi-topo", gpu_texts.matrix(rows, [0, 0, 1, 1]), "written in the layout of a sample"
    )


@cache
def desktop() -> Assembled:
    """Two GeForce cards at rest: generation 1, no ECC, no peer access."""
    cards = Cards("NVIDIA GeForce RTX 5090", "10de:2b85", 2, 32607, 575, 5, "595.71.05", ecc=False, resting=True)
    gpus = expected_of("rtx-5090", cards, memory_mib=32153, modules="open")
    name = "nvidia-smi/topo_m_rtx_2gpu_phb.txt"
    return assembled("2× GeForce at rest", cards, gpus).answered("nvidia-smi-topo", sample(name), name)


@cache
def bridged() -> Assembled:
    """2× H100 NVL joined by bridges: 12 of 18 links are in use by design."""
    cards = Cards("NVIDIA H100 NVL", "10de:2321", 2, 95830, 400, 5, "590.48.01", links=18)
    gpus = expected_of("h100-nvl", cards, nvlink="pairs", links=12, links_per_pair=12, peer_access=True, modules="open")
    name = "nvidia-smi/nvlink_s_h100_pcie_bridge_12of18.txt"
    machine = assembled("2× H100 NVL with bridges", cards, gpus).answered("nvlink-status", sample(name), name)
    joined = gpu_texts.matrix([["X", "NV12"], ["NV12", "X"]], [0, 0])
    return machine.answered("nvidia-smi-topo", joined, "written in the layout of a sample")


@cache
def older() -> Assembled:
    """8× H100 with the column forms of a driver of 2023: throttle reasons, no GPU NUMA ID, blanks for tabs."""
    cards = replace(H100, driver="535.161.08", old=True)
    gpus = SWITCHED.model_copy(update={"driver": "535.161.08", "modules": None})
    relations = [["X" if row == column else "NV18" for column in range(8)] for row in range(8)]
    text = gpu_texts.matrix(relations, [0, 0, 0, 0, 1, 1, 1, 1], old=True)
    machine = assembled("8× H100, older column forms", cards, gpus).answered("nvidia-smi-topo", text, "written by us")
    refusal = "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n"
    return machine.answered("nvidia-smi-version", "", "written by us", rc=1, stderr=refusal)


@cache
def newer() -> Assembled:
    """8× H100 with the column forms of the newest drivers: KMD and CUDA UMD versions."""
    cards = replace(H100, driver="610.43.02", renamed=True)
    gpus = SWITCHED.model_copy(update={"driver": "610.43.02"})
    machine = assembled("8× H100, newer column forms", cards, gpus)
    machine = machine.edited("nvidia-smi-version", "^DRIVER version ", "KMD version    ")
    machine = machine.edited("nvidia-smi-version", "^CUDA Version   ", "CUDA UMD Version")
    return machine.answered("nvidia-smi-topo", full_mesh("NV18"), MATRIX)


@cache
def v100() -> Assembled:
    """4× V100 joined directly, with the forms of a driver of 2021: pages are retired, no rows are remapped."""
    cards = Cards(
        "Tesla V100-SXM2-32GB", "10de:1db5", 4, 32510, 300, 3, "470.256.02", 6, "25.781", old=True, retires=True
    )
    gpus = expected_of(
        "v100-sxm-32", cards, memory_mib=32768, nvlink="mesh", links=6, links_per_pair=2, peer_access=True
    )
    rows = [["X" if row == column else "NV2" for column in range(4)] for row in range(4)]
    machine = assembled("4× V100, older column forms", cards, gpus)
    return machine.answered("nvidia-smi-topo", gpu_texts.matrix(rows, [0, 0, 1, 1], old=True), "written by us")


HEALTHY: tuple[Callable[[], Assembled], ...] = (h100, mig, a100, pcie, desktop, bridged, older, newer, v100)

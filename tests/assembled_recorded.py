"""The assembled machines with others' recordings instead of our texts; read beside the checkout, never copied."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from llmhw_provision.expected import Expected, ExpectedFabric
from tests.assembled import Assembled, h100, sample
from tests.assembled_classes import a100, desktop, mig, pcie
from tests.gpu_texts import BUSES

_SMI = "nvidia-smi"


def _taken(machine: Assembled, **files: str) -> Assembled:
    for key, name in files.items():
        machine = machine.answered(key.replace("_", "-"), sample(name), name)
    return machine


def _repeated(machine: Assembled, name: str, count: int) -> Assembled:
    """`nvidia-smi -q` of one GPU as if there were `count` of them."""
    head, heading, block = sample(name).partition("\nGPU 00000000:")
    body = block.partition("\n")[2]
    text = re.sub(r"(?m)^(Attached GPUs +): 1$", rf"\1: {count}", head)
    text += "".join(f"{heading}{bus}\n{body.rstrip()}" for bus in BUSES[:count]) + "\n"
    return machine.answered("nvidia-smi-q", text, f"{name}, its block repeated")


def eight() -> Assembled:
    """8× H100 with matrix, PCI listing, journal and query as recorded on others' machines."""
    machine = _repeated(h100(), f"{_SMI}/q_h100_sxm_1gpu.txt", 8)
    machine = _taken(
        machine,
        nvidia_smi_topo=f"{_SMI}/topo_m_h100_8gpu_nv18_12nic_dgx.txt",
        fabric_manager="fabricmanager/journal_ok.log",
        nvidia_smi_version=f"{_SMI}/version_h100_sxm_1gpu.txt",
    )
    name = "pci/lspci_vvv_xe9680_h100.txt"
    listed = re.sub(r"(?m)^(\S+ 3D controller: .*)$", r"\1\n\tKernel driver in use: nvidia", sample(name))
    machine = machine.answered("lspci", listed, f"{name}, driver lines added")
    return machine.answered(
        "log:vllm.service", sample("serving/vllm_startup_v1_tp2.log"), "serving/vllm_startup_v1_tp2.log"
    )


def sliced() -> Assembled:
    """One H100 in MIG mode, as recorded."""
    return _taken(
        mig(),
        nvidia_smi_list=f"{_SMI}/L_h100_mig.txt",
        nvidia_smi_q=f"{_SMI}/q_h100_mig.txt",
        nvidia_smi_version=f"{_SMI}/version_h100_mig.txt",
        nvidia_smi_gpus=f"{_SMI}/query_gpu_all_h100_mig.csv",
    )


def h200() -> Assembled:
    """One H200 of a switched board, as recorded."""
    base = mig()
    gpus = base.plan.expected.gpus if base.plan.expected else None
    assert gpus
    wanted = gpus.model_copy(update={"mig": False, "memory_mib": 143771, "kind": "h200-sxm", "pci_ids": ("10de:2330",)})
    machine = replace(base, title="1× H200", plan=base.plan.model_copy(update={"expected": Expected(gpus=wanted)}))
    machine = _taken(
        machine,
        nvidia_smi_list=f"{_SMI}/L_h200_1gpu.txt",
        nvidia_smi_q=f"{_SMI}/q_h200_1gpu.txt",
        nvidia_smi_gpus=f"{_SMI}/query_gpu_all_h200_1gpu.csv",
        nvidia_smi_topo=f"{_SMI}/topo_m_h200_1gpu_ansi.txt",
        nvlink_status=f"{_SMI}/nvlink_s_h200_1gpu.txt",
    )
    errors = "".join(
        ["GPU 0: NVIDIA H200 (UUID: GPU-0)\n", *(f"\t Link {link}: CRC Errors: 0\n" for link in range(18))]
    )
    for key in ("nvlink-errors", "nvlink-errors-later"):
        machine = machine.answered(key, errors, "written in the layout of nvlink -e")
    return machine


def ampere() -> Assembled:
    """8× A100 with the recorded NVLinks."""
    return _taken(a100(), nvlink_status=f"{_SMI}/nvlink_s_a100_8gpu.txt")


def cards() -> Assembled:
    """4× L40S with the recorded query."""
    return _repeated(pcie(), f"{_SMI}/q_l40s_1gpu.txt", 4)


def geforce() -> Assembled:
    """One GeForce card at rest in P8 at generation 1, as recorded."""
    base = desktop()
    gpus = base.plan.expected.gpus if base.plan.expected else None
    assert gpus
    wanted = gpus.model_copy(
        update={"count": 1, "memory_mib": 16376, "power_limit_w": 320, "pcie_generation": 4, "pci_ids": ()}
    )
    machine = replace(base, title="1× GeForce", plan=base.plan.model_copy(update={"expected": Expected(gpus=wanted)}))
    machine = machine.edited("pci", r"^0000:43:00.0/(class|vendor|device|numa_node):\S+\n", "")
    machine = _taken(
        machine,
        nvidia_smi_list=f"{_SMI}/L_rtx4080s_1gpu.txt",
        nvidia_smi_q=f"{_SMI}/q_rtx4080s_1gpu.txt",
        nvidia_smi_version=f"{_SMI}/version_rtx4080s_1gpu.txt",
        nvidia_smi_topo=f"{_SMI}/topo_m_rtx4080s_1gpu_ansi.txt",
        nvidia_smi_gpus=f"{_SMI}/query_gpu_all_rtx4080s_1gpu.csv",
        lspci="pci/lspci_lnksta_idle_gen1_4090.txt",
    )
    return machine.edited("nvidia-smi-gpus", r"Enabled, Disabled, HMM", "Enabled, Enabled, HMM")


def rails() -> Assembled:
    """The adapters of a recorded H100 node, beside a bond of two lanes that is not planned."""
    base = h100()
    ports = tuple(f"mlx5_{number}" for number in (0, 1, 4, 5, 6, 7, 8, 9))
    fabric = ExpectedFabric(ports=ports, rate_gbit=400)
    machine = replace(
        base,
        title="eight NDR adapters of a node",
        plan=base.plan.model_copy(update={"expected": Expected(fabric=fabric)}),
    )
    name = "ib/sysfs_class_infiniband_h100.txt"
    for key in ("ib-sysfs", "ib-sysfs-later"):
        machine = machine.answered(key, sample(name), name)
    blocks = re.split(r"(?m)^(?=CA ')", sample("ib/ibstat_h100_8ndr_4eth_ok.txt"))
    first = next(block for block in blocks if block.startswith("CA 'mlx5_0'"))
    listed = "".join(first.replace("mlx5_0", port) for port in ports)
    return machine.answered("ibstat", listed, "ib/ibstat_h100_8ndr_4eth_ok.txt, ports renamed")


RECORDED: tuple[Callable[[], Assembled], ...] = (eight, sliced, h200, ampere, cards, geforce, rails)

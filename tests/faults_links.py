"""Faults of the GPUs' links, memory, clocks and heat."""

from __future__ import annotations

import re

from tests.assembled import Assembled, h100, sample
from tests.assembled_classes import a100, desktop, mig, pcie, v100
from tests.fault import Fault, in_block, in_row, logged, shown

_SMI, _OURS = "nvidia-smi", "written by us"


def _slow_row() -> Assembled:
    line = next(line for line in sample(f"{_SMI}/query_gpu_pcie_8.csv").splitlines() if line.startswith("5,"))
    cells = [cell.strip() for cell in line.split(",")]
    gen, gen_max, width, width_max = cells[3:7]
    return in_row(
        h100(),
        5,
        "P0, Enabled, Disabled, Enabled, 5, 5, 16, 16",
        f"P0, Enabled, Disabled, Enabled, {gen}, {gen_max}, {width}, {width_max}",
    )


def _slow_listing() -> Assembled:
    name = "pci/lspci_lnksta_h100_x8_gen4.txt"
    return h100().edited("lspci", r"c3:00\.0 3D(?:.*\n)+?\n", sample(name).partition("\n\n")[2] + "\n")


def _older_links() -> Assembled:
    name = f"{_SMI}/nvlink_s_v100_inactive.txt"
    return v100().edited("nvlink-status", r"(?s)^GPU 3: .*", sample(name))


def _remap() -> Assembled:
    name = f"{_SMI}/q_excerpt_a100_remap_pending.txt"
    said = re.search(r"(?s)    Remapped Rows\n.*?(?=        Bank)", sample(name))
    assert said
    return in_block(a100(), 2, r"    Remapped Rows\n(?:        .*\n){4}", said[0])


def _xid(what: str, name: str, caught: dict[str, tuple[str, str]]) -> Fault:
    return Fault(what, name, lambda: logged(h100(), sample(name), name), caught)


def _third(match: re.Match[str]) -> str:
    """The row with the relation to GPU3 lowered."""
    cells = match[1].split("\t")
    cells[4] = cells[4].replace("NV18", "NV16")
    return "\t".join(cells)


LINKS = (
    shown(
        "two NVLinks down on one GPU",
        f"{_SMI}/nvlink_s_h100_8gpu_gpu3_2inactive.txt",
        "nvlink-status",
        {"gpu-nvlink": ("", "GPU3: 16 up, down: 4, 5")},
    ),
    Fault(
        "two NVLinks of an older card",
        f"{_SMI}/nvlink_s_v100_inactive.txt",
        _older_links,
        {"gpu-nvlink": ("", "GPU3: 4 up, down: 3, 5")},
    ),
    Fault(
        "NV16 instead of NV18",
        f"{_SMI}/topo_m_h100_8gpu_nv16_degraded_gpu3.txt",
        lambda: (
            h100()
            .edited("nvidia-smi-topo", r"^(GPU3.*)$", lambda match: match[1].replace("NV18", "NV16"))
            .edited("nvidia-smi-topo", r"^(GPU[0124567]\s.*)$", _third)
        ),
        {"gpu-topology": ("", "GPU3: NV16 instead of NV18")},
    ),
    shown(
        "one GPU missing from the matrix",
        f"{_SMI}/topo_m_h100_7gpu_one_missing.txt",
        "nvidia-smi-topo",
        {"gpu-topology": ("fewer", "7 GPUs")},
    ),
    Fault(
        "a bridge half seated: no answer in time",
        "nccl#557",
        lambda: h100().answered("nvidia-smi-topo", "", _OURS, rc=124),
        {"gpu-topology": ("slow", "did not answer")},
    ),
    shown(
        "all NVLinks down while the diagnosis passes",
        "dcgm/nvlink_link_status_all_down.txt",
        "dcgm-nvlink",
        {"dcgm-links": ("", "GPU0: links 0")},
    ),
    Fault(
        "an NVLink counter that rises",
        _OURS,
        lambda: h100().edited("nvlink-errors-later", r"(?s)(GPU 4.*?Link 2: Replay Errors): 0", r"\1: 12", count=1),
        {"gpu-nvlink-errors": ("", "GPU4 link 2 Replay Errors: +12")},
    ),
    Fault(
        "no peer access",
        f"{_SMI}/topo_p2p_rw_2x5090_gns.txt",
        lambda: h100().edited("nvidia-smi-topo-p2p", r"\bOK\t", "GNS\t").edited("nvidia-smi-topo-p2p", r"\bOK$", "GNS"),
        {"gpu-peers": ("", "GNS")},
    ),
    Fault(
        "GPU at generation 4, 8 lanes",
        f"{_SMI}/query_gpu_pcie_8.csv",
        _slow_row,
        {"gpu-pcie": ("", "GPU5: generation 4 x8")},
    ),
    Fault(
        "eight lanes at full generation",
        _OURS,
        lambda: in_row(h100(), 1, "5, 5, 16, 16", "5, 5, 8, 16"),
        {"gpu-pcie": ("", "GPU1: generation 5 x8")},
    ),
    Fault(
        "four lanes on a card at rest",
        "open-gpu-kernel-modules#6",
        lambda: in_row(desktop(), 1, "1, 5, 16, 16", "1, 5, 4, 16"),
        {"gpu-pcie": ("", "GPU1: generation 5 x4")},
    ),
    Fault(
        "generation 4, 8 lanes in lspci",
        "pci/lspci_lnksta_h100_x8_gen4.txt",
        _slow_listing,
        {"gpu-pcie": ("", "c3:00.0: 16GT/s x8")},
    ),
    Fault(
        "GPU far from every planned NIC",
        "nccl-tests#232",
        lambda: h100().edited("nvidia-smi-topo", r"\bPIX\b|\bNODE\b", "SYS"),
        {"gpu-nics": ("", "GPU0: SYS to every")},
    ),
    Fault(
        "no CPU affinity",
        _OURS,
        lambda: pcie().edited("nvidia-smi-topo", r"\t0-31\t", "\tN/A\t"),
        {"gpu-affinity": ("", "GPU0")},
    ),
)


HEALTH = (
    Fault(
        "row remap pending",
        f"{_SMI}/q_excerpt_a100_remap_pending.txt",
        _remap,
        {"gpu-remap": ("", "GPU2: remap pending")},
    ),
    Fault(
        "row remap failed",
        "ml-engineering debug.md",
        lambda: in_block(h100(), 4, r"(Remapping Failure Occurred +): No", r"\1: Yes"),
        {"gpu-remap": ("failed", "GPU4")},
    ),
    Fault(
        "uncorrectable memory error",
        _OURS,
        lambda: in_block(h100(), 1, r"(DRAM Uncorrectable +): 0", r"\1: 2"),
        {"gpu-ecc": ("", "GPU1: 2 uncorrectable")},
    ),
    Fault(
        "ECC off",
        _OURS,
        lambda: in_block(h100(), 1, r"(ECC Mode\n        Current +): Enabled", r"\1: Disabled"),
        {"gpu-ecc": ("off", "GPU1: Disabled")},
    ),
    Fault(
        "power brake",
        _OURS,
        lambda: in_block(h100(), 7, r"(HW Power Brake Slowdown +): Not Active", r"\1: Active"),
        {"gpu-slowdown": ("brake", "GPU7")},
    ),
    Fault(
        "too hot",
        _OURS,
        lambda: in_block(h100(), 6, r"(SW Thermal Slowdown +): Not Active", r"\1: Active"),
        {"gpu-slowdown": ("", "GPU6")},
    ),
    Fault(
        "one GPU hotter than the others",
        _OURS,
        lambda: in_row(h100(), 2, " 33, 69", " 71, 69"),
        {"gpu-temperature": ("", "GPU2: 71")},
    ),
    Fault(
        "power limit lowered",
        _OURS,
        lambda: in_row(h100(), 0, "700.00 W", "500.00 W"),
        {"gpu-power": ("", "GPU0: 500 W")},
    ),
    _xid("Xid 79", "kernel/dmesg_xid79_fallen.log", {"gpu-xid": ("bus", "Xid 79 at 0000:44:00")}),
    _xid("Xid 119, GSP", "kernel/dmesg_xid119_gsp.log", {"gpu-xid": ("firmware", "Xid 119")}),
    _xid("Xid 63", "kernel/dmesg_xid63_row_remap.log", {"gpu-xid": ("remap", "Xid 63")}),
    _xid("eleven kinds of Xid", "kernel/dmesg_xid_zoo.log", {"gpu-xid": ("bus", "Xid 79")}),
    Fault(
        "off the bus without an Xid",
        "NVSentinel#155",
        lambda: logged(mig(), "[9.1] NVRM: GPU 0000:1b:00.0: GPU has fallen off the bus.\n", _OURS),
        {"gpu-xid": ("bus", "fallen off the bus")},
    ),
    Fault(
        "uncorrected PCIe error",
        _OURS,
        lambda: logged(
            h100(),
            "[9.1] pcieport 0000:15:01.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer\n",
            _OURS,
        ),
        {"pcie-errors": ("", "0000:15:01.0")},
    ),
    Fault(
        "uncorrectable error of main memory",
        _OURS,
        lambda: logged(h100(), "[9.1] EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0\n", _OURS),
        {"host-errors": ("", "uncorrectable")},
    ),
)
LINK_FAULTS = (*LINKS, *HEALTH)

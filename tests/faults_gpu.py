"""Faults of GPUs: driver, fabric, links, memory, heat."""

from __future__ import annotations

import re

from tests.assembled import Assembled, a100, desktop, h100, mig, pcie, sample
from tests.fault import Fault, logged, silent, told

_SMI, _OURS = "nvidia-smi", "written by us"


def _block(machine: Assembled, gpu: int, pattern: str, new: str) -> Assembled:
    """Another line in the block of one GPU in `nvidia-smi -q`."""
    text = machine.evidence.results["nvidia-smi-q"].stdout.decode()
    parts = re.split(r"(?m)^(?=GPU 0)", text)
    parts[gpu + 1], count = re.subn(pattern, new, parts[gpu + 1], count=1, flags=re.MULTILINE)
    if not count:
        raise ValueError(pattern)
    return machine.answered("nvidia-smi-q", "".join(parts), "written in the layout of a sample")


def _row(machine: Assembled, gpu: int, old: str, new: str) -> Assembled:
    """Other cells in the row of one GPU in the CSV."""
    return machine.edited("nvidia-smi-gpus", rf"^({gpu}, .*){re.escape(old)}", rf"\g<1>{new}")


def _slow_row() -> Assembled:
    line = next(line for line in sample(f"{_SMI}/query_gpu_pcie_8.csv").splitlines() if line.startswith("5,"))
    cells = [cell.strip() for cell in line.split(",")]
    gen, gen_max, width, width_max = cells[3:7]
    return _row(
        h100(),
        5,
        "P0, Enabled, Disabled, Enabled, 5, 5, 16, 16",
        f"P0, Enabled, Disabled, Enabled, {gen}, {gen_max}, {width}, {width_max}",
    )


def _slow_listing() -> Assembled:
    name = "pci/lspci_lnksta_h100_x8_gen4.txt"
    return h100().edited("lspci", r"c3:00\.0 3D(?:.*\n)+?\n", sample(name).partition("\n\n")[2] + "\n")


def _remap() -> Assembled:
    name = f"{_SMI}/q_excerpt_a100_remap_pending.txt"
    said = re.search(r"(?s)    Remapped Rows\n.*?(?=        Bank)", sample(name))
    assert said
    return _block(a100(), 2, r"    Remapped Rows\n(?:        .*\n){4}", said[0])


def _mismatch() -> Assembled:
    machine = silent(h100(), f"{_SMI}/errors/driver_library_mismatch.txt", 18)
    return machine.edited("nvidia-driver", r"^(installed libnvidia-compute-590) \S+", r"\1 590.50.02-0ubuntu1")


def _manager(name: str, machine: Assembled) -> Assembled:
    machine = told(machine, "fabric-manager", name)
    status = (
        "× nvidia-fabricmanager.service - NVIDIA fabric manager service\n"
        "     Loaded: loaded (/lib/systemd/system/nvidia-fabricmanager.service; enabled; preset: enabled)\n"
        "     Active: failed (Result: exit-code) since Mon 2026-11-30 10:00:00 UTC; 1h ago\n"
    )
    return machine.answered("fabric-manager-unit", status, "written in the layout of systemctl", rc=3)


def _umad() -> Assembled:
    line = "Nov 30 10:00:41 node01 nvidia-fabricmanager-start.sh[1]: nvlsm: command not found\n"
    machine = _manager("fabricmanager/journal_version_mismatch.log", h100())
    return machine.answered("fabric-manager", line, _OURS)


def _waiting() -> Assembled:
    machine = h100()
    for gpu in range(8):
        machine = _block(machine, gpu, r"^(        State +): Completed", r"\1: In Progress")
        machine = _block(machine, gpu, r"^(        Status +): Success", r"\1: N/A")
    return machine


def _rejected() -> Assembled:
    machine = silent(h100(), f"{_SMI}/errors/driver_not_loaded.txt", 9)
    machine = machine.edited("nvidia-driver", r"== loaded\n.*\n", "== loaded\n")
    return logged(machine, "[   14.1] Loading of module: Key was rejected by service\n", _OURS)


def _address() -> Assembled:
    line = "[   14.1] NVRM: GPU 0000:c3:00.0: RmInitAdapter failed! (0x22:0x56:884)\n"
    machine = silent(h100(), f"{_SMI}/errors/no_devices_found.txt", 6)
    return logged(machine, line, _OURS)


def _taken() -> Assembled:
    line = "[   14.1] NVRM: GPU 0000:1b:00.0 is already bound to NovaCore.\n[   14.2] NVRM: No NVIDIA devices probed.\n"
    machine = silent(h100(), f"{_SMI}/errors/driver_not_loaded.txt", 9)
    machine = machine.edited("nvidia-driver", r"== loaded\n.*\n", "== loaded\n")
    machine = machine.edited("lspci", "in use: nvidia$", "in use: nova_core")
    return logged(machine, line, _OURS)


def _xid(name: str) -> Assembled:
    return logged(h100(), sample(name), name)


_MISSING = r"^0000:df:00\.0/(class|vendor|device|numa_node):\S+\n"
ANSWERS = (
    Fault(
        "upgraded library, loaded module still old",
        "B023, B024",
        _mismatch,
        {"gpu-answers": ("driver-library-mismatch", "driver library mismatch"), "gpu-version": ("half", "590.50.02")},
    ),
    Fault(
        "driver not loaded",
        f"{_SMI}/errors/driver_not_loaded.txt",
        lambda: silent(h100(), f"{_SMI}/errors/driver_not_loaded.txt", 9),
        {"gpu-answers": ("driver-not-loaded", "driver not loaded")},
    ),
    Fault(
        "proprietary modules on a Blackwell card",
        "B017",
        lambda: silent(desktop(), f"{_SMI}/errors/no_devices_found.txt", 6).edited(
            "nvidia-driver", "Dual MIT/GPL", "NVIDIA"
        ),
        {"gpu-answers": ("no-devices", "no devices"), "gpu-modules": ("", "proprietary")},
    ),
    Fault(
        "Above 4G Decoding off",
        "B019",
        _address,
        {"gpu-answers": ("no-devices", ""), "gpu-start": ("firmware", "rm init")},
    ),
    Fault(
        "nova_core holds the GPUs",
        "B020",
        _taken,
        {"gpu-answers": ("driver-not-loaded", ""), "gpu-start": ("taken", "no nvidia"), "gpu-bound": ("", "nova_core")},
    ),
    Fault(
        "Secure Boot refuses the module",
        "B034",
        _rejected,
        {"gpu-answers": ("driver-not-loaded", ""), "gpu-start": ("rejected", "module rejected")},
    ),
    Fault(
        "one GPU lost: no query answers",
        f"{_SMI}/errors/unable_to_determine_handle.txt",
        lambda: silent(h100(), f"{_SMI}/errors/unable_to_determine_handle.txt", 15),
        {"gpu-answers": ("gpu-lost", "gpu lost")},
    ),
    Fault(
        "driver older than our fields",
        f"{_SMI}/query_gpu_invalid_field.txt",
        lambda: told(h100(), "nvidia-smi-gpus", f"{_SMI}/query_gpu_invalid_field.txt", rc=2),
        {"gpu-answers": ("invalid-field", "invalid field")},
    ),
    Fault(
        "seven of eight GPUs on the PCI bus",
        _OURS,
        lambda: h100().edited("pci", _MISSING, ""),
        {"gpu-present": ("", "7× h100-sxm")},
    ),
    Fault(
        "another card",
        _OURS,
        lambda: h100().edited("pci", "device:0x2330", "device:0x2331", count=1),
        {"gpu-present": ("other", "1× 10de:2331")},
    ),
    Fault(
        "a GPU whose cells cannot be read",
        _OURS,
        lambda: _row(h100(), 3, "69.85 W", "[Unknown Error]"),
        {"gpu-answers": ("gpu-lost", "GPU3: power.draw")},
    ),
    Fault(
        "module not built for this kernel",
        "B015",
        lambda: h100().edited("nvidia-driver", r"== file\n.*\n", "== file\n"),
        {"gpu-version": ("half", "module on the disk: none"), "gpu-modules": ("none", "no nvidia module")},
    ),
    Fault(
        "less memory on one GPU",
        _OURS,
        lambda: _row(h100(), 5, "81559 MiB", "40960 MiB"),
        {"gpu-kind": ("memory", "GPU5: 40960")},
    ),
    Fault(
        "one VBIOS unlike the others",
        _OURS,
        lambda: _row(h100(), 6, "96.00.A5", "96.00.89"),
        {"gpu-kind": ("vbios", "GPU6")},
    ),
    Fault(
        "persistence off",
        "B036",
        lambda: _row(h100(), 2, "P0, Enabled", "P0, Disabled"),
        {"gpu-persistence": ("", "GPU2")},
    ),
    Fault(
        "MIG left on",
        _OURS,
        lambda: _row(h100(), 2, "Enabled, Disabled", "Enabled, Enabled"),
        {"gpu-mig": ("", "GPU2: Enabled")},
    ),
)
FABRIC = (
    Fault(
        "fabric manager of another branch",
        "B001",
        lambda: (
            _manager("fabricmanager/journal_version_mismatch.log", h100())
            .edited("fabric-manager", "550.90.07", "595.80")
            .edited("nvidia-driver", r"Fabric Manager version is : \S+", "Fabric Manager version is : 595.80")
            .edited("nvidia-driver", r"nvidia-fabricmanager \S+", "nvidia-fabricmanager 595.80-1")
        ),
        {"gpu-version": ("fabric-manager", "595.80"), "gpu-manager": ("version-mismatch", "version mismatch")},
    ),
    Fault(
        "fabric manager refuses the driver",
        "fabricmanager/journal_version_mismatch.log",
        lambda: _manager("fabricmanager/journal_version_mismatch.log", h100()),
        {"gpu-manager": ("version-mismatch", "version mismatch")},
    ),
    Fault(
        "fabric manager inactive, CUDA error 802",
        "B003",
        lambda: (
            _waiting()
            .edited("fabric-manager-unit", r"active \(running\)", "inactive (dead)")
            .edited("fabric-manager", r"(?s)\A.*\Z", "-- No entries --\n")
        ),
        {"gpu-manager": ("", "inactive"), "gpu-fabric": ("waits", "In Progress")},
    ),
    Fault(
        "fabric manager on PCIe cards",
        "B004",
        lambda: _manager("fabricmanager/journal_nothing_to_do_pcie.log", pcie()),
        {"gpu-manager": ("unwanted", "nothing to do")},
    ),
    Fault(
        "NVSwitches without their manager",
        "B005",
        lambda: _manager("fabricmanager/journal_nothing_to_do_pcie.log", _waiting()),
        {"gpu-manager": ("nothing-to-do", "nothing to do"), "gpu-fabric": ("waits", "In Progress")},
    ),
    Fault("nvlsm not installed", "B005", _umad, {"gpu-manager": ("nvlsm-missing", "nvlsm missing")}),
    Fault(
        "fatal SXid",
        "cihlab/fics-cluster-guide#53",
        lambda: logged(
            h100(), "[9.1] nvidia-nvswitch0: SXid (PCI:0000:83:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n", _OURS
        ),
        {"gpu-sxid": ("", "SXid 20034")},
    ),
)
LINKS = (
    Fault(
        "two NVLinks down on one GPU",
        f"{_SMI}/nvlink_s_h100_8gpu_gpu3_2inactive.txt",
        lambda: told(h100(), "nvlink-status", f"{_SMI}/nvlink_s_h100_8gpu_gpu3_2inactive.txt"),
        {"gpu-nvlink": ("", "GPU3: 16 up, down: 4, 5")},
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
    Fault(
        "one GPU missing from the matrix",
        f"{_SMI}/topo_m_h100_7gpu_one_missing.txt",
        lambda: told(h100(), "nvidia-smi-topo", f"{_SMI}/topo_m_h100_7gpu_one_missing.txt"),
        {"gpu-topology": ("fewer", "7 GPUs")},
    ),
    Fault(
        "a bridge half seated: no answer in time",
        "nccl#557",
        lambda: h100().answered("nvidia-smi-topo", "", _OURS, rc=124),
        {"gpu-topology": ("slow", "did not answer")},
    ),
    Fault(
        "all NVLinks down while the diagnosis passes",
        "dcgm/nvlink_link_status_all_down.txt",
        lambda: told(h100(), "dcgm-nvlink", "dcgm/nvlink_link_status_all_down.txt"),
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
        "the same, in lspci",
        "pci/lspci_lnksta_h100_x8_gen4.txt",
        _slow_listing,
        {"gpu-pcie": ("", "c3:00.0: 16GT/s x8")},
    ),
    Fault(
        "GPU far from every planned NIC",
        "nccl-tests#232",
        lambda: h100().edited("nvidia-smi-topo", "PIX", "SYS"),
        {"gpu-nics": ("", "GPU0: NODE, SYS")},
    ),
    Fault(
        "no CPU affinity",
        _OURS,
        lambda: pcie().edited("nvidia-smi-topo", r"\t0-31\t", "\tN/A\t"),
        {"gpu-affinity": ("", "GPU0")},
    ),
)


def _third(match: re.Match[str]) -> str:
    """The row with the relation to GPU3 lowered."""
    cells = match[1].split("\t")
    cells[4] = cells[4].replace("NV18", "NV16")
    return "\t".join(cells)


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
        lambda: _block(h100(), 4, r"(Remapping Failure Occurred +): No", r"\1: Yes"),
        {"gpu-remap": ("failed", "GPU4")},
    ),
    Fault(
        "uncorrectable memory error",
        _OURS,
        lambda: _block(h100(), 1, r"(DRAM Uncorrectable +): 0", r"\1: 2"),
        {"gpu-ecc": ("", "GPU1: 2 uncorrectable")},
    ),
    Fault(
        "ECC off",
        _OURS,
        lambda: _block(h100(), 1, r"(ECC Mode\n        Current +): Enabled", r"\1: Disabled"),
        {"gpu-ecc": ("off", "GPU1: Disabled")},
    ),
    Fault(
        "power brake",
        _OURS,
        lambda: _block(h100(), 7, r"(HW Power Brake Slowdown +): Not Active", r"\1: Active"),
        {"gpu-slowdown": ("brake", "GPU7")},
    ),
    Fault(
        "too hot",
        _OURS,
        lambda: _block(h100(), 6, r"(SW Thermal Slowdown +): Not Active", r"\1: Active"),
        {"gpu-slowdown": ("", "GPU6")},
    ),
    Fault(
        "one GPU hotter than the others",
        _OURS,
        lambda: _row(h100(), 2, " 33, 69", " 71, 69"),
        {"gpu-temperature": ("", "GPU2: 71")},
    ),
    Fault(
        "power limit lowered",
        _OURS,
        lambda: _row(h100(), 0, "700.00 W", "500.00 W"),
        {"gpu-power": ("", "GPU0: 500 W")},
    ),
    Fault(
        "Xid 79",
        "kernel/dmesg_xid79_fallen.log",
        lambda: _xid("kernel/dmesg_xid79_fallen.log"),
        {"gpu-xid": ("bus", "Xid 79 at 0000:44:00")},
    ),
    Fault(
        "Xid 119, GSP",
        "kernel/dmesg_xid119_gsp.log",
        lambda: _xid("kernel/dmesg_xid119_gsp.log"),
        {"gpu-xid": ("firmware", "Xid 119")},
    ),
    Fault(
        "Xid 63",
        "kernel/dmesg_xid63_row_remap.log",
        lambda: _xid("kernel/dmesg_xid63_row_remap.log"),
        {"gpu-xid": ("remap", "Xid 63")},
    ),
    Fault(
        "eleven kinds of Xid",
        "kernel/dmesg_xid_zoo.log",
        lambda: _xid("kernel/dmesg_xid_zoo.log"),
        {"gpu-xid": ("bus", "Xid 79")},
    ),
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
GPU_FAULTS = (*ANSWERS, *FABRIC, *LINKS, *HEALTH)

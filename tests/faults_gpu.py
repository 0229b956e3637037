"""Faults of the GPUs' driver and fabric."""

from __future__ import annotations

from tests.assembled import Assembled, h100
from tests.assembled_classes import desktop, pcie
from tests.fault import Fault, in_block, in_row, logged, shown, silent, told

_SMI, _OURS = "nvidia-smi", "written by us"


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
        machine = in_block(machine, gpu, r"^(        State +): Completed", r"\1: In Progress")
        machine = in_block(machine, gpu, r"^(        Status +): Success", r"\1: N/A")
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


_MISSING = r"^0000:df:00\.0/(class|vendor|device|numa_node):\S+\n"
ANSWERS = (
    Fault(
        "upgraded library, loaded module still old",
        "B023, B024, nvidia-smi/errors/driver_library_mismatch.txt",
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
        "B017, nvidia-smi/errors/no_devices_found.txt",
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
        {"gpu-answers": ("gpu-lost", "gpu lost (0000:BA:00.0)")},
    ),
    shown(
        "driver older than our fields",
        f"{_SMI}/query_gpu_invalid_field.txt",
        "nvidia-smi-gpus",
        {"gpu-answers": ("invalid-field", "invalid field")},
        rc=2,
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
        lambda: in_row(h100(), 3, "69.85 W", "[Unknown Error]"),
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
        lambda: in_row(h100(), 5, "81559 MiB", "40960 MiB"),
        {"gpu-kind": ("memory", "GPU5: 40960")},
    ),
    Fault(
        "one VBIOS unlike the others",
        _OURS,
        lambda: in_row(h100(), 6, "96.00.A5", "96.00.89"),
        {"gpu-kind": ("vbios", "GPU6")},
    ),
    Fault(
        "persistence off",
        "B036",
        lambda: in_row(h100(), 2, "P0, Enabled", "P0, Disabled"),
        {"gpu-persistence": ("", "GPU2")},
    ),
    Fault(
        "MIG left on",
        _OURS,
        lambda: in_row(h100(), 2, "Enabled, Disabled", "Enabled, Enabled"),
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
        "B004, fabricmanager/journal_nothing_to_do_pcie.log",
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


GPU_FAULTS = (*ANSWERS, *FABRIC)

"""Further causes of one finding each: the line that tells them apart is written by us in the tool's own words."""

from __future__ import annotations

from collections.abc import Callable

from tests.assembled import MANAGER, RAILS, Assembled, h100
from tests.assembled_classes import bridged, pcie
from tests.fault import SMI_KEYS, Fault, in_block, in_row, logged

_OURS = "written by us"


def _one(what: str, named: str, words: str, seed: Callable[[], Assembled]) -> Fault:
    check, _, variant = named.partition("/")
    return Fault(what, _OURS, seed, {check: (variant, words)})


def _answer(key: str, text: str, *, rc: int = 0, stderr: str = "") -> Callable[[], Assembled]:
    return lambda: h100().answered(key, text, _OURS, rc=rc, stderr=stderr)


def _edit(key: str, pattern: str, new: str, count: int = 0) -> Callable[[], Assembled]:
    return lambda: h100().edited(key, pattern, new, count=count)


def _kernel(line: str) -> Callable[[], Assembled]:
    return lambda: logged(h100(), line + "\n", _OURS)


def _manager(line: str) -> Callable[[], Assembled]:
    said = f"Nov 30 10:00:41 node01 nv-fabricmanager[1]: {line}\n"
    return lambda: h100().answered("fabric-manager", said, _OURS)


def _engine(line: str) -> Callable[[], Assembled]:
    return _answer("log:vllm.service", f"ERROR 11-30 10:00:00 [core.py:1] {line}\n")


def _slurm(line: str) -> Callable[[], Assembled]:
    return _answer("slurm-log", f"slurmd: error: {line}\n")


def _xid(number: int) -> Callable[[], Assembled]:
    return _kernel(f"[ 9.1] NVRM: Xid (PCI:0000:1b:00): {number}, pid=1, name=python3, text")


def _node(pattern: str, new: str) -> Callable[[], Assembled]:
    return _edit("slurm-nodes", pattern, new)


def _inactive(gpus: int) -> Assembled:
    return h100().edited("nvlink-status", r"Link 4: 26\.562 GB/s", "Link 4: <inactive>", count=gpus)


def _untooled() -> Assembled:
    machine = h100()
    for key in SMI_KEYS:
        machine = machine.answered(key, "", _OURS, rc=127)
    return machine


_AER = "[9.1] nvidia 0000:1b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"
_SXID = "[9.1] nvidia-nvswitch0: SXid (PCI:0000:83:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error"
_EVENT = "   1 | 01/05/2026 | 10:11:12 | Power Supply #0xc8 | Power Supply AC lost | Asserted\n"
VARIANTS = (
    _one("nvidia-smi not installed", "gpu-answers/not-installed", "not installed", _untooled),
    Fault(
        "dma-buf with the proprietary modules",
        _OURS,
        _edit("nvidia-driver", "Dual MIT/GPL", "NVIDIA"),
        {"gpu-modules": ("", "proprietary"), "ib-gpu-direct": ("flavour", "proprietary")},
    ),
    _one("seven GPUs answer", "gpu-answers/fewer", "7 GPUs", _edit("nvidia-smi-list", r"^GPU 7.*\n", "")),
    _one("nvidia-smi hangs", "gpu-answers/hangs", "did not answer", _answer("nvidia-smi-list", "", rc=124)),
    _one("two kinds of cards", "gpu-kind", "GPU4", lambda: in_row(h100(), 4, "H100 80GB HBM3", "H100 NVL")),
    _one(
        "another version than planned",
        "gpu-version",
        "590.44.01",
        lambda: (
            h100()
            .edited("nvidia-driver", "590.48.01", "590.44.01")
            .edited("nvidia-smi-version", "590.48.01", "590.44.01")
        ),
    ),
    _one(
        "fabric manager not installed",
        "gpu-manager/absent",
        "not installed",
        _answer("fabric-manager-unit", "", rc=4, stderr="Unit nvidia-fabricmanager.service could not be found.\n"),
    ),
    _one(
        "a fabric manager that runs for nothing",
        "gpu-manager/unwanted",
        "active",
        lambda: pcie().answered("fabric-manager-unit", MANAGER, _OURS),
    ),
    _one("ib_umad missing", "gpu-manager/ib-umad-missing", "ib umad", _manager("module ib_umad is not loaded")),
    _one(
        "fatal switch error",
        "gpu-manager/sxid-fatal",
        "sxid fatal",
        _manager("detected NVSwitch fatal error 20034 on fid 0"),
    ),
    _one(
        "a switch is missing",
        "gpu-manager/topology-mismatch",
        "topology mismatch",
        _manager("detected number of NVSwitches don't match with any supported system topology"),
    ),
    _one(
        "one GPU not registered",
        "gpu-fabric",
        "GPU5: Completed, Insufficient",
        lambda: in_block(h100(), 5, r"^(        Status +): Success", r"\1: Insufficient Resources"),
    ),
    _one(
        "no bridge where one is planned",
        "gpu-topology",
        "PHB instead of NV12",
        lambda: bridged().edited("nvidia-smi-topo", r"\bNV12\b", "PHB"),
    ),
    _one(
        "an error of today beside one of the past",
        "gpu-ecc",
        "GPU5: 1 uncorrectable",
        lambda: in_block(
            in_block(h100(), 3, r"(Aggregate(?:\n.*)+?DRAM Uncorrectable +): 0", r"\1: 4"),
            5,
            r"(Volatile\n(?:.*\n){4}            DRAM Uncorrectable +): 0",
            r"\1: 1",
        ),
    ),
    _one(
        "an adapter's module fails while the port is up",
        "ib-cable",
        "Bad signal",
        lambda: h100().edited(
            f"mlxlink:{RAILS[2]}",
            r"Status Opcode( +): 0\n(.*)\nRecommendation( +): .*",
            r"Status Opcode\1: 15\n\2\nRecommendation\3: Bad signal integrity",
        ),
    ),
    _one("a link down on every GPU", "gpu-nvlink/all", "GPU0: 17 up", lambda: _inactive(8)),
    _one(
        "a link at half speed",
        "gpu-nvlink/speed",
        "GPU0",
        _edit("nvlink-status", r"Link 4: 26\.562", "Link 4: 13.281", 1),
    ),
    _one("chipset refuses", "gpu-peers/chipset", "CNS", lambda: pcie().edited("nvidia-smi-topo-p2p", "OK", "CNS")),
    _one("API mismatch", "gpu-start/mismatch", "api mismatch", _kernel("[9.1] NVRM: API mismatch: the client has")),
    _one(
        "errors of the past",
        "gpu-ecc/history",
        "in its life",
        lambda: in_block(h100(), 3, r"(Aggregate(?:\n.*)+?DRAM Uncorrectable +): 0", r"\1: 4"),
    ),
    _one("Xid 31", "gpu-xid/application", "memory page fault", _xid(31)),
    _one("Xid 94", "gpu-xid/contained", "contained", _xid(94)),
    _one("Xid 48", "gpu-xid/memory", "double bit", _xid(48)),
    _one("Xid 74", "gpu-xid/nvlink", "NVLink error", _xid(74)),
    _one("Xid 154", "gpu-xid/reset", "recovery action", _xid(154)),
    _one("SXid that is not fatal", "gpu-sxid/mild", "SXid 12028", _kernel(_SXID)),
    _one("corrected PCIe error", "pcie-errors/corrected", "1 corrected", _kernel(_AER)),
    _one("machine check", "host-errors/events", "machine check", _kernel("[9.1] mce: [Hardware Error]: CPU 3")),
    _one("NICs beside the GPUs", "gpu-nics/side", "GPU0: NODE", _edit("nvidia-smi-topo", r"\bPIX\b", "NODE")),
    _one(
        "all drives in narrow slots",
        "pcie-links/slots",
        "18:00.0: drive at 16GT/s x2",
        _edit("lspci", r"(LnkSta:\tSpeed 16GT/s, Width) x4\n\n", r"\1 x2\n\n"),
    ),
    _one("a fan out of bounds", "bmc-sensors", "FAN1", _edit("ipmi-sdr", r"^(FAN1 .*)ok", r"\1cr")),
    _one("power was lost", "bmc-events/power", "1× power lost", _answer("ipmi-sel", _EVENT)),
    _one("an adapter is missing", "ib-adapters", "no mlx5_9", _edit("ibstat", r"(?s)^CA 'mlx5_9'.*\Z", "")),
    _one(
        "one port waits",
        "ib-ports/initializing",
        "mlx5_5",
        _edit("ibstat", r"(CA 'mlx5_5'(?:.*\n)+?\s+State: )Active", r"\1Initializing", 1),
    ),
    _one(
        "port set to Ethernet",
        "ib-ports/layer",
        "Ethernet",
        _edit("ibstat", r"(CA 'mlx5_5'(?:.*\n)+?\s+Link layer: )InfiniBand", r"\1Ethernet", 1),
    ),
    _one(
        "unit not installed",
        "service-unit/absent",
        "not-found",
        _edit("service-units", r"(Id=munge.*\nLoadState=)loaded", r"\1not-found"),
    ),
    _one(
        "no watches",
        "dcgm-health/watches",
        "health not enabled",
        _answer("dcgm-health", "Error: Health watches not enabled. Please enable watches.\n", rc=1),
    ),
    _one(
        "CPU build of torch under DeepSpeed",
        "env-deepspeed/torch",
        "without CUDA",
        _edit("ds_report", r"^torch cuda version .*$", "torch cuda version ............... None"),
    ),
    _one(
        "torch sees four",
        "env-llamafactory/fewer",
        "4 GPUs",
        _edit("llamafactory-env", "GPU number: 8", "GPU number: 4"),
    ),
    _one(
        "munge credential expired",
        "munge/clock",
        "Expired",
        _answer("munge", "", rc=15, stderr="unmunge: Error: Expired credential\n"),
    ),
    _one(
        "munged not running",
        "munge/down",
        "Failed to access",
        _answer(
            "munge",
            "",
            rc=6,
            stderr='munge: Error: Failed to access "/run/munge/munge.socket.2": No such file or directory\n',
        ),
    ),
    _one("node is down", "slurm-node/down", "DOWN, 8 GPUs", _node("State=IDLE", "State=DOWN")),
    _one("node does not respond", "slurm-node/down", "NOT_RESPONDING", _node("State=IDLE", "State=DOWN*")),
    _one(
        "node drained by hand",
        "slurm-node",
        "DRAIN, 8 GPUs: moved",
        _node("State=IDLE(.*(?:\n.*)+)", r"State=IDLE+DRAIN\1   Reason=moved [root@2026]\n"),
    ),
    _one(
        "too much memory stated",
        "slurm-node/memory",
        "Low RealMemory",
        _node("State=IDLE(.*(?:\n.*)+)", r"State=IDLE+DRAIN\1   Reason=Low RealMemory (reported:1 < 100%)\n"),
    ),
    _one("slurmd: cgroup", "slurm-log/cgroup", "cgroup", _slurm("cgroup/v2 plugin failed to initialize")),
    _one("slurmd: D-Bus", "slurm-log/dbus", "dbus", _slurm("cannot connect to dbus system daemon")),
    _one("slurmd: device", "slurm-log/device", "gres.conf", _slurm("Waiting for gres.conf file /dev/nvidia0")),
    _one(
        "slurmd: fewer GPUs", "slurm-log/gpus", "gres", _slurm("gres/gpu count reported lower than configured (7 < 8)")
    ),
    _one("slurmd: key", "slurm-log/key", "invalid", _slurm("Munge decode failed: Invalid credential")),
    _one("slurmd: memory", "slurm-log/memory", "memory", _slurm("Node configuration: Low RealMemory")),
    _one(
        "slurmd: munge", "slurm-log/munge", "munge down", _slurm('Munge encode failed: Failed to access "/run/munge"')
    ),
    _one(
        "engine: no known cause", "server-log", "not ready", _engine("RuntimeError: Engine core initialization failed.")
    ),
    _one(
        "engine: driver", "server-log/driver", "driver too old", _engine("The NVIDIA driver on your system is too old")
    ),
    _one("engine: fabric", "server-log/fabric", "cuda 802", _engine("Error 802: system not yet initialized")),
    _one(
        "engine: memory", "server-log/memory", "out of memory", _engine("torch.OutOfMemoryError: CUDA out of memory.")
    ),
    _one(
        "engine: cache folder",
        "server-log/permission",
        "permission",
        _engine("PermissionError: [Errno 13] Permission denied: '/.cache'"),
    ),
    _one("engine: port", "server-log/port", "port in use", _engine("OSError: [Errno 98] Address already in use")),
)

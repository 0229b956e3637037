"""Machines put together ("assembled"): a reading of our own VM, with answers of GPU tools, fabric and services.

Answers come from named samples. Samples that may be copied lie in tests/unit/recorded/tools; the others are read from
the collection beside the checkout, where it exists. What no sample shows is written in the layout of one (gpu_texts).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from llmhw_provision.evidence import Evidence, Result
from llmhw_provision.expected import Expected, ExpectedFabric, ExpectedGpus, ExpectedServer, ExpectedServices
from llmhw_provision.plan.model import HostPlan
from tests import gpu_texts
from tests.gpu_texts import Cards
from tests.unit.recordings import FOLDER, SAMPLES, host_plan, recorded

RAILS = ("mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11")
_UNITS = ("nvidia-persistenced.service", "nvidia-dcgm.service", "slurmd.service", "munge.service")


class NoSample(LookupError):
    """The sample is not in this checkout, and there is no collection beside it."""


@cache
def sample(name: str) -> str:
    """A sample as text; raises NoSample."""
    for folder in (FOLDER / "tools", SAMPLES):
        if (folder / name).is_file():
            return (folder / name).read_bytes().decode("utf-8", "replace")
    raise NoSample(name)


@dataclass(frozen=True)
class Assembled:
    """A machine: plan, reading, and where its answers come from, by key."""

    title: str
    plan: HostPlan
    evidence: Evidence
    parts: dict[str, str]

    def answered(self, key: str, text: str, source: str, *, rc: int = 0, stderr: str = "") -> Assembled:
        """The same machine with another answer to one command."""
        results = {**self.evidence.results, key: Result(rc, text.encode(), stderr.encode(), 60.0, (key,))}
        return replace(self, evidence=replace(self.evidence, results=results), parts={**self.parts, key: source})

    def edited(self, key: str, pattern: str, new: str | Callable[[re.Match[str]], str], *, count: int = 0) -> Assembled:
        """The same machine with `pattern` replaced in one answer; fails when that alters nothing."""
        before = self.evidence.results[key].stdout.decode()
        after = re.sub(pattern, new, before, count=count, flags=re.MULTILINE)
        if before == after:
            raise ValueError(f"the edit of {key} alters nothing")
        return self.answered(key, after, self.parts.get(key, "our VM") + ", edited")


# What healthy machines log as well: an unsigned module, an adapter's bandwidth, error reporting being set up.
_BOOT = """[    0.000000] Linux version 6.8.0
[    1.100000] mce: CPU0: Thermal monitoring enabled (TM1)
[    1.200000] pcieport 0000:15:01.0: AER: enabled with IRQ 30
[    2.300000] EDAC MC0: Giving out device to module i10nm_edac controller Intel_10nm Socket#0 IMC#0
[    3.400000] mlx5_core 0000:1a:00.0: 504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)
[    4.500000] nvme nvme0: 32/0/0 default/read/poll queues
[   12.000000] nvidia: loading out-of-tree module taints kernel.
[   12.000001] nvidia: module verification failed: signature and/or required key missing - tainting kernel
[   12.100000] nvidia 0000:1b:00.0: enabling device (0000 -> 0002)
[   12.200000] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64
[   13.000000] nvidia-nvlink: Nvlink Core is being initialized, major device number 234
"""


def expected_of(kind: str, cards: Cards, **more: object) -> ExpectedGpus:
    """What is expected of these cards; `more` adds to it, or differs from what they show."""
    told: dict[str, object] = {
        "count": cards.count,
        "pci_ids": (cards.pci_id,),
        "memory_mib": cards.memory_mib,
        "power_limit_w": cards.power_w,
        "pcie_generation": cards.generation,
        "ecc": cards.ecc,
        "driver": cards.driver,
    }
    return ExpectedGpus(kind=kind, **told | more)  # type: ignore[arg-type]


def assembled(title: str, cards: Cards, gpus: ExpectedGpus, **more: object) -> Assembled:
    """A machine with these GPUs and their driver; `more` is what else is expected."""
    expected = Expected(gpus=gpus, **more)  # type: ignore[arg-type]
    plan = host_plan().model_copy(update={"expected": expected})
    base = recorded("provisioned")
    found = Assembled(title, plan, base, {})
    switch = gpus.nvlink == "switch"
    texts = {
        "pci": base.results["pci"].stdout.decode() + gpu_texts.sysfs(cards),
        "nvidia-smi-list": gpu_texts.listing(cards),
        "nvidia-smi-version": gpu_texts.version(cards),
        "nvidia-smi-gpus": gpu_texts.query(cards),
        "nvidia-smi-q": gpu_texts.full(cards),
        "nvidia-driver": gpu_texts.driver_files(cards, manager=switch),
        "lspci": gpu_texts.lspci(cards),
        "dmesg": _BOOT,
    }
    if cards.links and not cards.mig:
        texts["nvlink-status"] = gpu_texts.nvlink(cards)
        texts["nvlink-errors"] = texts["nvlink-errors-later"] = gpu_texts.nvlink_errors(cards)
    if gpus.peer_access:
        texts["nvidia-smi-topo-p2p"] = gpu_texts.peers(cards.count)
    for key, text in texts.items():
        found = found.answered(key, text, "written in the layout of a sample")
    return _managed(found) if switch else _unmanaged(found)


MANAGER = (
    "● nvidia-fabricmanager.service - NVIDIA fabric manager service\n"
    "     Loaded: loaded (/lib/systemd/system/nvidia-fabricmanager.service; enabled; preset: enabled)\n"
    "     Active: active (running) since Mon 2026-11-30 10:00:00 UTC; 1h ago\n"
)


def _managed(machine: Assembled) -> Assembled:
    journal = (
        "Nov 30 10:00:00 node01 systemd[1]: Starting nvidia-fabricmanager.service - NVIDIA fabric manager service...\n"
        "Nov 30 10:00:40 node01 nv-fabricmanager[1120]: Connected to 1 node.\n"
        "Nov 30 10:00:41 node01 systemd[1]: Started nvidia-fabricmanager.service - NVIDIA fabric manager service.\n"
    )
    machine = machine.answered("fabric-manager-unit", MANAGER, "written in the layout of systemctl")
    return machine.answered("fabric-manager", journal, "written in the layout of fabricmanager/journal_ok.log")


def _unmanaged(machine: Assembled) -> Assembled:
    said = "Unit nvidia-fabricmanager.service could not be found.\n"
    machine = machine.answered("fabric-manager-unit", "", "written in the layout of systemctl", rc=4, stderr=said)
    return machine.answered("fabric-manager", "-- No entries --\n", "written in the layout of journalctl")


def full_mesh(kind: str) -> str:
    """The matrix of the eight-GPU sample with another number of links, and the adapters under our names."""
    text = re.sub(r"NV1[68]", kind, sample("nvidia-smi/topo_m_h100_8gpu_nv16_degraded_gpu3.txt"))
    names = dict(zip(("NIC8", "NIC7", "NIC6", "NIC5", "NIC4", "NIC3", "NIC2", "NIC1"), RAILS, strict=True))
    for nic, rail in (names | {"NIC0": "mlx5_1"}).items():
        text = re.sub(rf"(?m)^  {nic}: \S+$", f"  {nic}: {rail}", text)
    return text


H100 = Cards("NVIDIA H100 80GB HBM3", "10de:2330", 8, 81559, 700, 5, "590.48.01", links=18, fabric=True)
SWITCHED = expected_of("h100-sxm", H100, nvlink="switch", links=18, links_per_pair=18, peer_access=True, modules="open")
_FABRIC = ExpectedFabric(ports=RAILS, rate_gbit=400, gpu_direct="dmabuf", cable_tool=True)
MATRIX = "nvidia-smi/topo_m_h100_8gpu_nv16_degraded_gpu3.txt, its lost links restored, adapters renamed"


@cache
def h100() -> Assembled:
    """8× H100 with eight rails, storage adapters down by design, Slurm, DCGM, an engine and two environments."""
    services = ExpectedServices(
        units=_UNITS,
        slurm_node="gpu-node02",
        munge=True,
        dcgm=True,
        servers=(ExpectedServer(unit="vllm.service", port=8000),),
        deepspeed="/opt/ds",
        deepspeed_ops=("async_io", "fused_adam"),
        llamafactory="/opt/lf",
    )
    machine = assembled(
        "8× H100, storage adapters down by design",
        H100,
        SWITCHED,
        fabric=_FABRIC,
        services=services,
        smart=True,
        management_controller=True,
    )
    machine = machine.answered("nvidia-smi-topo", full_mesh("NV18"), MATRIX)
    machine = machine.answered("nvlink-status", sample(_NVLINK), _NVLINK)
    machine = machine.answered("nvidia-smi-topo-p2p", sample(_P2P), _P2P)
    return _served(_scheduled(_watched(_railed(machine))))


_NVLINK, _P2P = "nvidia-smi/nvlink_s_h100_8gpu_ok.txt", "nvidia-smi/topo_p2p_r_h100_8gpu_ok.txt"


def _railed(machine: Assembled) -> Assembled:
    name = "ib/ibstat_h100_8ndr_4eth_ok.txt"
    machine = machine.answered("ibstat", sample(name), name)
    for key in ("ib-sysfs", "ib-sysfs-later"):
        machine = machine.answered(key, gpu_texts.adapters(sample(name)), "written in the layout of sysfs")
    healthy = sample("ib/mlxlink_ndr_2x.txt").replace(": 2x", ": 4x")
    for rail in RAILS:
        machine = machine.answered(f"mlxlink:{rail}", healthy, "ib/mlxlink_ndr_2x.txt, width restored")
    answer = "sminfo: sm lid 1 sm guid 0xa088c20300000001, activity count 5921 priority 15 state 3 SMINFO_MASTER\n"
    return machine.answered("sminfo", answer, "written in the layout of sminfo")


def _watched(machine: Assembled) -> Assembled:
    for disk in machine.plan.disks:
        machine = machine.answered(
            f"nvme-smart:{disk.by_id}", sample("block/nvme_smart_log_ok.json"), "block/nvme_smart_log_ok.json"
        )
    sensors = sample("ipmi/sdr_mixed.txt")
    sensors = sensors.replace("0 RPM             | cr", "8300 RPM          | ok").replace("0x0b", "0x01")
    machine = machine.answered("ipmi-sdr", sensors, "ipmi/sdr_mixed.txt, faults removed")
    machine = machine.answered("ipmi-sel", "SEL has no entries\n", "written in the layout of ipmitool")
    units = "".join(
        f"Id={name}\nLoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\n\n"
        for name in _UNITS
    )
    machine = machine.answered("service-units", units[:-1], "written in the layout of systemctl show")
    border = "+---------------------------+-----------------------------------------------+\n"
    health = f"{border}| Health Monitor Report                                                     |\n{border}"
    health += f"| Overall Health            | Healthy                                       |\n{border}"
    machine = machine.answered("dcgm-health", health, "written in the layout of dcgmi health")
    links = "+----------------------+\n|  NvLink Link Status  |\n+----------------------+\nGPUs:\n"
    links += "".join(f"    gpuId {gpu}:\n        {' '.join('U' * 18)}\n" for gpu in range(8))
    links += "NvSwitches:\n    No NvSwitches found.\n\nKey: Up=U, Down=D, Disabled=X, Not Supported=_\n"
    name = "dcgm/diag_r3_v3_h100_pass.txt"
    machine = machine.answered("dcgm-diag-1", sample(name), name)
    return machine.answered("dcgm-nvlink", links, "written in the layout of dcgm/nvlink_link_status_all_down.txt")


def _scheduled(machine: Assembled) -> Assembled:
    for key, name in (("slurm-nodes", "slurm/show_node02_idle.txt"), ("scontrol-ping", "slurm/scontrol_ping_up.txt")):
        machine = machine.answered(key, sample(name), name)
    machine = machine.answered("munge", sample("slurm/munge_ok.txt"), "slurm/munge_ok.txt")
    found = sample("slurm/slurmd_G_7.txt").replace("Count=7", "Count=8").replace("[0-6]", "[0-7]")
    machine = machine.answered("slurmd-gres", found, "slurm/slurmd_G_7.txt, the eighth restored")
    return machine.answered("slurm-log", "[2026-11-30T10:00:00.000] slurmd started on Mon\n", "written by us")


def _served(machine: Assembled) -> Assembled:
    ready = "INFO 11-30 10:00:00 [api_server.py:1] Starting vLLM API server\nINFO:     Application startup complete.\n"
    machine = machine.answered("log:vllm.service", ready, "written in the layout of vLLM")
    name = "serving/vllm_metrics_excerpt.prom"
    machine = machine.answered("vllm-metrics:8000", sample(name), name)
    report = (
        "DeepSpeed C++/CUDA extension op report\nasync_io ............... [NO] ....... [OKAY]\n"
        "fused_adam ............. [YES] ...... [OKAY]\nDeepSpeed general environment info:\n"
        "torch version .................... 2.8.0+cu129\ndeepspeed info ................... 0.18.0, unknown, unknown\n"
        "torch cuda version ............... 12.9\nnvcc version ..................... 12.9\n"
    )
    machine = machine.answered("ds_report", report, "written in the layout of ds_report")
    trained = sample("training/llamafactory_env_cpu_torch.txt").replace("2.6.0+cpu", "2.6.0+cu124 (GPU)")
    trained += "- GPU type: NVIDIA H100 80GB HBM3\n- GPU number: 8\n"
    return machine.answered("llamafactory-env", trained, "training/llamafactory_env_cpu_torch.txt with a GPU build")

"""Machines put together ("assembled"): a reading of our own VM, with answers of GPU tools, fabric and services.

Answers come from named samples. Samples that may be copied lie in tests/unit/recorded/tools; the others are read from
the collection beside the checkout, where it exists. What no sample shows is written in the layout of one (gpu_texts).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from llmhw_provision.evidence import Evidence, Result
from llmhw_provision.plan.expected import Expected, ExpectedFabric, ExpectedGpus, ExpectedServer, ExpectedServices
from llmhw_provision.plan.model import HostPlan
from tests import gpu_texts
from tests.gpu_texts import Cards
from tests.unit.recordings import FOLDER, SAMPLES, host_plan, recorded

RAILS = ("mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11")
_UNITS = ("nvidia-persistenced.service", "nvidia-dcgm.service", "slurmd.service", "munge.service")


class NoSample(LookupError):
    """The sample is not in this checkout, and there is no collection beside it."""


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
        results = {**self.evidence.results, key: Result(rc, text.encode(), stderr.encode(), 0.1, (key,))}
        return replace(self, evidence=replace(self.evidence, results=results), parts={**self.parts, key: source})

    def edited(self, key: str, pattern: str, new: str | Callable[[re.Match[str]], str], *, count: int = 0) -> Assembled:
        """The same machine with `pattern` replaced in one answer; fails when that alters nothing."""
        before = self.evidence.results[key].stdout.decode()
        after = re.sub(pattern, new, before, count=count, flags=re.MULTILINE)
        if before == after:
            raise ValueError(f"the edit of {key} alters nothing")
        return self.answered(key, after, self.parts.get(key, "our VM") + ", edited")


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
        "dmesg": "[    0.000000] Linux version 6.8.0\n[   12.000000] nvidia 0000:1b:00.0: enabling device\n",
    }
    if cards.links and not cards.mig:
        texts["nvlink-status"] = gpu_texts.nvlink(cards)
        texts["nvlink-errors"] = texts["nvlink-errors-later"] = gpu_texts.nvlink_errors(cards)
    if gpus.peer_access:
        texts["nvidia-smi-topo-p2p"] = gpu_texts.peers(cards.count)
    for key, text in texts.items():
        found = found.answered(key, text, "written in the layout of a sample")
    return _managed(found) if switch else _unmanaged(found)


def _managed(machine: Assembled) -> Assembled:
    status = (
        "● nvidia-fabricmanager.service - NVIDIA fabric manager service\n"
        "     Loaded: loaded (/lib/systemd/system/nvidia-fabricmanager.service; enabled; preset: enabled)\n"
        "     Active: active (running) since Mon 2026-11-30 10:00:00 UTC; 1h ago\n"
    )
    journal = (
        "Nov 30 10:00:00 node01 systemd[1]: Starting nvidia-fabricmanager.service - NVIDIA fabric manager service...\n"
        "Nov 30 10:00:40 node01 nv-fabricmanager[1120]: Connected to 1 node.\n"
        "Nov 30 10:00:41 node01 systemd[1]: Started nvidia-fabricmanager.service - NVIDIA fabric manager service.\n"
    )
    machine = machine.answered("fabric-manager-unit", status, "written in the layout of systemctl")
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
_SWITCHED = ExpectedGpus(
    kind="h100-sxm",
    count=8,
    pci_ids=("10de:2330",),
    memory_mib=81559,
    power_limit_w=700,
    pcie_generation=5,
    nvlink="switch",
    links=18,
    links_per_pair=18,
    peer_access=True,
    ecc=True,
    driver="590.48.01",
    modules="open",
)
_FABRIC = ExpectedFabric(ports=RAILS, rate_gbit=400, gpu_direct="dmabuf", cable_tool=True)
_TOPO = "nvidia-smi/topo_m_h100_8gpu_nv16_degraded_gpu3.txt, its lost links restored, adapters renamed"


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
        _SWITCHED,
        fabric=_FABRIC,
        services=services,
        smart=True,
        management_controller=True,
    )
    machine = machine.answered("nvidia-smi-topo", full_mesh("NV18"), _TOPO)
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


def mig() -> Assembled:
    """One H100 in MIG mode: NVLinks and remapped rows are not told."""
    cards = replace(H100, count=1, mig=True)
    gpus = _SWITCHED.model_copy(update={"count": 1, "mig": True, "peer_access": False})
    return assembled("1× H100 in MIG mode", cards, gpus).answered(
        "nvidia-smi-topo", gpu_texts.matrix([["X"]], [0]), "written in the layout of a sample"
    )


def a100() -> Assembled:
    """8× A100 with a driver of 2022: older column forms."""
    cards = Cards("NVIDIA A100-SXM4-80GB", "10de:20b2", 8, 81920, 400, 4, "535.161.08", 12, "25", fabric=True, old=True)
    gpus = _SWITCHED.model_copy(
        update={
            "kind": "a100-sxm-80",
            "pci_ids": ("10de:20b2",),
            "memory_mib": 81920,
            "power_limit_w": 400,
            "pcie_generation": 4,
            "links": 12,
            "links_per_pair": 12,
            "driver": "535.161.08",
        }
    )
    machine = assembled("8× A100, older column forms", cards, gpus)
    return machine.answered("nvidia-smi-topo", full_mesh("NV12"), _TOPO)


def pcie() -> Assembled:
    """4× L40S without NVLink, on two sockets."""
    cards = Cards("NVIDIA L40S", "10de:26b9", 4, 46068, 350, 4, "595.80")
    gpus = ExpectedGpus(
        kind="l40s",
        count=4,
        pci_ids=("10de:26b9",),
        memory_mib=46068,
        power_limit_w=350,
        pcie_generation=4,
        peer_access=True,
        ecc=True,
        driver="595.80",
        modules="open",
    )
    near, far = "NODE", "SYS"
    rows = [["X", near, far, far], [near, "X", far, far], [far, far, "X", near], [far, far, near, "X"]]
    machine = assembled("4× L40S on PCIe", cards, gpus)
    return machine.answered(
        "nvidia-smi-topo", gpu_texts.matrix(rows, [0, 0, 1, 1]), "written in the layout of a sample"
    )


def desktop() -> Assembled:
    """Two GeForce cards at rest: generation 1, no ECC, no peer access."""
    cards = Cards("NVIDIA GeForce RTX 5090", "10de:2b85", 2, 32607, 575, 5, "595.71.05", ecc=False, resting=True)
    gpus = ExpectedGpus(
        kind="rtx-5090",
        count=2,
        pci_ids=("10de:2b85",),
        memory_mib=32153,
        power_limit_w=575,
        pcie_generation=5,
        driver="595.71.05",
        modules="open",
    )
    name = "nvidia-smi/topo_m_rtx_2gpu_phb.txt"
    return assembled("2× GeForce at rest", cards, gpus).answered("nvidia-smi-topo", sample(name), name)


def bridged() -> Assembled:
    """2× H100 NVL joined by bridges: 12 of 18 links are in use by design."""
    cards = Cards("NVIDIA H100 NVL", "10de:2321", 2, 95830, 400, 5, "590.48.01", links=18)
    gpus = ExpectedGpus(
        kind="h100-nvl",
        count=2,
        pci_ids=("10de:2321",),
        memory_mib=95830,
        power_limit_w=400,
        pcie_generation=5,
        nvlink="pairs",
        links=12,
        links_per_pair=12,
        peer_access=True,
        ecc=True,
        driver="590.48.01",
        modules="open",
    )
    name = "nvidia-smi/nvlink_s_h100_pcie_bridge_12of18.txt"
    machine = assembled("2× H100 NVL with bridges", cards, gpus).answered("nvlink-status", sample(name), name)
    joined = gpu_texts.matrix([["X", "NV12"], ["NV12", "X"]], [0, 0])
    return machine.answered("nvidia-smi-topo", joined, "written in the layout of a sample")


def older() -> Assembled:
    """8× H100 with the column forms of a driver of 2023: throttle reasons, no GPU NUMA ID, blanks for tabs."""
    cards = replace(H100, driver="535.161.08", old=True)
    gpus = _SWITCHED.model_copy(update={"driver": "535.161.08", "modules": None})
    relations = [["X" if row == column else "NV18" for column in range(8)] for row in range(8)]
    text = gpu_texts.matrix(relations, [0, 0, 0, 0, 1, 1, 1, 1], old=True)
    return assembled("8× H100, older column forms", cards, gpus).answered("nvidia-smi-topo", text, "written by us")


def newer() -> Assembled:
    """8× H100 with the column forms of the newest drivers: KMD and CUDA UMD versions."""
    cards = replace(H100, driver="610.43.02", renamed=True)
    gpus = _SWITCHED.model_copy(update={"driver": "610.43.02"})
    machine = assembled("8× H100, newer column forms", cards, gpus)
    machine = machine.edited("nvidia-smi-version", "^DRIVER version ", "KMD version    ")
    machine = machine.edited("nvidia-smi-version", "^CUDA Version   ", "CUDA UMD Version")
    return machine.answered("nvidia-smi-topo", full_mesh("NV18"), _TOPO)


HEALTHY: tuple[Callable[[], Assembled], ...] = (h100, mig, a100, pcie, desktop, bridged, older, newer)

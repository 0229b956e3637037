"""Machines on which apply has installed the GPU software: what our own commands answer about it.

The answers are written in the layout that the same commands gave on Debian (apt, dpkg, modinfo, systemd), and, where
that knows no such thing (dkms, dnf, NVRM's line), in the tool's own words of public reports.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from llmhw_provision.expected import ExpectedGpus
from llmhw_provision.plan.roles_driver import DriverPackage, NvidiaDriverConfig
from llmhw_provision.plan.roles_gpu import CudaConfig, CudaToolkit, NcclConfig, PackageSourcesConfig, VendorSource
from tests import gpu_texts
from tests.assembled import MATRIX, SWITCHED, Assembled, assembled, full_mesh, h100
from tests.assembled_classes import bridged, desktop, pcie
from tests.gpu_texts import Cards

RUNNING, NEXT = "6.1.0-28-amd64", "6.1.0-31-amd64"
VENDOR = "https://developer.download.nvidia.com/compute/cuda/repos/"
URI = "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/"
EL = "https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64/"
OURS = "written in the layout of our own commands"
LIBRARIES = (
    "libcuda1",
    "libnvidia-ml1",
    "libnvidia-cfg1",
    "libnvcuvid1",
    "nvidia-driver-cuda",
    "nvidia-kernel-open-dkms",
)
CUDA = {"cuda-toolkit-13-0": "", "libcudnn9-cuda-13": "9.24.0.43"}
NCCL = {"libnccl2": "2.30.7-1+cuda13.0"}
_BLACK = ("nvidia-", "libnvidia-", "libcuda", "libnvcuvid", "cuda-", "kmod-nvidia", "linux-(image|headers|modules)")


def _config(machine: Assembled, *, board: str, rpm: bool) -> NvidiaDriverConfig:
    gpus = machine.plan.expected.gpus if machine.plan.expected else None
    assert gpus
    assert gpus.driver
    names = ["nvidia-open"]
    names += ["nvidia-fabricmanager", "libnvidia-nscq"] if board != "none" else []
    packages = [DriverPackage(name=name, version=gpus.driver) for name in names]
    packages += [DriverPackage(name="nvlsm", version="")] if board == "nvlink5" else []
    return NvidiaDriverConfig(
        version=gpus.driver,
        modules="open",
        packages=tuple(packages),
        needs=("dkms>=3.1.8", "gcc-c++", "make") if rpm else ("dkms", "gcc", "g++", "make"),
        dkms=True,
        headers_prefix="kernel-devel-" if rpm else "linux-headers-",
        stream="",
        board=board,  # type: ignore[arg-type]
        modules_load=("mlx5_core", "mlx5_ib", "ib_umad") if board == "nvlink5" else (),
        gpus=gpus.count,
        without_return=False,
    )


def planned(machine: Assembled, *, board: str = "none", rpm: bool = False) -> Assembled:
    """The machine with the roles of the GPU software in its plan."""
    driver = _config(machine, board=board, rpm=rpm)
    source = VendorSource(
        name="cuda",
        uri=EL if rpm else URI,
        suites=("/",),
        components=(),
        fingerprints=(),
        only=(),
        never=(),
        replaces=(VENDOR,),
    )
    cuda = CudaConfig(
        packages=tuple(f"{name}={version}" if version else name for name, version in CUDA.items()),
        profiler=(),
        toolkits=(CudaToolkit(version="13.0", home="/usr/local/cuda-13.0"),),
        default="13.0",
        home="/usr/local/cuda",
        alternatives=True,
        hold=(*CUDA, "*-13-0"),
        keep=(),
    )
    nccl = NcclConfig(
        packages=tuple(f"{name}={version}" for name, version in NCCL.items()),
        hold=tuple(NCCL),
        settings="# Written by llmhw-provision\nNCCL_SOCKET_IFNAME=^lo,docker0\n",
        rails=(),
        cuda_home="/usr/local/cuda",
    )
    roles = machine.plan.roles.model_copy(
        update={
            "nvidia_driver": driver,
            "package_sources": PackageSourcesConfig(sources=(source,)),
            "cuda": cuda,
            "nccl": nccl,
        }
    )
    return replace(machine, plan=machine.plan.model_copy(update={"roles": roles}))


def driver_of(machine: Assembled) -> NvidiaDriverConfig:
    """What the plan says of the machine's driver."""
    config = machine.plan.roles.nvidia_driver
    assert config
    return config


def package_list(machine: Assembled, *, rpm: bool = False) -> str:
    """The answer to our question for packages, all installed and held."""
    config = driver_of(machine)
    own = dict.fromkeys(("nvidia-open", *LIBRARIES, "nvidia-persistenced", "nvidia-modprobe"), config.version)
    own |= {item.name: item.version or "2025.06.11" for item in config.packages}
    versions = {name: f"{version}-1" for name, version in (own | {k: v or "13.0.2" for k, v in CUDA.items()}).items()}
    versions |= {"cuda-nvcc-13-0": "13.0.88-1", **NCCL}
    if rpm:
        tags = {name: version if name in NCCL else f"3:{version}.el9" for name, version in sorted(versions.items())}
        names = "".join(f"install installed {name} {version}\n" for name, version in tags.items())
        locks = "".join(f"{name}-{version if ':' in version else f'0:{version}'}.*\n" for name, version in tags.items())
        return f"== packages\n{names}== locked\n{locks}== unattended\n== end\n"
    versions |= {"linux-image-amd64": "6.1.129-1", "linux-headers-amd64": "6.1.129-1"}
    names = "".join(f"hold installed {name} {version}\n" for name, version in sorted(versions.items()))
    names += f"install installed linux-image-{NEXT} 6.1.129-1\ndeinstall config-files nvidia-settings 535.1-1\n"
    black = 'Unattended-Upgrade::Package-Blacklist "";\n'
    black += "".join(f'Unattended-Upgrade::Package-Blacklist:: "{name}";\n' for name in _BLACK)
    return f"== packages\n{names}== locked\n== unattended\ninstalled\n{black}== end\n"


def kernel_list(version: str, *, rpm: bool = False) -> str:
    """The answer to our question for kernels, with a module for each when `version` is not empty."""
    names = f"{RUNNING}\n{NEXT}\n"
    modules = "".join(f"{name}|{version}|Dual MIT/GPL|\n" for name in (RUNNING, NEXT)) if version else ""
    metas = "" if rpm else "linux-headers-amd64\nlinux-image-amd64\n"
    return (
        f"== running\n{RUNNING}\n== next\n{NEXT}\n== installed\n{names}== headers\n{RUNNING}\n"
        + (f"{NEXT}\n" if version else "")
        + f"== offered\n{NEXT}\n== modules\n{modules}== metas\n{metas}== end\n"
    )


def _node_list(machine: Assembled) -> str:
    config = driver_of(machine)
    nodes = "".join(f"nvidia{index}\n" for index in range(config.gpus)) + "nvidia-uvm\nnvidiactl\n"
    line = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {config.version}  Release Build  (root@vm)"
    gpus = "".join(f"0000:{bus.lower()}\n" for bus in gpu_texts.BUSES[: config.gpus])
    switches = "0000:83:00.0\n" if config.board == "nvswitch" else ""
    modules = "".join(f"{name}\n" for name in ("nvidia", "nvidia_uvm", *config.modules_load))
    nvlsm = "nvlsm\n" if config.board == "nvlink5" else ""
    return (
        f"== nodes\n{nodes}== driver\n{line}\n== gpus\n{gpus}== switches\n{switches}== modules\n{modules}"
        f"== nvlsm\n{nvlsm}== end\n"
    )


def stacked(machine: Assembled, title: str, *, board: str = "none", rpm: bool = False) -> Assembled:
    """The machine after apply and a reboot, with its GPU software whole."""
    machine = planned(replace(machine, title=title), board=board, rpm=rpm)
    version = driver_of(machine).version
    done = "".join(f"nvidia/{version}, {name}, x86_64: installed\n" for name in (RUNNING, NEXT))
    rivals = "nouveau\nnova_core\nnova_drm\nnvidiafb\n"
    lines = "".join(f"blacklist {name}\n" for name in rivals.split())
    texts = {
        "gpu-packages": package_list(machine, rpm=rpm),
        "kernels": kernel_list(version, rpm=rpm),
        "dkms": f"== status\n{done}== errors\n== end\n",
        "rival-drivers": f"== loaded\n== blacklist\n{rivals}== end\n",
        "initramfs-modprobe": f"== /boot/initrd.img-{NEXT}\n== /etc/modprobe.d/llmhw-nvidia.conf\n{lines}== end\n",
        "gpu-units": "Id=nvidia-persistenced.service\nLoadState=loaded\nActiveState=active\nSubState=running\n"
        "UnitFileState=enabled\nConditionResult=yes\nResult=success\n",
        "gpu-nodes": _node_list(machine),
        "cuda": "== link\n/usr/local/cuda-13.0\n== toolkits\n/usr/local/cuda-13.0\n== nvcc\n"
        "Cuda compilation tools, release 13.0, V13.0.88\n== nccl\n# Written by llmhw-provision\n"
        "NCCL_SOCKET_IFNAME=^lo,docker0\n== interfaces\nens6\nlo\n== adapters\nmlx5_0\nmlx5_3\n== end\n",
    }
    for key, text in texts.items():
        machine = machine.answered(key, text, OURS)
    return machine


_B200 = Cards("NVIDIA B200", "10de:2901", 8, 183359, 1000, 5, "590.48.01", links=18, link_gbs="53.125", fabric=True)
_BOARD: ExpectedGpus = SWITCHED.model_copy(
    update={"kind": "b200-sxm", "pci_ids": ("10de:2901",), "memory_mib": 183359, "power_limit_w": 1000}
)


def b200() -> Assembled:
    """8× B200 on an NVLink 5 board, without GPU software."""
    return assembled("8× B200", _B200, _BOARD).answered("nvidia-smi-topo", full_mesh("NV18"), MATRIX)


def rocky_like(machine: Assembled) -> Assembled:
    """The machine under Rocky 9."""
    text = 'ID="rocky"\nVERSION_ID="9.5"\nPRETTY_NAME="Rocky Linux 9.5 (Blue Onyx)"\n'
    plan = machine.plan.model_copy(update={"os": "Rocky Linux 9.5 (Blue Onyx)"})
    return replace(machine, plan=plan).answered("os-release", text, OURS)


@cache
def switched() -> Assembled:
    """8× H100 on an NVSwitch board, with rails, Slurm, DCGM and an engine beside the GPU software."""
    return stacked(h100(), "8× H100 with all of it", board="nvswitch")


@cache
def blackwell() -> Assembled:
    """8× B200: NVLink 5 switches, programmed by NVLSM."""
    return stacked(b200(), "8× B200, GPU software", board="nvlink5")


@cache
def cards() -> Assembled:
    """4× L40S on PCIe."""
    return stacked(pcie(), "4× L40S, GPU software")


@cache
def workstation() -> Assembled:
    """2× GeForce."""
    return stacked(desktop(), "2× GeForce, GPU software")


@cache
def pairs() -> Assembled:
    """2× H100 NVL."""
    return stacked(bridged(), "2× H100 NVL, GPU software")


@cache
def rocky() -> Assembled:
    """4× L40S under Rocky 9."""
    return stacked(rocky_like(pcie()), "4× L40S under EL 9, GPU software", rpm=True)


STACKED = (switched, blackwell, cards, workstation, pairs, rocky)

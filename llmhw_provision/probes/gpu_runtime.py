"""The GPU software at work: units, device nodes, modules of the switches, NVLSM; CUDA, and what NCCL is told."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes import systemd
from llmhw_provision.probes.reading import closed_sections, output, unreadable

PERSISTENCED = "nvidia-persistenced.service"
_PROPERTIES = "Id,LoadState,ActiveState,SubState,UnitFileState,ConditionResult,Result"
UNITS = Command("gpu-units", ("systemctl", "show", "--no-pager", "-p", _PROPERTIES, PERSISTENCED), 15)
_NODES = """echo "== nodes"; for f in /dev/nvidia*; do [ -c "$f" ] && echo "${f#/dev/}"; done
echo "== driver"; head -n 1 /proc/driver/nvidia/version 2>/dev/null
echo "== gpus"; ls /proc/driver/nvidia/gpus 2>/dev/null
echo "== switches"; ls /proc/driver/nvidia-nvswitch/devices 2>/dev/null
echo "== modules"; ls /sys/module | grep -xE 'nvidia.*|ib_umad|mlx5_core|mlx5_ib'
echo "== nvlsm"; grep -hsx nvlsm /proc/[0-9]*/comm | head -n 1
echo "== end\""""
NODES = Command("gpu-nodes", ("sh", "-c", _NODES), 15)
_CUDA = """echo "== link"; readlink -f /usr/local/cuda
echo "== toolkits"; ls -d /usr/local/cuda-[0-9]* 2>/dev/null
echo "== nvcc"; n=/usr/local/cuda/bin/nvcc; [ -x "$n" ] || n=$(command -v nvcc)
[ -n "$n" ] && "$n" --version | grep release
echo "== nccl"; [ -r /etc/nccl.conf ] && sed '$a\\' /etc/nccl.conf
echo "== interfaces"; ls /sys/class/net
echo "== adapters"; ls /sys/class/infiniband 2>/dev/null
echo "== end\""""
CUDA = Command("cuda", ("sh", "-c", _CUDA), 30)
COMMANDS = (UNITS, NODES, CUDA)
_RELEASE = re.compile(r"\brelease (\d+\.\d+), V")


@dataclass(frozen=True)
class Nodes:
    """Character devices, GPUs that the driver knows, switches that it knows, modules that are loaded."""

    devices: tuple[str, ...]
    driver: str
    gpus: tuple[str, ...]
    switches: tuple[str, ...]
    modules: tuple[str, ...]
    nvlsm: bool


@dataclass(frozen=True)
class Cuda:
    """Where /usr/local/cuda leads, toolkits, nvcc's own version; NCCL's settings and what they may name."""

    link: str
    toolkits: tuple[str, ...]
    nvcc: str
    nccl: dict[str, str]
    interfaces: tuple[str, ...]
    adapters: tuple[str, ...]


def persistenced(evidence: Evidence) -> dict[str, str]:
    """Properties of the unit of the persistence daemon."""
    return systemd.parse_units(output(evidence, UNITS.key))[0]


def nodes(evidence: Evidence) -> Nodes:
    """The host's."""
    names = ("nodes", "driver", "gpus", "switches", "modules", "nvlsm")
    found = closed_sections("device list", output(evidence, NODES.key), names)
    wrong = [line for line in found["nodes"] if not line.startswith("nvidia")]
    if wrong:
        raise unreadable("device list", wrong[0])
    return Nodes(
        devices=tuple(found["nodes"]),
        driver="".join(found["driver"]),
        gpus=tuple(found["gpus"]),
        switches=tuple(found["switches"]),
        modules=tuple(found["modules"]),
        nvlsm=bool(found["nvlsm"]),
    )


def cuda(evidence: Evidence) -> Cuda:
    """The host's."""
    found = closed_sections(
        "cuda", output(evidence, CUDA.key), ("link", "toolkits", "nvcc", "nccl", "interfaces", "adapters")
    )
    said = "".join(found["nvcc"])
    release = _RELEASE.search(said)
    if said and not release:
        raise unreadable("nvcc", said)
    return Cuda(
        link="".join(found["link"]),
        toolkits=tuple(path.rpartition("/")[2].partition("-")[2] for path in found["toolkits"]),
        nvcc=release[1] if release else "",
        nccl=settings(found["nccl"]),
        interfaces=tuple(found["interfaces"]),
        adapters=tuple(found["adapters"]),
    )


def settings(text: list[str]) -> dict[str, str]:
    """`NAME=value` lines of nccl.conf; NCCL skips comments and blank lines."""
    found = {}
    for line in text:
        name, equals, value = line.strip().partition("=")
        if line.strip() and not line.strip().startswith("#"):
            if not equals or not re.match(r"^NCCL_\w+$", name.strip()):
                raise unreadable("nccl.conf", line)
            found[name.strip()] = value.strip()
    return found

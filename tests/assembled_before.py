"""Machines before apply installs the GPU software: what our own commands answer about it.

The layouts are those of assembled_stack.py.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from tests import gpu_texts
from tests.assembled import H100, MATRIX, SWITCHED, Assembled, assembled, full_mesh
from tests.assembled_classes import bridged, desktop, pcie
from tests.assembled_stack import (
    CUDA,
    EL,
    LIBRARIES,
    NCCL,
    OURS,
    URI,
    b200,
    driver_of,
    kernel_list,
    planned,
    rocky_like,
)
from tests.unit.recordings import recorded


def fresh(machine: Assembled, title: str, *, board: str = "none", rpm: bool = False) -> Assembled:
    """The machine before the first apply: its sources are those of the distribution and of NVIDIA."""
    machine = planned(replace(machine, title=title), board=board, rpm=rpm)
    before, config = recorded("before"), driver_of(machine)
    results = {**machine.evidence.results, **before.results}
    machine = replace(machine, evidence=replace(machine.evidence, results=results, read_at=before.read_at))
    wanted = {item.name: item.version or "2025.06.11" for item in config.packages}
    wanted |= {name: version or "13.0.2" for name, version in CUDA.items()}
    offers = {name: f"{version}-1" for name, version in wanted.items()} | dict(NCCL)
    site = EL if rpm else URI
    own = {need.partition(">=")[0]: "3.2.2-1" for need in config.needs}
    table = "".join(_offer(name, version, site) for name, version in offers.items())
    table += "".join(_offer(name, version, "http://deb.debian.org/debian") for name, version in own.items())
    install = dict.fromkeys(LIBRARIES, f"{config.version}-1") | offers
    inst = "".join(f"Inst {name} ({version} NVIDIA CUDA:debian12 [amd64])\n" for name, version in install.items())
    texts = {
        "gpu-packages": "== packages\n== locked\n== unattended\n== end\n",
        "kernels": kernel_list("", rpm=rpm),
        "source-entries": _entry_list(rpm=rpm),
        "gpu-offers": f"== offers\n{table}== end\n",
        "gpu-solution": f"== simulated\nReading package lists...\n{inst}== size\nNeed to get 4,123 MB of archives.\n"
        "After this operation, 6,812 MB of additional disk space will be used.\n== end\n",
        "gpu-switches": f"== switches\n{config.board} 0000:83:00.0\n== end\n"
        if config.board != "none"
        else "== switches\n== end\n",
        "driver-leftovers": "== files\n== end\n",
        "signing-keys": "== keys\n== dkms\n== signing\n== end\n",
        "gpu-bars": "".join(_bars(bus) for bus in gpu_texts.BUSES[: config.gpus]),
        "df": "1B-blocks Avail Mounted on\n99000000000 60000000000 /\n",
    }
    for key, text in texts.items():
        machine = machine.answered(key, text, OURS)
    return machine


def _bars(bus: str) -> str:
    rows = (
        "0x00000000e0000000 0x00000000e0ffffff 0x0000000000040200",
        "0x0000004000000000 0x000000bfffffffff 0x14220c",
    )
    return f"== 0000:{bus.lower()}\n" + "".join(f"{row}\n" for row in rows)


def _offer(name: str, version: str, site: str) -> str:
    return (
        f"{name}:\n  Installed: (none)\n  Candidate: {version}\n  Version table:\n     {version} 500\n"
        f"        500 {site}  Packages\n"
    )


def _entry_list(*, rpm: bool) -> str:
    if rpm:
        return f"== /etc/yum.repos.d/cuda.repo\n[cuda]\nname=cuda\nbaseurl={EL}\nenabled=1\n== end\n"
    return (
        "== /etc/apt/sources.list.d/debian.sources\nTypes: deb\nURIs: http://deb.debian.org/debian\n"
        "Suites: bookworm bookworm-updates\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive.gpg\n"
        f"== /etc/apt/sources.list.d/llmhw-cuda.sources\nTypes: deb\nURIs: {URI}\nSuites: /\n"
        "Signed-By: /etc/apt/keyrings/llmhw-cuda.asc\n== end\n"
    )


def _hgx() -> Assembled:
    return assembled("8× H100", H100, SWITCHED).answered("nvidia-smi-topo", full_mesh("NV18"), MATRIX)


@cache
def switched_before() -> Assembled:
    """8× H100 before the first apply."""
    return fresh(_hgx(), "8× H100 before apply", board="nvswitch")


@cache
def blackwell_before() -> Assembled:
    """8× B200 before the first apply."""
    return fresh(b200(), "8× B200 before apply", board="nvlink5").edited(
        "gpu-bars", "0x000000bfffffffff", "0x0000007fffffffff"
    )


@cache
def cards_before() -> Assembled:
    """4× L40S before the first apply."""
    return fresh(pcie(), "4× L40S before apply")


@cache
def workstation_before() -> Assembled:
    """2× GeForce before the first apply."""
    return fresh(desktop(), "2× GeForce before apply")


@cache
def pairs_before() -> Assembled:
    """2× H100 NVL before the first apply."""
    return fresh(bridged(), "2× H100 NVL before apply")


@cache
def rocky_before() -> Assembled:
    """4× L40S under Rocky 9 before the first apply."""
    return fresh(rocky_like(pcie()), "4× L40S under EL 9 before apply", rpm=True)


FRESH = (switched_before, blackwell_before, cards_before, workstation_before, pairs_before, rocky_before)

"""Faults of the CUDA toolkit and of NCCL's settings."""

from __future__ import annotations

from dataclasses import replace

from tests.assembled import Assembled
from tests.assembled_stack import cards
from tests.fault import Fault, edited

_OURS = "written by us"


def _interface(machine: Assembled) -> Assembled:
    """Plan and file both name eth0: it was planned for another machine."""
    config = machine.plan.roles.nccl
    assert config
    config = config.model_copy(update={"settings": "NCCL_SOCKET_IFNAME=eth0\n"})
    roles = machine.plan.roles.model_copy(update={"nccl": config})
    machine = replace(machine, plan=machine.plan.model_copy(update={"roles": roles}))
    return machine.edited("cuda", "=.lo,docker0", "=eth0")


CUDA_FAULTS = (
    edited("another nvcc", _OURS, "cuda-toolkit", "nvcc 12.8", "cuda", r"release 13\.0", "release 12.8"),
    edited("toolkit removed", "B086", "cuda-toolkit/absent", "no 13.0", "cuda", "toolkits\n.*13.0", "toolkits"),
    edited(
        "another toolkit has the link",
        _OURS,
        "cuda-toolkit/link",
        "cuda-12.8",
        "cuda",
        "link\n.*",
        "link\n/usr/local/cuda-12.8",
    ),
    edited("driver too old for CUDA 13", "B094", "cuda-driver", "up to 12.8", "nvidia-smi-version", r"13\.1", "12.8"),
    edited("nccl.conf edited", _OURS, "nccl-settings/other", "NCCL_SOCKET_IFNAME: ^lo", "cuda", "=.lo,docker0", "=^lo"),
    Fault(
        "an interface that the host lacks",
        "B057",
        lambda: _interface(cards()),
        {"nccl-settings": ("", "eth0 is not among ens6, lo")},
    ),
)

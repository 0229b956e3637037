"""/etc/nccl.conf from the plan and the adapters that the host has. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

CONF = "/etc/nccl.conf"
HEAD = "# Written by llmhw-provision"


def refusals(rails: Sequence[str], devices: Mapping[str, Sequence[str]]) -> list[str]:
    """Adapters of the plan that are no RDMA device on the host."""
    return [f"adapter {address} is no RDMA device here" for address in rails if not devices.get(address)]


def text(settings: str, rails: Sequence[str], devices: Mapping[str, Sequence[str]]) -> str:
    """The settings, and the adapters by the names that the host gives them; the leading = takes names as a whole."""
    if not rails:
        return settings
    names = ",".join(name for address in rails for name in devices[address])
    return f"{settings}NCCL_IB_HCA=={names}\n"


def gencode(compute: Sequence[str]) -> str:
    """nvcc's arguments for compute capabilities such as 9.0."""
    numbers = [item.replace(".", "") for item in compute]
    return " ".join(f"-gencode=arch=compute_{number},code=sm_{number}" for number in numbers)

"""What the engine says to published cases of links, storage and the least number of GPUs."""

from __future__ import annotations

import re
from typing import get_args

from llmhw_provision.sizing.case_error import Unsupported
from llmhw_provision.sizing.case_time import chip
from llmhw_provision.sizing.cases import Answer, Setup
from llmhw_provision.sizing.checkpoint import PER_WRITER, write_rate
from llmhw_provision.sizing.layout import fewest
from llmhw_provision.sizing.network import NVLINK_REACHED, PCIE_COPY, Collective, Links, factor, sharding_volume
from llmhw_provision.sizing.states import optimizer_bytes

_LINK = re.compile(r"PCIe (\d)\.0 x(\d+)")
_RATES = {"GB/s": 1e9, "TB/s": 1e12, "MB/s": 1e6}
_SECONDS = {"s": 1.0, "ms": 1e-3}


def comm_case(of: Setup) -> Answer:
    """Volume, bandwidth or time of communication."""
    if of.unit == "x params":
        return sharding_volume(of.layout.zero) * (of.inputs.get("grad_accum", 1) if of.layout.zero >= 3 else 1)
    if of.unit in _RATES:
        return _bandwidth(of) / _RATES[of.unit]
    if of.unit in _SECONDS:
        return _seconds(of) / _SECONDS[of.unit]
    raise Unsupported(f"unit {of.unit!r}")


def _bandwidth(of: Setup) -> float:
    inputs = of.inputs
    if "link" in inputs and "collective" not in inputs:
        found = _LINK.match(inputs["link"])
        if not found or int(found[1]) not in PCIE_COPY:
            raise Unsupported(f"link {inputs['link']!r}")
        return PCIE_COPY[int(found[1])] * int(found[2]) / 16
    found_chip = chip(inputs)
    links = Links(found_chip, host_gpus=8)
    bus = links.bus(inputs.get("gpus", found_chip.domain), collective=_collective(of))
    return min(bus, found_chip.nvlink * NVLINK_REACHED) if inputs.get("algo") == "ring" and found_chip.nvlink else bus


def _collective(of: Setup) -> Collective:
    name = of.inputs.get("collective", "all-gather")
    if name not in get_args(Collective):
        raise Unsupported(f"collective {name!r}")
    return name  # type: ignore[no-any-return]


def _seconds(of: Setup) -> float:
    """One collective on `bytes`, or what ZeRO-3 moves in a micro-step: parameters twice, gradients once."""
    inputs = of.inputs
    ways = inputs.get("gpus", 0)
    kind = _collective(of)
    if "bytes" in inputs:
        size = float(inputs["bytes"]) * (factor(kind, ways) if "collective" in inputs and ways else 1)
    else:
        each = float(inputs.get("bytes_per_param", 2))
        size = sharding_volume(inputs.get("zero", 3)) * each * of.architecture.parameters
        size *= (ways - 1) / ways if ways > 1 else 1
    rate = float(inputs["per_gpu_gbs"]) * 1e9 if "per_gpu_gbs" in inputs else _bandwidth(of)
    return size / rate


def storage_case(of: Setup) -> Answer:
    """Rate of storage, or time to save."""
    inputs = of.inputs
    if of.unit in _SECONDS:
        size = float(inputs["checkpoint_bytes"]) if "checkpoint_bytes" in inputs else _checkpoint(of)
        writers = inputs.get("writers") or inputs.get("gpus")
        if not writers:
            raise Unsupported("no number of writers is given")
        each = float(inputs["per_gpu_gbs"]) * 1e9 if "per_gpu_gbs" in inputs else PER_WRITER
        return size / (int(writers) * each) / _SECONDS[of.unit]
    if of.unit not in _RATES:
        raise Unsupported(f"unit {of.unit!r}")
    cluster = re.match(r"(\d+)(K?)\b", inputs.get("cluster", ""))
    writers = inputs.get("writers") or inputs.get("gpus")
    if cluster:
        writers = int(cluster[1]) * (1024 if cluster[2] else 1)
    if not writers:
        raise Unsupported("no size of the cluster is given")
    return write_rate(writers=int(writers)) / _RATES[of.unit]


def _checkpoint(of: Setup) -> float:
    return float(of.architecture.parameters * (2 + optimizer_bytes(of.job)))


def min_gpus_case(of: Setup) -> Answer:
    """The least number of GPUs; published ones were seen to work, with nothing to spare."""
    return fewest(of.architecture, of.job, of.gpu, tight=True)

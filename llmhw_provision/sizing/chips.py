"""How fast a GPU is, by the names that people write: peak, what matrix products reach, memory, links."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from llmhw_provision.catalogue.loader import Gpu, find, names
from llmhw_provision.errors import InputError

BANDWIDTH_REACHED = 0.85  # of the data sheet: copy kernels on A100 and H100, BabelStream
_REACHED = 0.8  # MAMF / peak where it is not measured: median of A100 0.87, H100 0.80, B200 0.78
_POWER = re.compile(r"(\d{3,4}) ?W\b")
_MEMORY = re.compile(r"(\d+) ?GB\b")
_SYSTEMS = {"DGX-H100": "h100-sxm", "DGX-H200": "h200-sxm", "DGX-B200": "b200-sxm", "DGX-B300": "b300-sxm"} | {
    "DGX-GB200": "gb200",
    "DGX-GB300": "gb300",
    "DGX-A100": "a100-sxm-80",
}


@dataclass(frozen=True)
class Chip:
    """One GPU: FLOP/s, bytes/s, watts."""

    kind: str
    title: str
    peak: float  # 16-bit FLOP/s without sparsity
    peak_fp8: float
    reached: float  # best of real matrix products
    reached_fp8: float
    bandwidth: float
    nvlink: float  # bytes/s one way, 0 without
    switched: bool
    reduces: bool  # all-reduce inside the switch (NVLS): Hopper and later
    domain: int  # GPUs that NVLink connects
    pcie: int
    power: float
    clock: float = 1.0  # against the full power limit

    def rate(self, *, fp8: bool = False) -> float:
        """FLOP/s that matrix products reach at the clock that the power limit leaves."""
        return self.clock * (self.reached_fp8 if fp8 and self.peak_fp8 else self.reached)

    def top(self, *, fp8: bool = False) -> float:
        """FLOP/s of the data sheet, against which MFU is counted."""
        return self.peak_fp8 if fp8 and self.peak_fp8 else self.peak


def chip_of(kind: str) -> Chip:
    """The chip of a catalogue record; raises InputError."""
    gpu = find("gpus", kind, Gpu)
    domain = gpu.nvlink_domain if gpu.nvswitch else (2 if gpu.nvlink_gbs_both_ways else 1)
    return Chip(
        kind=kind,
        title=gpu.title,
        peak=gpu.tflops_16bit * 1e12,
        peak_fp8=gpu.tflops_fp8 * 1e12,
        reached=(gpu.reached_16bit or _REACHED * gpu.tflops_16bit) * 1e12,
        reached_fp8=(gpu.reached_fp8 or _REACHED * gpu.tflops_fp8) * 1e12,
        bandwidth=gpu.memory_bandwidth_gbs * 1e9,
        nvlink=gpu.nvlink_gbs_both_ways / 2 * 1e9,
        switched=gpu.nvswitch,
        reduces=gpu.nvswitch and float(gpu.compute_capability) >= 9,
        domain=domain,
        pcie=gpu.pcie,
        power=gpu.power_w,
    )


def find_chip(text: str) -> Chip:
    """The chip that `text` names, such as `H100-96GB HBM2e 500W`; raises InputError when the chip is not known.

    A power limit below the usual lowers the clock with its cube root: dynamic power of CMOS goes with frequency and
    voltage squared. Memory of another size than catalogued does not make another chip.
    """
    if text in _SYSTEMS:
        return chip_of(_SYSTEMS[text])
    wanted = _MEMORY.search(text)
    power = _POWER.search(text)
    plain = _MEMORY.sub("", _POWER.sub("", text))
    words = [word for word in re.findall(r"[A-Z]+\d*[A-Z]*|\d+[A-Z]?", plain) if word not in ("NVIDIA", "HBM2", "HBM3")]
    found = []
    for name in names("gpus"):
        gpu = find("gpus", name, Gpu)
        title = set(re.findall(r"[A-Z]+\d*[A-Z]*|\d+[A-Z]?", gpu.title.upper()))
        chips = [word for word in words if re.search(r"\d", word)]
        if chips and all(word in title for word in chips):
            same = sum(word in title for word in words)
            fits = wanted is None or gpu.memory_gb_marketing == int(wanted[1])
            found.append((fits, same, gpu.nvswitch, gpu.memory_gb_marketing, name))
    if not found:
        raise InputError(f"GPU {text[:60]!r} is not in the catalogue", f"known: {', '.join(names('gpus'))}")
    chip = chip_of(max(found)[-1])
    if power is None or float(power[1]) >= chip.power:
        return chip
    return replace(chip, power=float(power[1]), clock=(float(power[1]) / chip.power) ** (1 / 3))

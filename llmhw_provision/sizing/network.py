"""Collectives: bytes that each GPU moves, and the bus bandwidth they find."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llmhw_provision.sizing.chips import Chip

Collective = Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "send"]
NVLINK_REACHED = 0.80  # 361 of 450 GB/s, 8 × H200 (stas00/ml-engineering, network)
NVLS_REACHED = 480 / 450  # all-reduce in the switch, same source
NIC_REACHED = 0.90  # 45 of 50 GB/s per NDR port, same source
PCIE = {3: 15.8e9, 4: 31e9, 5: 63e9, 6: 121e9}  # bytes/s one way, 16 lanes: PCI-SIG
PCIE_COPY = {3: 12e9, 4: 25e9, 5: 55.4e9, 6: 106e9}  # host to device, nvbandwidth (generation 6 in proportion)
_PCIE_PEER = 0.4  # of a link, cards without peer access: 10 to 20 GB/s on generation 4 in practice
_HOST = 8  # GPUs of the largest NVSwitch board in one host; a wider NVLink domain spans hosts (GB200 NVL72)
PORT = {3: 12.5e9, 4: 25e9, 5: 50e9, 6: 100e9}  # one port per GPU of the generation: EDR, HDR, NDR, XDR


@dataclass(frozen=True)
class Links:
    """What connects the GPUs; `nic` in bytes/s per GPU one way, 0 when hosts are not connected."""

    chip: Chip
    host_gpus: int = 8
    nic: float = 0.0

    @property
    def domain(self) -> int:
        """GPUs that reach each other without a network: those of one host, or of the rack that NVLink spans."""
        return max(self.host_gpus, self.chip.domain) if self.chip.domain > _HOST else self.host_gpus

    def bus(self, ways: int, *, inner: int = 1, collective: Collective = "all-gather") -> float:
        """Bus bandwidth in bytes/s of a group of `ways` ranks whose neighbours are `inner` GPUs apart.

        A ring over hosts leaves each host once, on as many ports as the group has ranks there.
        """
        inside = max(1, min(ways, self.domain // max(1, inner)))
        local = self._local(inside * inner, collective)
        if ways <= inside:
            return local
        port = NIC_REACHED * (self.nic or PORT[self.chip.pcie])
        return port if collective in ("all-to-all", "send") else min(local, port * inside)

    def _local(self, span: int, collective: Collective) -> float:
        linked = self.chip.nvlink and (self.chip.switched or span <= self.chip.domain)
        if not linked:
            return _PCIE_PEER * PCIE[self.chip.pcie]
        nvls = collective == "all-reduce" and self.chip.reduces
        return self.chip.nvlink * (NVLS_REACHED if nvls else NVLINK_REACHED)


def factor(collective: Collective, ways: int) -> float:
    """Bytes that pass the bus per byte of the buffer: nccl-tests, PERFORMANCE.md."""
    if ways <= 1:
        return 0.0
    return {"all-reduce": 2 * (ways - 1) / ways, "broadcast": 1.0, "send": 1.0}.get(collective, (ways - 1) / ways)


def seconds(size: float, collective: Collective, ways: int, bus: float) -> float:
    """Seconds of one collective on a buffer of `size` bytes."""
    return size * factor(collective, ways) / bus


def sharding_volume(zero: int) -> float:
    """Elements that each rank moves per parameter and step: 2, in stage 3 3. ZeRO, arXiv 1910.02054, section 7."""
    return 3.0 if zero >= 3 else 2.0

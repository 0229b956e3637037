"""What nvidia-smi says of a GPU, at rest and while it works: clocks, power, PCIe link, what slows it down."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .device import Device

_BATCH = 0.1  # seconds of work that are queued at a time
_FIELDS = {
    "clocks.sm": "sm_mhz",
    "power.draw": "power_w",
    "power.limit": "limit_w",
    "temperature.gpu": "celsius",
    "pcie.link.gen.current": "pcie_generation",
    "pcie.link.width.current": "pcie_width",
    "clocks_throttle_reasons.active": "slowed_by",  # a mask; drivers from 535 on know it as clocks_event_reasons too
}


def under_load(device: Device, work: Callable[[], object], seconds: float) -> dict[str, Any]:
    """What nvidia-smi says of the GPU while `work`, of `seconds` each, keeps it busy; nothing for a processor."""
    if not device.cuda:
        return {}
    words = [f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"]
    with ThreadPoolExecutor(1) as aside:
        _busy(device, work, seconds)
        answer = aside.submit(_said, "-i", str(device.index), *words)
        while not answer.done():
            _busy(device, work, seconds)
    return {"load": cells(answer.result())}


def _busy(device: Device, work: Callable[[], object], seconds: float) -> None:
    for _ in range(max(1, int(_BATCH / seconds))):
        work()
    device.wait()


def cells(line: str) -> dict[str, float]:
    """The numbers of one answered line; a cell without a number is left out."""
    found = {}
    for name, cell in zip(_FIELDS.values(), line.split(","), strict=False):
        try:
            found[name] = int(cell, 16) if "0x" in cell else float(cell)
        except ValueError:  # [N/A]
            continue
    return found


def address(index: int) -> str:
    """PCI address of a GPU as Linux writes it; empty when nvidia-smi does not say."""
    found = _said("-i", str(index), "--query-gpu=pci.bus_id", "--format=csv,noheader").strip().lower()
    domain, colon, rest = found.partition(":")
    return f"{domain[-4:]}:{rest}" if colon else ""


def near(pci: str) -> tuple[int, set[int]]:
    """NUMA node of a PCI device and the processors beside it; -1 and none where the firmware does not tell."""
    folder = Path("/sys/bus/pci/devices") / (pci or "none")
    try:
        node = int((folder / "numa_node").read_text())
        return node, processors((folder / "local_cpulist").read_text())
    except (OSError, ValueError):
        return -1, set()


def processors(text: str) -> set[int]:
    """`0-3,8` as numbers."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        if first:
            found |= set(range(int(first), int(last if dash else first) + 1))
    return found


def _said(*words: str) -> str:
    try:
        done = subprocess.run(["nvidia-smi", *words], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""

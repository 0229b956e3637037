"""Watts of GPUs and of whole machines, and energy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from llmhw_provision.units import GIB

SWITCHED = Fraction(102, 56)  # NVIDIA DGX H100: 10.2 kW at most with GPUs of 5.6 kW; DGX B200 14.3 to 8
SUPPLY = Fraction(92, 100)  # efficiency of 80 PLUS Platinum supplies at half load
FANS = Fraction(11, 10)  # fans and margin
_DIMM, _DIMM_SIZE = 10, 64 * GIB
_NIC, _DISK, _BOARD = 25, 15, 50
PUE = Fraction(13, 10)  # wall to building: 1.2 to 1.5, Uptime Institute surveys


@dataclass(frozen=True)
class Power:
    """One host."""

    gpus: int  # watts of its GPUs at their limit
    host: int  # watts at the wall
    formula: str
    source: str


def power(
    *, gpus: int, gpu_watts: int, switched: bool, cpu_watts: int = 0, memory: int = 0, nics: int = 0, disks: int = 0
) -> Power:
    """Most that a host draws: NVSwitch machines by DGX's ratio, others by the sum of their parts."""
    cards = gpus * gpu_watts
    dimms = -(-memory // _DIMM_SIZE)
    rest = cpu_watts + dimms * _DIMM + nics * _NIC + disks * _DISK + _BOARD
    wall = _up((cards + rest) / SUPPLY * FANS)
    text = f"({cards:,} W of GPUs + {rest:,} W of the rest) / {float(SUPPLY):.2f} × {float(FANS):.1f}"
    source = "data sheets of the parts; supplies at 92 %, fans and margin 10 %"
    if switched and _up(cards * SWITCHED) > wall:
        wall = _up(cards * SWITCHED)
        text, source = f"{cards:,} W of GPUs × {float(SWITCHED):.2f}", "NVIDIA DGX H100 data sheet: 10.2 kW at most"
    return Power(cards, wall, text, source)


def kilowatt_hours(watts: float, seconds: float, *, pue: Fraction = Fraction(1)) -> float:
    """Energy; with `pue` what the building draws."""
    return watts * seconds * float(pue) / 3.6e6


def _up(value: Fraction) -> int:
    return -int(-value // 1)

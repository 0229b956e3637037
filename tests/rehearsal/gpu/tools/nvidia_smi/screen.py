"""The table that plain `nvidia-smi` draws."""

from __future__ import annotations

import time

from . import VERSION
from .machine import Gpu, Machine
from .tree import draw

_RULE = "+-----------------------------------------------------------------------------------------+"
_SPLIT = "+-----------------------------------------+------------------------+----------------------+"
_HEADS = (
    "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
    "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
    "|                                         |                        |               MIG M. |",
    "|=========================================+========================+======================|",
)
_PROCESSES = (
    "| Processes:                                                                              |",
    "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |",
    "|        ID   ID                                                               Usage      |",
    "|=========================================================================================|",
    "|  No running processes found                                                             |",
)


def table(machine: Machine, gpus: tuple[Gpu, ...]) -> str:
    """The title, three lines for each GPU, and the processes, of which there are none."""
    title = f"NVIDIA-SMI {VERSION:<22} Driver Version: {machine.driver:<14} CUDA Version: {machine.cuda}"
    out = [time.strftime("%a %b %e %H:%M:%S %Y       "), _RULE, f"| {title:<87} |", _SPLIT, *_HEADS]
    for gpu in gpus:
        out += [*_rows(machine, gpu), _SPLIT]
    return "\n".join([*out, "", _RULE, *_PROCESSES, _RULE, ""])


def _rows(machine: Machine, gpu: Gpu) -> list[str]:
    card = gpu.card
    mode = "On" if machine.persistence else "Off"
    power = f"{float(draw(gpu)):.0f}W / {card.power:>4}W"
    memory = f"0MiB / {card.memory:>6}MiB"
    fan = "N/A" if card.ecc else " 0%"
    return [
        f"| {gpu.index:>3}  {card.name:<30.30}{mode:>5} | {gpu.bus_id:>18} Off | {'0' if card.ecc else 'N/A':>20} |",
        f"| {fan:>3}  {30 + gpu.index:>3}C    P0 {power:>24} | {memory:>22} | {'0%':>7}      Default |",
        f"| {'':>39} | {'':>22} | {'Disabled' if card.mig else 'N/A':>20} |",
    ]

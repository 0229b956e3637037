"""What a driver knows of a card beyond its PCI functions. Figures as published outputs of nvidia-smi show them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    """One kind of GPU: memory in MiB, power in W, clocks in MHz, links in GB/s one way."""

    name: str
    architecture: str
    compute: str
    memory: int
    bar1: int
    power: int
    least_power: int
    clock: int
    memory_clock: int
    links: int = 0
    link_speed: float = 0.0
    ecc: bool = True
    mig: bool = True
    brand: str = "NVIDIA"
    generation: int = 5


H100 = {"architecture": "Hopper", "compute": "9.0", "memory": 81559, "bar1": 131072}
CARDS = {
    "2330": Card(
        **H100,  # type: ignore[arg-type]
        name="NVIDIA H100 80GB HBM3",
        power=700,
        least_power=200,
        clock=1980,
        memory_clock=2619,
        links=18,
        link_speed=26.562,
    ),
    "2331": Card(**H100, name="NVIDIA H100 PCIe", power=350, least_power=200, clock=1755, memory_clock=1593),  # type: ignore[arg-type]
    "2901": Card("NVIDIA B200", "Blackwell", "10.0", 183359, 262144, 1000, 200, 1965, 3996, 18, 53.125),
    "2b85": Card(
        *("NVIDIA GeForce RTX 5090", "Blackwell", "12.0", 32607, 32768, 575, 400, 3090, 14001),
        ecc=False,
        mig=False,
        brand="GeForce",
    ),
}
# The CUDA that a branch of the driver brings.
CUDA = {"535": "12.2", "550": "12.4", "570": "12.8", "580": "13.0", "590": "13.1", "595": "13.2", "610": "13.3"}


def card(device: str) -> Card:
    """The card of a PCI device id; an unknown one has no figures of its own."""
    return CARDS.get(device.lower(), Card("NVIDIA Graphics Device", "Unknown", "0.0", 0, 0, 0, 0, 0, 0))

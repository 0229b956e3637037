"""From a machine to what verify expects of its GPUs."""

from __future__ import annotations

from llmhw_provision.catalogue.loader import Gpu, find, names
from llmhw_provision.machine import Gpus, Machine
from llmhw_provision.plan.expected import Expected, ExpectedGpus

_NVIDIA, _BRIDGE = "10de", "0680"  # NVSwitches up to NVLink 4 are NVIDIA's PCI functions of class 0680


def expected_of(machine: Machine) -> Expected | None:
    """The GPUs as counted and as the catalogue describes their kind; None without a GPU.

    No driver is expected: that follows from the role that installs it. Bridges between PCIe cards cannot be seen
    on the PCI bus, so none are expected of them.
    """
    known = next((gpus for gpus in machine.gpus if gpus.kind in names("gpus")), None)
    gpus = known or next(iter(machine.gpus), None)
    if gpus is None:
        return None
    if known is None:
        return Expected(gpus=ExpectedGpus(kind=gpus.kind, count=gpus.count, pci_ids=(gpus.kind,)))
    return Expected(gpus=_known(gpus, find("gpus", gpus.kind, Gpu), machine))


def _known(gpus: Gpus, card: Gpu, machine: Machine) -> ExpectedGpus:
    switched = card.nvswitch and gpus.count > 1 and _switches(card, machine)
    mesh = card.nvswitch and gpus.count > 1 and not switched
    desktop = "GeForce" in card.title
    return ExpectedGpus(
        kind=gpus.kind,
        count=gpus.count,
        pci_ids=card.pci_ids,
        memory_mib=card.memory_mib,
        power_limit_w=card.power_w,
        pcie_generation=card.pcie,
        nvlink="switch" if switched else "mesh" if mesh else "none",
        links=card.nvlink_links if switched or mesh else 0,
        links_per_pair=card.nvlink_links if switched else card.nvlink_links // (gpus.count - 1) if mesh else 0,
        peer_access=gpus.count > 1 and not desktop,
        ecc=not desktop and "RTX" not in card.title,  # workstation cards come with ECC off
    )


def _switches(card: Gpu, machine: Machine) -> bool:
    """Whether NVSwitches join the GPUs. From Blackwell on they do not show as NVIDIA's own functions."""
    if machine.origin == "catalogue" or float(card.compute_capability) >= 10:
        return True
    return any(device.vendor_id == _NVIDIA and device.class_id == _BRIDGE for device in machine.pci)

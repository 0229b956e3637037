"""From a machine to what verify expects of its GPUs."""

from __future__ import annotations

from llmhw_provision.catalogue.loader import Gpu, find, names
from llmhw_provision.errors import InputError
from llmhw_provision.expected import Expected, ExpectedGpus, HostExpect
from llmhw_provision.machine import Gpus, Machine
from llmhw_provision.plan.model import Note
from llmhw_provision.plan.roles_driver import NvidiaDriverConfig
from llmhw_provision.site import Host

_PAIRS = ("h100-pcie", "h100-nvl", "a100-pcie-80", "rtx-a6000", "rtx-3090")  # cards that take bridges
_NVIDIA, _BRIDGE = "10de", "0680"  # NVSwitches up to NVLink 4 are NVIDIA's PCI functions of class 0680


def expected_of(
    host: Host, machine: Machine, driver: NvidiaDriverConfig | None = None
) -> tuple[Expected | None, tuple[Note, ...]]:
    """What verify asks of GPUs, fabric and services, and a note where site.yaml adds to it.

    `driver` is what apply installs. Raises InputError where site.yaml expects of GPUs what the machine cannot have.
    """
    seen, told = _with_driver(_seen(machine), driver), host.expect
    if told is None:
        return seen, ()
    gpus = seen.gpus if seen else None
    if gpus is None and (told.driver or told.modules or told.mig or told.bridges):
        raise InputError(f"{host.name}: expect names a driver or a mode of GPUs; the machine has no GPU")
    found = Expected(
        gpus=_told(host, gpus, told) if gpus else None,
        fabric=told.fabric,
        services=told.services,
        smart=told.smart,
        management_controller=told.management_controller,
    )
    said = told.model_dump(exclude_defaults=True)
    note = Note(
        host=host.name,
        rule="verify holds the host to what site.yaml expects",
        choice=", ".join(sorted(said)) or "nothing more",
        source="site.yaml hosts.expect",
    )
    return found, (note,)


def _told(host: Host, gpus: ExpectedGpus, told: HostExpect) -> ExpectedGpus:
    changes: dict[str, object] = {"driver": told.driver or gpus.driver, "mig": told.mig}
    changes["modules"] = told.modules or (gpus.modules if told.driver in (None, gpus.driver) else None)
    if told.bridges:
        if gpus.kind not in _PAIRS or gpus.count % 2:
            raise InputError(f"{host.name}: expect.bridges: {gpus.count}× {gpus.kind} cannot be joined in pairs")
        links = find("gpus", gpus.kind, Gpu).nvlink_links
        changes |= {"nvlink": "pairs", "links": links, "links_per_pair": links}
    return gpus.model_copy(update=changes)


def _with_driver(seen: Expected | None, driver: NvidiaDriverConfig | None) -> Expected | None:
    """`seen` with the driver that apply installs."""
    if seen is None or seen.gpus is None or driver is None:
        return seen
    modules = "open" if driver.modules == "open" else "proprietary"
    return seen.model_copy(update={"gpus": seen.gpus.model_copy(update={"driver": driver.version, "modules": modules})})


def _seen(machine: Machine) -> Expected | None:
    """The GPUs as counted and as the catalogue describes their kind; None without a GPU.

    Bridges between PCIe cards cannot be seen on the PCI bus, so none are expected of them.
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

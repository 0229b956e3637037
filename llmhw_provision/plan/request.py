"""What the resolver is asked for a machine, observed or of the catalogue."""

from __future__ import annotations

import datetime

from llmhw_provision.catalogue.loader import Gpu, NicKind, find, sold_machine
from llmhw_provision.catalogue.software import software
from llmhw_provision.errors import InputError
from llmhw_provision.machine import Machine
from llmhw_provision.plan.findings import Request
from llmhw_provision.plan.gpu_memory import known_gpus
from llmhw_provision.plan.storage import plan_storage
from llmhw_provision.site import Host, Site, SoftwareChoices
from llmhw_provision.site_cluster import roles_of
from llmhw_provision.sizing.need import Need
from llmhw_provision.workload import JobName

_NVSWITCH_CLASS = "0680"  # bridge, other: how NVSwitch chips of NVLink 4 and older show on the PCI bus
_NVIDIA = "10de"


def host_request(host: Host, machine: Machine, site: Site, need: Need, day: datetime.date) -> Request:
    """What is asked for one host of a site; raises InputError or DoesNotFit where its scratch cannot be planned."""
    raid0 = False
    choices = _choices(host, site)
    if choices.gds != "off":  # only then does the shape of scratch decide anything
        storage = plan_storage(host.name, machine, site.storage, need)
        raid0 = any(volume.level == "raid0" for volume in storage.nvme_raid0.volumes)
    return request_of(host.name, machine, job=need.workload.job, choices=choices, raid0=raid0, day=day)


def _choices(host: Host, site: Site) -> SoftwareChoices:
    """What the site chose; without environments and images where no job runs."""
    if "compute" in roles_of(host, site):
        return site.software
    return site.software.model_copy(update={"environments": (), "images": (), "gds": "off"})


def request_of(
    host: str, machine: Machine, *, job: JobName, choices: SoftwareChoices, raid0: bool, day: datetime.date
) -> Request:
    """What is asked for an observed machine or one of the catalogue.

    Raises InputError without a known distribution, and for GPUs that no driver can be chosen for.
    """
    _one_known_kind(host, machine)
    gpus = known_gpus(machine)
    gpu = find("gpus", gpus.kind, Gpu) if gpus else None
    return Request(
        host=host,
        distro=_distro(host, machine, choices),
        job=job,
        day=day,
        gpu=gpu,
        gpus=gpus.count if gpus else 0,
        nvswitch=bool(gpu and gpu.nvswitch and _has_switches(machine, gpu)),
        machine=machine.os.architecture if machine.os else "x86_64",
        kernel=machine.os.kernel if machine.os else "",
        cpu=machine.cpu.model,
        adapters=_adapters(machine),
        raid0=raid0,
        choices=choices,
    )


def _one_known_kind(host: str, machine: Machine) -> None:
    """Raises InputError for GPUs that the catalogue does not know, or of two kinds: one driver must fit them all."""
    kinds = ", ".join(f"{item.count}× {item.kind}" for item in machine.gpus)
    if len(machine.gpus) > 1:
        raise InputError(
            f"{host}: GPUs of several kinds ({kinds}); versions are chosen for one kind",
            "take out what the workload does not use",
        )
    if machine.gpus and known_gpus(machine) is None:
        raise InputError(
            f"{host}: {kinds} is not in the catalogue; no driver is guessed", "add it to catalogue/gpus.yml"
        )


def _distro(host: str, machine: Machine, choices: SoftwareChoices) -> str:
    if machine.os is None:
        if choices.distro is None:
            hint = f"write software.distro, one of {', '.join(software().distros)}"
            raise InputError(f"{host}: not yet observed, and its distribution is not named", hint)
        return choices.distro
    found = software().distro_of(machine.os.id, machine.os.version)
    if found is None:
        hint = f"known: {', '.join(software().distros)}"
        raise InputError(f"{host}: {machine.os.pretty_name} is not in the matrix", hint)
    if choices.distro not in (None, found):
        hint = "leave software.distro out for observed hosts"
        raise InputError(f"{host}: software.distro is {choices.distro}, found {machine.os.pretty_name}", hint)
    return found


def _has_switches(machine: Machine, gpu: Gpu) -> bool:
    """Whether the board has NVSwitch: by PCI where it was read (four-GPU boards have none), else by the GPU's kind."""
    architecture = software().architecture(gpu.compute_capability)
    if machine.origin == "catalogue" or not architecture or architecture[1].nvlink >= 5:
        return True
    return any(item.vendor_id == _NVIDIA and item.class_id == _NVSWITCH_CLASS for item in machine.pci)


def _adapters(machine: Machine) -> tuple[str, ...]:
    """PCI ids of the network adapters, in order, once each."""
    if machine.origin == "catalogue":
        nics = sold_machine(machine.name).nics
        return find("nics", nics.kind, NicKind).pci_ids if nics else ()
    found = (f"{item.vendor_id}:{item.device_id}" for item in machine.pci if item.class_id in ("0200", "0207"))
    return tuple(dict.fromkeys(found))

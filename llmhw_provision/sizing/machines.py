"""Machines, tiers and cards of the catalogue as hardware that a workload is held against."""

from __future__ import annotations

import difflib

from llmhw_provision.catalogue.loader import CpuKind, DiskKind, Gpu, MachineKind, NicKind, find, names
from llmhw_provision.errors import InputError
from llmhw_provision.sizing.cards import card_of
from llmhw_provision.sizing.compare import Candidate
from llmhw_provision.sizing.estimate import Hardware
from llmhw_provision.sizing.need import Need
from llmhw_provision.units import GIB
from llmhw_provision.workload import Parallel

TABLES = ("machines", "tiers", "gpus")
_SWITCHED, _BARE = 8, 4  # GPUs of a host where only the GPU is named: one NVSwitch board, four PCIe slots


def machine_hardware(kind: MachineKind, nodes: int = 1) -> Hardware:
    """A machine of the catalogue with what surrounds its GPUs."""
    card = card_of(find("gpus", kind.gpu.kind, Gpu), kind.gpu.kind)
    data = [disks for disks in kind.disks if not disks.system]
    cpu = find("cpus", kind.cpu.kind, CpuKind)
    nic = find("nics", kind.nics.kind, NicKind) if kind.nics else None
    return Hardware(
        card,
        kind.gpu.count,
        nodes,
        kind.memory_gib * GIB,
        nics=kind.nics.count if kind.nics else 0,
        nic_rate=nic.rate_gbit * 10**9 // 8 if nic else 0,
        disks=sum(disks.count for disks in data),
        disk_rate=int(min((find("disks", disks.kind, DiskKind).write_gbs for disks in data), default=0) * 1e9),
        cpu_watts=kind.cpu.sockets * cpu.power_w,
        cores=kind.cpu.sockets * cpu.cores,
    )


def without_offload(need: Need) -> Need:
    """What is left out is chosen without offloading: fewer GPUs at a fraction of the speed are no bargain."""
    if not need.job.trains or need.workload.layout.offload is not None:
        return need
    layout = Parallel.model_validate({**need.workload.layout.model_dump(exclude_unset=True), "offload": "none"})
    return Need(**{**need.__dict__, "workload": need.workload.model_copy(update={"layout": layout})})


def candidate(name: str) -> Candidate:
    """The machine, tier or GPU called `name`; raises InputError naming the nearest."""
    for table in ("machines", "tiers"):
        if name in names(table):
            kind = find(table, name, MachineKind)
            return Candidate(name, kind.title, machine_hardware(kind))
    if name in names("gpus"):
        gpu = find("gpus", name, Gpu)
        count = _SWITCHED if gpu.nvswitch else _BARE
        return Candidate(name, gpu.title, Hardware(card_of(gpu, name), count))
    raise InputError(f"{name[:60]!r} is no machine, tier or GPU of the catalogue", nearest(name))


def nearest(name: str) -> str:
    """A hint: the name in the catalogue that `name` is nearest to, or all of them."""
    every = [known for table in TABLES for known in names(table)]
    near = difflib.get_close_matches(name.lower(), every, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(every)}"

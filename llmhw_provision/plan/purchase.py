"""A catalogue machine as if it had been discovered: for a plan before anything is bought."""

from __future__ import annotations

from functools import cache

from llmhw_provision.catalogue.loader import CpuKind, find, sold_machine
from llmhw_provision.machine import Cpu, Disk, Gpus, Machine
from llmhw_provision.units import GIB


@cache
def catalogue_machine(name: str) -> Machine:
    """The machine `name` of the catalogue; its disks carry made-up identities, so that apply must refuse the plan."""
    kind = sold_machine(name)
    cpu = find("cpus", kind.cpu.kind, CpuKind)
    disks: list[Disk] = []
    for group in kind.disks:
        for _ in range(group.count):
            serial = f"to-be-discovered-{len(disks) + 1}"
            disks.append(
                Disk(
                    by_id=f"/dev/disk/by-id/nvme-{serial}",
                    kernel_name="",
                    serial=serial,
                    model=group.kind,
                    size_bytes=group.size,
                    logical_sector=512,
                    transport="nvme",
                    rotational=False,
                    removable=False,
                    system=group.system,
                )
            )
    return Machine(
        schema=1,
        origin="catalogue",
        name=name,
        cpu=Cpu(
            model=cpu.title,
            sockets=kind.cpu.sockets,
            cores=cpu.cores * kind.cpu.sockets,
            threads=cpu.threads * kind.cpu.sockets,
        ),
        memory_bytes=kind.memory_gib * GIB,
        disks=tuple(disks),
        gpus=(Gpus(kind=kind.gpu.kind, count=kind.gpu.count),),
    )

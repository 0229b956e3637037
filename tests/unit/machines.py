"""Machines and sites for tests, as `discover` would have read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from llmhw_provision.documents import check
from llmhw_provision.machine import Array, Content, Cpu, Disk, Gpus, Machine, Mount, Os
from llmhw_provision.site import Site
from llmhw_provision.sizing.models import resolve_model
from llmhw_provision.sizing.need import Need
from llmhw_provision.sizing.need import need as need_of
from llmhw_provision.units import GB, GIB
from llmhw_provision.workload import Workload

CUSTOMER = Content(
    where="disk", kind="filesystem", type="ext4", uuid="11111111-2222-3333-4444-555555555555", label="home"
)


def drive(serial: str, *contents: Content, size: int = 3840 * GB, system: bool = False, sector: int = 512) -> Disk:
    """An NVMe drive."""
    return Disk(
        by_id=f"/dev/disk/by-id/nvme-MICRON_7500_{serial}",
        kernel_name=f"nvme{serial[-1]}n1",
        serial=serial,
        model="MICRON 7500",
        size_bytes=size,
        logical_sector=sector,
        transport="nvme",
        rotational=False,
        removable=False,
        system=system,
        contents=contents,
    )


def machine(
    *disks: Disk, arrays: tuple[Array, ...] = (), virtualization: str = "none", memory: int = 512 * GIB
) -> Machine:
    """A four-GPU server with one system drive and `disks`."""
    root = Content(where="partition 1", kind="filesystem", type="ext4", uuid="aaaa", mounts=("/",))
    return Machine(
        schema=1,
        origin="observed",
        name="ga660m-01",
        virtualization=virtualization,
        os=Os(id="debian", version="12", pretty_name="Debian 12", kernel="6.1.0", architecture="x86_64"),
        cpu=Cpu(model="CPU", sockets=1, cores=64, threads=128),
        memory_bytes=memory,
        disks=(drive("SYS0", root, system=True, size=960 * GB), *disks),
        arrays=arrays,
        mounts=(Mount(path="/", source="/dev/x", type="ext4", size_bytes=900 * GB, free_bytes=800 * GB),),
        gpus=(Gpus(kind="h100-pcie", count=4),),
    )


def drives(count: int = 4) -> tuple[Disk, ...]:
    """Empty equal drives D1, D2, ..."""
    return tuple(drive(f"D{index}") for index in range(1, count + 1))


def site(**storage: Any) -> Site:
    """A site of one host `ga660m-01`."""
    data = {"schema": 1, "site": "customer-a", "hosts": [{"name": "ga660m-01", "address": "192.0.2.11"}]}
    return check({**data, "storage": storage} if storage else data, Site, path=Path("site.yaml"))


def need(**changes: Any) -> Need:
    """LoRA of an 8B model with a data set of 200 GB and a hot set of 4 GiB."""
    data = {
        "schema": 1,
        "model": "llama-3.1-8b",
        "job": "sft",
        "method": "lora",
        "dataset": {"size": "200 GB", "hot": "4 GiB"},
        **changes,
    }
    workload = check(data, Workload, path=Path("workload.yaml"))
    return need_of(workload, resolve_model(workload.model))

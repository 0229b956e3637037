"""A machine as the planner sees it: read by `discover`, or taken from the catalogue before anything is bought."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from llmhw_provision.documents import Record

OBSERVED_SCHEMA = 1


class Content(Record):
    """Something found on a disk or on one of its partitions. An empty disk has none."""

    where: str = Field(description="'disk' or 'partition N'")
    kind: Literal["partition-table", "filesystem", "raid-member", "lvm", "crypto", "swap", "zfs", "ceph", "other"]
    type: str = Field(description="as blkid names it: gpt, dos, ext4, xfs, linux_raid_member, LVM2_member, ...")
    uuid: str = ""
    label: str = ""
    mounts: tuple[str, ...] = ()
    holders: tuple[str, ...] = Field(default=(), description="names of md, dm devices that use it now")


class Disk(Record):
    """One disk, named by what does not change from boot to boot."""

    by_id: str = Field(description="/dev/disk/by-id/... ; empty when udev made none")
    kernel_name: str = Field(description="name at the time of reading, for people; may differ at the next boot")
    serial: str
    model: str
    size_bytes: int = Field(ge=0)
    logical_sector: int = Field(ge=1)
    transport: str = Field(description="nvme, sata, sas, virtio, usb, ...")
    rotational: bool
    removable: bool
    system: bool = Field(description="carries /, /boot, /boot/efi or swap in use")
    contents: tuple[Content, ...] = ()


class Array(Record):
    """An md array that is assembled."""

    name: str = Field(description="name from the metadata without homehost")
    device: str
    level: str
    uuid: str
    chunk_bytes: int
    members: tuple[str, ...] = Field(description="serials of the members present")
    raid_devices: int
    filesystem: str = ""
    filesystem_uuid: str = ""
    mounts: tuple[str, ...] = ()


class PciDevice(Record):
    """One PCI function."""

    address: str
    class_id: str
    vendor_id: str
    device_id: str
    numa_node: int = -1
    rdma: str = Field(default="", description="its RDMA device at the time of reading, such as mlx5_0; empty: none")
    link_layer: str = Field(default="", description="of the RDMA device's port: InfiniBand or Ethernet")

    @model_serializer(mode="wrap")
    def _without_nothing(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leaves out of the file what only adapters for RDMA have."""
        found: dict[str, Any] = dump(self)
        return {key: value for key, value in found.items() if value or key not in ("rdma", "link_layer")}


class Nic(Record):
    """One network interface that is hardware."""

    name: str
    mac: str
    driver: str
    speed_mbit: int | None = None
    up: bool = False


class Mount(Record):
    """One mounted file system that is not virtual."""

    path: str
    source: str
    type: str
    size_bytes: int
    free_bytes: int


class Os(Record):
    """Operating system."""

    id: str
    version: str
    pretty_name: str
    kernel: str
    architecture: str


class Cpu(Record):
    """Processors of the whole machine."""

    model: str
    sockets: int = Field(ge=1)
    cores: int = Field(ge=1)
    threads: int = Field(ge=1)
    numa_nodes: int = Field(default=1, ge=1)


class Gpus(Record):
    """GPUs of one kind."""

    kind: str = Field(description="name in the catalogue, or the PCI id where it is not known")
    count: int = Field(ge=1)


class Machine(Record):
    """observed/<host>.json, or a machine of the catalogue."""

    format: Literal[1] = Field(alias="schema")
    origin: Literal["observed", "catalogue"]
    name: str
    virtualization: str = Field(default="none", description="systemd-detect-virt: none, kvm, qemu, ...")
    os: Os | None = None
    boot: Literal["uefi", "bios", "unknown"] = "unknown"
    cpu: Cpu
    memory_bytes: int = Field(ge=0)
    disks: tuple[Disk, ...] = ()
    arrays: tuple[Array, ...] = ()
    mounts: tuple[Mount, ...] = ()
    pci: tuple[PciDevice, ...] = ()
    nics: tuple[Nic, ...] = ()
    gpus: tuple[Gpus, ...] = ()

    @property
    def virtual(self) -> bool:
        """Whether the machine was read in a virtual machine or container: nothing measured there is a measurement."""
        return self.origin == "observed" and self.virtualization != "none"

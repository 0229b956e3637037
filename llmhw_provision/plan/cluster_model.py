"""What a cluster's hosts are to each other: rails, subnet manager, Slurm, shared storage. Records and rendered text.

The roles that put them on machines (infiniband, slurm, shared_storage) are separate; this is what they will be given.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from llmhw_provision.documents import Record
from llmhw_provision.site_cluster import HostRole


class Rail(Record):
    """The network adapter that belongs to one GPU; the same index on all nodes meets at one leaf switch."""

    index: int = Field(ge=0)
    gpu: int = Field(ge=0, description="index in PCI order, as nvidia-smi counts")
    numa: int | None = Field(description="NUMA node of both; None: not known")
    gpu_pci: str = Field(default="", description="PCI address; empty before the machine is observed")
    nic_pci: str = ""
    rdma: str = Field(
        default="", description="the adapter's RDMA device when it was observed; by address it is found again"
    )


class GpuPlace(Record):
    """Where one GPU sits: its NUMA node and the cores beside it, numbered as Slurm does (by socket, no threads)."""

    index: int = Field(ge=0)
    numa: int | None
    cores: str = Field(default="", description="range of cores such as 0-127; empty: all are equally near")


class SlurmNode(Record):
    """A compute node as slurm.conf declares it."""

    cpus: int = Field(ge=1, description="hardware threads")
    sockets: int | None = Field(description="None where cores differ: then CPUs alone are declared")
    cores_per_socket: int | None
    threads_per_core: int | None
    kept_cores: int = Field(default=0, ge=0, description="cores of other uses; hardware threads where cores differ")
    real_memory_mib: int = Field(ge=1, description="what jobs may use, as the host's reservations say")
    gpu_type: str = Field(default="", description="TYPE in gpu:TYPE:N, a part of the name that the driver gives")
    gpus: tuple[GpuPlace, ...] = Field(default=(), description="those that jobs may use")


class HostNode(Record):
    """What one host is in the cluster."""

    roles: tuple[HostRole, ...]
    rails: tuple[Rail, ...] = ()
    nccl: str = Field(default="", description="text of /etc/nccl.conf; empty: none is written")
    nccl_hca: Literal["all", "rails"] = Field(
        default="all", description="rails: NCCL_IB_HCA must list the rails alone, by the names their PCI addresses have"
    )
    slurm: SlurmNode | None = Field(default=None, description="compute nodes only")


class SubnetManager(Record):
    """A host that runs opensm."""

    host: str
    priority: int


class ClusterFabric(Record):
    """The network between nodes."""

    layer: Literal["infiniband", "roce"]
    rails: int = Field(ge=1, description="adapters of each node")
    subnet_manager: Literal["switch", "hosts", "none"] = Field(description="none: Ethernet needs none")
    managers: tuple[SubnetManager, ...] = Field(default=(), description="highest priority is master")


class SharedMount(Record):
    """A file system that every host mounts."""

    type: Literal["nfs4", "lustre"]
    source: str
    mount: str
    options: tuple[str, ...]


class Cluster(Record):
    """The hosts of a site as one system; ranges of hosts as Slurm writes them."""

    controllers: tuple[str, ...] = Field(description="slurmctld; the first is primary")
    accounting: str = Field(default="", description="host of slurmdbd; empty: no accounting")
    logins: str = ""
    computes: str
    fabric: ClusterFabric | None = None
    shared: SharedMount | None = None
    files: dict[str, str] = Field(default={}, description="name in /etc/slurm to text; the same on all hosts")

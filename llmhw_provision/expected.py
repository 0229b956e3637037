"""What a machine must hold and run beyond its disks: GPUs, InfiniBand ports, services."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from llmhw_provision.documents import Record


class ExpectedGpus(Record):
    """The GPUs, all of one kind. Without `driver` only the PCI bus and the kernel log are asked."""

    kind: str = Field(description="name in the catalogue, or the PCI id where it is not known")
    count: int = Field(ge=1)
    pci_ids: tuple[str, ...] = Field(description="vendor:device in lower case hex; empty: any NVIDIA GPU")
    memory_mib: int | None = Field(default=None, description="as nvidia-smi shows it")
    power_limit_w: int | None = Field(default=None, description="a lower limit is a fault")
    pcie_generation: int | None = None
    pcie_lanes: int = 16
    nvlink: Literal["none", "switch", "mesh", "pairs"] = Field(
        default="none", description="through NVSwitches, between all GPUs directly, or by bridges between two each"
    )
    links: int = Field(default=0, ge=0, description="NVLinks of one GPU that must be up")
    links_per_pair: int = Field(default=0, ge=0, description="NVLinks between two joined GPUs")
    peer_access: bool = Field(default=False, description="GPUs read and write each other's memory")
    ecc: bool = Field(default=False, description="the card has ECC memory, and it is on")
    mig: bool = Field(default=False, description="MIG mode is on")
    driver: str | None = Field(default=None, description="full version; None: the plan installs none")
    modules: Literal["open", "proprietary"] | None = Field(default=None, description="flavour of the kernel modules")


class ExpectedFabric(Record):
    """The RDMA ports that jobs use. Adapters that are not named here may be down by design."""

    ports: tuple[str, ...] = Field(description="RDMA device names such as mlx5_0")
    rate_gbit: int
    link_layer: Literal["InfiniBand", "Ethernet"] = "InfiniBand"
    subnet_manager: bool = Field(default=True, description="False for Ethernet")
    gpu_direct: Literal["dmabuf", "peermem"] | None = None
    gid_index: int | None = Field(default=None, description="NCCL_IB_GID_INDEX of the launch files; None: left to NCCL")
    cable_tool: bool = Field(default=False, description="mlxlink is installed")


class ExpectedServer(Record):
    """A serving engine on the loopback interface."""

    unit: str
    port: int


class ExpectedServices(Record):
    """What must run."""

    units: tuple[str, ...] = Field(default=(), description="units that must be active")
    slurm_node: str | None = Field(default=None, description="name of the node in Slurm")
    munge: bool = False
    dcgm: bool = False
    servers: tuple[ExpectedServer, ...] = ()
    deepspeed: str | None = Field(default=None, description="folder of the environment with ds_report")
    deepspeed_ops: tuple[str, ...] = Field(default=(), description="operators that must be built or can be")
    llamafactory: str | None = Field(default=None, description="folder of the environment with llamafactory-cli")


class Expected(Record):
    """Everything of a host that is asked for beside its disks."""

    gpus: ExpectedGpus | None = None
    fabric: ExpectedFabric | None = None
    services: ExpectedServices | None = None
    smart: bool = Field(
        default=False, description="nvme-cli and smartctl are installed: each drive is asked for its health"
    )
    management_controller: bool = Field(default=False, description="ipmitool is installed and there is a BMC")
    packages: tuple[str, ...] = Field(default=(), description="packages that the system's tool must be able to install")


class HostExpect(Record):
    """What site.yaml says of a host beyond what can be seen on it: software that is installed, ports that are used."""

    driver: str | None = Field(
        default=None, pattern=r"^[0-9]+(\.[0-9]+)+$", description="full version of the NVIDIA driver, 580.126.09"
    )
    modules: Literal["open", "proprietary"] | None = None
    mig: bool = Field(default=False, description="MIG mode is on")
    bridges: bool = Field(default=False, description="PCIe cards are joined by NVLink bridges, two each")
    fabric: ExpectedFabric | None = None
    services: ExpectedServices | None = None
    smart: bool = Field(default=False, description="nvme-cli and smartctl are installed: ask each drive")
    management_controller: bool = Field(default=False, description="ipmitool is installed: ask the BMC")

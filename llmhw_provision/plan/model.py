"""plan.json: complete, frozen, diffable; nothing later decides."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from llmhw_provision.catalogue.thresholds import Better, Unit
from llmhw_provision.documents import Record
from llmhw_provision.expected import Expected
from llmhw_provision.hostlist import LIMIT
from llmhw_provision.plan.cluster_model import Cluster, HostNode
from llmhw_provision.plan.profiles import folded, unfolded
from llmhw_provision.plan.roles import ById, InitramfsConfig, NvmeRaid0Config, TmpfsConfig, Wipe
from llmhw_provision.plan.roles_base import HostTuningConfig, SiteBaseConfig
from llmhw_provision.plan.roles_driver import NvidiaDriverConfig
from llmhw_provision.plan.roles_gpu import CudaConfig, NcclConfig, PackageSourcesConfig
from llmhw_provision.plan.roles_python import PythonEnvConfig
from llmhw_provision.plan.stack import Stack
from llmhw_provision.plan.work import LaunchInputs, Work
from llmhw_provision.site_text import Address, HostName, UserName
from llmhw_provision.units import KB

Purpose = Literal["system", "project", "scratch", "kept"]


class Note(Record):
    """Why something was chosen."""

    host: str = Field(default="", description="empty: the whole site; in the file also several: node[001-128]")
    rule: str
    choice: str
    inputs: tuple[str, ...] = ()
    source: str = ""


class Promise(Record):
    """What a source article promises beside a limit, and what physics allows."""

    value: float
    says: str
    allowed: str
    source: str


class Threshold(Record):
    """A limit that verify holds a machine to: worse than `warn` is a warning, worse than `fail` a failure."""

    metric: str = Field(description="tool and quantity, for example nccl_tests.all_reduce_busbw")
    reference: float = Field(description="what a healthy machine reaches")
    warn: float | None = None
    fail: float
    unit: Unit
    better: Better
    profile: str = Field(description="of catalogue/thresholds.yml; percentages or catalogue where it has no row")
    method: str
    reason: str
    source: str
    promised: tuple[Promise, ...] = ()


Use = Literal["system", "tmpfs", "serving", "jobs"]


class Reservation(Record):
    """What one use of a host may take; all together are the host."""

    use: Use
    memory_bytes: int
    cores: int = 0
    gpus: tuple[int, ...] = Field(default=(), description="indices as nvidia-smi counts them")


class RoleConfigs(Record):
    """What each role is given; a role that is absent is not run on the host."""

    site_base: SiteBaseConfig | None = None
    host_tuning: HostTuningConfig | None = None
    nvme_raid0: NvmeRaid0Config | None = None
    tmpfs: TmpfsConfig | None = None
    package_sources: PackageSourcesConfig | None = None
    nvidia_driver: NvidiaDriverConfig | None = None
    cuda: CudaConfig | None = None
    nccl: NcclConfig | None = None
    python_env: PythonEnvConfig | None = None
    initramfs: InitramfsConfig | None = None


class Signature(Record):
    """Something that lies on a disk, by what does not change from boot to boot."""

    type: str
    uuid: str


class ExpectedDisk(Record):
    """A disk that must be there, and what it is for."""

    serial: str
    by_id: str
    model: str
    size_bytes: int
    purpose: Purpose
    reason: str
    signatures: tuple[Signature, ...] = Field(
        default=(), description="what a system or kept disk holds and must still hold after apply"
    )


class HostPlan(Record):
    """Everything about one host."""

    name: HostName
    address: Address
    port: int
    user: UserName
    identity_file: str | None
    machine: str | None
    rehearsal: bool = Field(description="read in a virtual machine: figures are no measurements")
    os: str
    memory_bytes: int
    disks: tuple[ExpectedDisk, ...]
    roles: RoleConfigs = Field(default=RoleConfigs(), description="in the file: in the profile")
    profile: str = Field(default="", description="only in the file: the profile that carries the rest of this host")
    members: dict[str, tuple[ById, ...]] = Field(default={}, description="only in the file: disks by volume")
    wipe: tuple[Wipe, ...] = Field(default=(), description="only in the file: consents to erase")
    reboots: int = Field(ge=0, le=2)
    creates: tuple[str, ...] = Field(default=(), description="sentences: what apply will create")
    erases: tuple[str, ...] = Field(default=(), description="sentences: what apply will erase for good")
    thresholds: tuple[Threshold, ...] = Field(default=(), description="limits for verify; none for a rehearsal")
    reservations: tuple[Reservation, ...] = Field(
        default=(), description="memory, cores and GPUs by use; the last one is what Slurm may give to jobs"
    )
    expected: Expected | None = Field(default=None, description="GPUs, fabric and services that verify asks for")
    node: HostNode | None = Field(default=None, description="what the host is in its cluster")

    @model_serializer(mode="wrap")
    def _without_nothing(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leaves out what there is not, and what only the file has."""
        found: dict[str, Any] = dump(self)
        for key in ("expected", "node", "profile", "members", "wipe"):
            if not found.get(key):
                found.pop(key, None)
        return found


class Profile(Record):
    """What hosts share; in the file only."""

    name: str
    roles: RoleConfigs
    expected: Expected | None = None
    thresholds: tuple[Threshold, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    node: HostNode | None = None


class Plan(Record):
    """plan.json."""

    # as many hosts as a range may name, each with the 24 drives of a storage server at most
    size_limit: ClassVar[int] = LIMIT * 16 * KB

    format: Literal[1] = Field(alias="schema")
    site: HostName
    origin: Literal["observed", "purchase"] = Field(description="purchase: from catalogue machines; apply refuses it")
    workload: str
    identity: str = Field(description="first 12 hex digits of the SHA-256 over the plan without this field")
    cluster: Cluster | None = Field(default=None, description="what the hosts are to each other")
    profiles: tuple[Profile, ...] = Field(default=(), description="only in the file: what hosts share")
    hosts: tuple[HostPlan, ...]
    stacks: tuple[Stack, ...] = Field(default=(), description="versions that fit together; each names its hosts")
    work: tuple[Work, ...] = Field(default=(), description="which GPUs do what, in which layout; one entry per group")
    launch: LaunchInputs | None = Field(default=None, description="what launch writes beside that; none without GPUs")
    notes: tuple[Note, ...]

    @model_validator(mode="after")
    def _unfold(self) -> Self:
        """Gives every host of the file what its profile holds."""
        return self.model_copy(update=unfolded(self)) if self.profiles else self

    @model_serializer(mode="plain")
    def _fold(self) -> dict[str, Any]:
        """The form of the file."""
        return folded(self)

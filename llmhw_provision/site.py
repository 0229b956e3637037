"""site.yaml: one customer's hosts, addresses, overrides and consents."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from llmhw_provision.catalogue.thresholds import Unit
from llmhw_provision.documents import Record
from llmhw_provision.expected import HostExpect
from llmhw_provision.site_base import SiteBase, SiteFile, SiteTuning, Suite, Url, Word
from llmhw_provision.site_cluster import (
    Fabric,
    HostRole,
    SiteScheduler,
    cluster_problems,
    expanded,
    host_problems,
    refuse,
)
from llmhw_provision.site_storage import Storage
from llmhw_provision.site_text import (
    Address,
    Addresses,
    ArrayName,
    DataPath,
    HostName,
    HostNames,
    MachineName,
    UserName,
    matching,
)


class Host(Record):
    """One machine and how to reach it, or a range of equal ones."""

    model_config = ConfigDict(json_schema_extra={"required": ["name", "address"]})

    name: HostNames = Field(description="ap660-01, or a range: ap660-[001-128]")
    address: Addresses = Field(
        default="", description="required; for a range 192.0.2.[1-128] or 10.0.0.1-10.0.3.255, one for each name"
    )
    port: int = Field(default=22, ge=1, le=65535)
    user: UserName = "root"
    identity_file: str | None = Field(default=None, description="private key; relative to the site's folder")
    machine: MachineName | None = Field(
        default=None, description="catalogue machine it was sold as, for example alphapro660"
    )
    expect: HostExpect | None = Field(default=None, description="what verify holds the host to beyond what is planned")
    roles: tuple[HostRole, ...] = Field(
        default=(), description="default: compute; a single machine with Slurm is its own controller"
    )

    @model_validator(mode="after")
    def _as_many(self) -> Self:
        expanded(self)
        return self


class Jump(Record):
    """The machine that connections go through where hosts cannot be reached directly."""

    address: Address
    port: int = Field(default=22, ge=1, le=65535)
    user: UserName = "root"
    identity_file: str | None = Field(default=None, description="private key; relative to the site's folder")


_URL = re.compile(r"^https?://[A-Za-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9._~+-]+)*/?$")
_DRIVER = re.compile(r"^[0-9]{3}(\.[0-9]{2,3}(\.[0-9]{2})?)?$")
_VERSION = re.compile(r"^[0-9]+(\.[0-9]+){0,3}$")


def _origin(value: str) -> str:
    if value not in ("vendor", "distribution") and not _URL.match(value):
        raise ValueError(
            f"{value[:60]!r} is not accepted; write vendor, distribution, or a mirror's address (https://)"
        )
    return value


Origin = Annotated[str, AfterValidator(_origin)]
DriverVersion = Annotated[str, matching(_DRIVER, "580")]
VersionText = Annotated[str, matching(_VERSION, "13.0")]
PackageName = Annotated[str, matching(re.compile(r"^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$"), "vllm")]
ImageName = Annotated[str, matching(re.compile(r"^[a-z0-9][a-z0-9._/-]*:[A-Za-z0-9._-]+$"), "tritonserver:26.07")]


class Wheels(Record):
    """A folder of wheels on the hosts, for sites without an index or with wheels of their own."""

    path: DataPath
    only: bool = Field(default=True, description="nothing is taken from an index")


class Sources(Record):
    """Where packages come from: `vendor`, `distribution`, or the address of a mirror of the vendor's repository."""

    driver: Origin = Field(default="vendor", description="driver and fabric manager")
    cuda: Origin = Field(default="vendor", description="CUDA, cuDNN, NCCL, DCGM, GPUDirect Storage")
    container_toolkit: Origin = "vendor"
    rdma: Origin = Field(default="distribution", description="distribution: inbox; vendor: DOCA-OFED")
    slurm: Origin = Field(default="distribution", description="or the address of a repository of slurm-smd packages")
    python: Origin = Field(default="vendor", description="CPython: its managed build, a mirror of it, or the system's")
    wheels: Wheels | None = Field(default=None, description="a folder of wheels on the hosts")


class VendorMirror(Record):
    """The site's mirror of a vendor's package repository."""

    uri: Url
    key_file: SiteFile | None = Field(
        default=None,
        description="public key that signs it, relative to the site's folder; default: the vendor's, out of the mirror",
    )
    suites: tuple[Suite, ...] = Field(default=("./",), min_length=1, description="one that ends in / is a flat archive")
    components: tuple[Word, ...] = ()


class Repositories(Record):
    """Mirrors of the vendors' repositories."""

    cuda: VendorMirror | None = Field(default=None, description="driver, CUDA, cuDNN, NCCL, DCGM")


class Versions(Record):
    """Exact versions of what follows neither the driver nor the Python environment."""

    container_toolkit: VersionText | None = None
    dcgm: VersionText | None = None
    slurm: VersionText | None = None


class PythonEnvironment(Record):
    """A Python environment, by the packages that it must hold."""

    name: ArrayName
    packages: tuple[PackageName, ...] = Field(min_length=1, max_length=50)
    use: Literal["planned", "previous"] = Field(
        default="planned", description="previous: back to what was in use before the present lock"
    )


class SoftwareChoices(Record):
    """Overrides of the versions and sources that the resolver would choose."""

    distro: str | None = Field(default=None, description="of hosts that are not yet observed, for example debian12")
    driver: DriverVersion | None = Field(default=None, description="branch such as '580', or a full version")
    modules: Literal["open", "closed"] | None = Field(default=None, description="kernel modules of the driver")
    cuda: VersionText | None = Field(default=None, description="toolkit, with its minor: '13.0'")
    cuda_beside: tuple[VersionText, ...] = Field(default=(), description="further toolkits, for code built with them")
    eol_ok: bool = Field(default=False, description="accept what is past its end of life")
    install: bool | None = Field(
        default=None, description="whether apply installs the GPU stack; default: on observed hosts with NVIDIA GPUs"
    )
    upgrade_without_return: bool = Field(
        default=False, description="change the driver although its old packages can be had nowhere, with no way back"
    )
    sources: Sources = Sources()
    repositories: Repositories = Repositories()
    nccl_tests: SiteFile | None = Field(
        default=None, description="source archive of nccl-tests (tar.gz), relative to the site's folder"
    )
    versions: Versions = Versions()
    environments: tuple[PythonEnvironment, ...] | None = Field(
        default=None, description="default: the one that the workload's job needs"
    )
    images: tuple[ImageName, ...] = Field(default=(), description="container images that will be run")
    rdma: bool | None = Field(default=None, description="default: where an NVIDIA adapter is found")
    gds: Literal["off", "p2pdma", "nvidia-fs"] = Field(default="off", description="GPUDirect Storage on scratch")
    slurm: bool = False


class Prices(Record):
    """What this site pays, in whole units of one currency; the product knows no prices of its own."""

    currency: str = Field(pattern=r"^[A-Z]{3}$", description="three letters, for example EUR")
    each: dict[str, int] = Field(description="price of one machine, tier or GPU by its name in the catalogue")

    @model_validator(mode="after")
    def _positive(self) -> Self:
        for name, amount in self.each.items():
            if not 0 < amount <= 10**12:
                raise ValueError(f"prices.each.{name} {amount} is outside 1 to 10^12")
        return self


class SiteThreshold(Record):
    """A limit of this site instead of the table's."""

    metric: str = Field(min_length=1, max_length=80, description="as plan --explain names it")
    hosts: tuple[HostName, ...] = Field(default=(), description="default: every host")
    warn: float | None = Field(default=None, ge=0)
    fail: float = Field(ge=0)
    unit: Unit = Field(description="must be the limit's own")
    reason: str = Field(min_length=3, max_length=300, description="shown wherever the limit is")


class Site(Record):
    """site.yaml."""

    format: Literal[1] = Field(alias="schema", description="version of this file's form")
    site: HostName
    hosts: tuple[Host, ...] = Field(min_length=1, max_length=4096)
    jump: Jump | None = Field(default=None, description="ssh goes through this machine")
    storage: Storage = Storage()
    software: SoftwareChoices = SoftwareChoices()
    site_base: SiteBase = SiteBase()
    host_tuning: SiteTuning = SiteTuning()
    thresholds: tuple[SiteThreshold, ...] = Field(default=(), description="limits that replace those of the table")
    prices: Prices | None = Field(default=None, description="shown by compare")
    fabric: Fabric | None = Field(default=None, description="the network between nodes, where it is to be planned")
    scheduler: SiteScheduler = SiteScheduler()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """One entry per host, whatever the file abbreviates; raises with every contradiction at its place."""
        entries = [(index, host) for index, entry in enumerate(self.hosts) for host in expanded(entry)]
        whole = (
            self if len(entries) == len(self.hosts) else self.model_copy(update={"hosts": tuple(h for _, h in entries)})
        )
        found = [*host_problems(entries), *cluster_problems(whole)]
        if len(entries) > 4096:
            found.append((("hosts",), f"{len(entries)} hosts; the limit is 4096", ""))
        known = {host.name for _, host in entries}
        for index, consent in enumerate(self.storage.wipe):
            if consent.host not in known:
                found.append((("storage", "wipe", index, "host"), f"{consent.host!r} is not one of the hosts", ""))
        limits: set[tuple[str, str]] = set()
        for index, limit in enumerate(self.thresholds):
            stranger = next((name for name in limit.hosts if name not in known), None)
            if stranger is not None:
                found.append((("thresholds", index, "hosts"), f"{stranger!r} is not one of the hosts", ""))
            concerned = {(limit.metric, name) for name in limit.hosts or known}
            if limits & concerned:
                found.append((("thresholds", index), f"{limit.metric} has a limit above for the same host", ""))
            limits |= concerned
        shared = self.storage.shared
        if shared and shared.mount in (self.storage.scratch.mount, self.storage.tmpfs.mount):
            text = f"{shared.mount!r} is the mount of scratch or tmpfs already"
            found.append((("storage", "shared", "mount"), text, "give each its own"))
        refuse("Site", found)
        return whole

"""The interfaces of the roles of the GPU stack; `plan/roles.py` lists them with the others."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from llmhw_provision.documents import Record

Folder = Annotated[str, StringConstraints(pattern=r"^(/[A-Za-z0-9_.-]+)+$")]
Program = Annotated[str, StringConstraints(pattern=r"^(/[A-Za-z0-9_.+-]+)+$")]
SourceName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,30}$")]
Fingerprint = Annotated[str, StringConstraints(pattern=r"^[0-9A-F]{40}$")]
Glob = Annotated[str, StringConstraints(pattern=r"^[a-z0-9*?\[\].+-]{1,80}$")]
Package = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.+-]{0,80}(=[A-Za-z0-9.:~+-]{1,60})?$")]
PciAddress = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")]


class VendorSource(Record):
    """One package repository of a vendor, or the site's mirror of it."""

    name: SourceName = Field(description="name of the source, its keyring and its preferences")
    uri: str = Field(description="address of the repository")
    suites: tuple[str, ...] = Field(min_length=1, description="suites; one that ends in / stands for a flat repository")
    components: tuple[str, ...] = Field(description="components; none for a flat repository")
    key_file: str | None = Field(
        default=None, description="public key on the controller, relative to the site's folder; else key_url has it"
    )
    key_url: str | None = Field(default=None, description="address of the public key, fetched by the host")
    fingerprints: tuple[Fingerprint, ...] = Field(
        description="fingerprints that the key must have; none: the file of the site is trusted as it is"
    )
    only: tuple[Glob, ...] = Field(description="package names that no other source may give")
    never: tuple[Glob, ...] = Field(description="package names that this source may not give")
    replaces: tuple[str, ...] = Field(description="addresses; other sources that begin with one are set aside")


class PackageSourcesConfig(Record):
    """Role package_sources: repositories of vendors, each with its own key and its own package names."""

    sources: tuple[VendorSource, ...] = Field(description="the repositories")


class CudaToolkit(Record):
    """One toolkit; several lie side by side."""

    version: str = Field(description="release that its nvcc reports, major.minor")
    home: Folder = Field(description="folder of the toolkit")


class CudaConfig(Record):
    """Role cuda: CUDA toolkits side by side, cuDNN, Nsight Systems, and the environment that finds them."""

    packages: tuple[Package, ...] = Field(description="packages, as NAME or NAME=VERSION")
    profiler: tuple[Package, ...] = Field(description="names of Nsight Systems; the first that is offered is installed")
    toolkits: tuple[CudaToolkit, ...] = Field(min_length=1, description="toolkits that must be there afterwards")
    default: str = Field(description="version of the toolkit that programs find")
    home: Folder = Field(description="where programs find it: CUDA_HOME")
    alternatives: bool = Field(description="home is a link that update-alternatives keeps")
    compiler: Program | None = Field(
        default=None, description="C++ compiler that nvcc is told to call; else its choice"
    )
    hold: tuple[Glob, ...] = Field(description="installed packages that are put on hold")
    keep: tuple[Glob, ...] = Field(description="packages that must neither come nor change with it: the driver's")


class NcclTests(Record):
    """nccl-tests, built on the host."""

    archive: str = Field(description="source archive (tar.gz) on the controller, relative to the site's folder")
    compute: tuple[str, ...] = Field(description="compute capabilities to build for, such as 9.0")


class NcclConfig(Record):
    """Role nccl: the library in the version of the plan, /etc/nccl.conf, and nccl-tests."""

    packages: tuple[Package, ...] = Field(description="packages, as NAME=VERSION; none where no source has them")
    hold: tuple[Glob, ...] = Field(description="installed packages that are put on hold")
    settings: str = Field(description="text of /etc/nccl.conf, without names of adapters")
    rails: tuple[PciAddress, ...] = Field(description="PCI addresses of the adapters that NCCL may use; none: all")
    cuda_home: Folder = Field(description="toolkit that nccl-tests is built with")
    tests: NcclTests | None = Field(default=None, description="nccl-tests, where the site has its source")

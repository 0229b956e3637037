"""software.yml: versions and package names that fit together, each with source, date and confidence."""

from __future__ import annotations

import calendar
import datetime
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field

from llmhw_provision.catalogue.loader import Dated
from llmhw_provision.catalogue.software_packages import Modules, PackageRule, Repository, SigningKey
from llmhw_provision.documents import Record, check
from llmhw_provision.workload import JobName

Version = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)*(\.post[0-9]+)?$")]
Month = Annotated[str, Field(pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])$")]


class Supported(Dated):
    """A record whose support ends with a month; `ended` when that was so at the time of writing."""

    end_of_life: Month | None = None
    ended: bool = False

    def over(self, day: datetime.date) -> bool:
        """Whether support is over on `day`: it lasts to the last day of its month."""
        return self.ended or self.past(day)

    def past(self, day: datetime.date) -> bool:
        """Whether the recorded month lies before `day`."""
        if self.end_of_life is None:
            return False
        year, month = (int(part) for part in self.end_of_life.split("-"))
        return day > datetime.date(year, month, calendar.monthrange(year, month)[1])


class Defaults(Dated):
    """What is chosen where the site says nothing."""

    as_of: str
    default_driver: str
    default_cuda: Version


class SeenVersion(Dated):
    """An exact version that was seen at one source."""

    version: Version


class DriverBranch(Supported):
    """A branch of the data-center driver; `versions` by source: `vendor`, or the distribution that carries it."""

    kind: Literal["LTSB", "PB", "NFB"]
    max_cuda_major: int
    modules: tuple[Modules, ...]
    versions: dict[str, SeenVersion]
    archive_stub_of: str | None = Field(default=None, description="Ubuntu's packages of this branch install that one")


class CudaMajor(Dated):
    """The oldest driver that runs a CUDA major."""

    min_driver: Version


class Cuda(Dated):
    """A CUDA toolkit and the driver it is bundled with."""

    driver: Version


class GpuArchitecture(Dated):
    """What GPUs of one architecture run on."""

    compute: tuple[str, ...]
    first_cuda: Version
    last_cuda_major: int | None = None
    min_driver: Version
    last_driver: int | None = None
    modules: tuple[Modules, ...]
    nvlink: int = Field(default=4, description="generation of NVLink on NVSwitch boards, 4 for older ones too")
    flash_attention: tuple[Literal["2", "3", "4"], ...]


class Distro(Supported):
    """A distribution; `kernel` is the one it was released with, `pythons` begin with the system's own."""

    title: str
    os: str
    version: str
    family: Literal["deb", "rpm"]
    kernel: Version
    kernel_backports: bool = False
    pythons: tuple[Version, ...]
    slug: str
    architectures: dict[str, str]
    key: str
    refuses_keys: tuple[str, ...] = ()


class Feature(Dated):
    """A way of moving data that needs several parts at once."""

    title: str
    min_kernel: Version
    min_cuda: Version = "0"
    min_driver: Version = "0"
    open_modules: bool


class KernelFloor(Dated):
    """The oldest kernel for a processor (regular expression on its model) or adapter (PCI id)."""

    title: str
    cpu: str = ""
    pci: str = ""
    min_kernel: Version


class Slurm(Dated):
    """Slurm as a distribution carries it; `never` are packages that cannot be installed."""

    version: Version
    cgroup_v2: bool
    detect: Literal["file", "nvidia"]
    packages: tuple[str, ...]
    never: tuple[str, ...] = ()


class SlurmUpstream(Dated):
    """Slurm as SchedMD supports it."""

    releases: tuple[Version, ...]
    min_release: Version
    detect: Literal["nvidia"]
    detect_since: Version
    packages: tuple[str, ...]


class CpuLock(Dated):
    """The same environment for hosts without GPU: for rehearsals, not for work."""

    python: Version
    packages: dict[str, Version]
    not_imported: tuple[str, ...] = Field(default=(), description="packages that are not held to import, see source")
    accepts: tuple[str, ...] = Field(default=(), description="lines of pip check that are known to be harmless")


class UvWheel(Record):
    """The wheel of uv for one architecture."""

    file: str
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Uv(Dated):
    """The program that installs Python environments, and the index that it takes packages from by default."""

    version: Version
    index: str
    wheels: dict[str, UvWheel]


class Environment(Dated):
    """A Python environment whose packages were resolved together; its lock is locks/NAME.txt, NAME-cpu.txt on CPUs."""

    title: str
    jobs: tuple[JobName, ...]
    python: Version
    cuda: Version
    nccl: Version
    cudnn: Version
    packages: dict[str, Version]
    build_with_torch: tuple[str, ...] = ()
    cpu: CpuLock


class PythonPackage(Dated):
    """What one Python package asks for, or why no lock holds it."""

    requires_python: str = ""
    only: Literal["container", "source"] | None = None
    because: str = ""


class Conflict(Dated):
    """Python packages that cannot share an environment."""

    packages: tuple[str, ...]
    because: tuple[str, ...]


class Image(Dated):
    """A container image, with the CUDA and driver it was built for."""

    cuda: Version
    driver: Version


class Software(Record):
    """software.yml."""

    catalogue: Defaults
    drivers: dict[str, DriverBranch]
    cuda_majors: dict[str, CudaMajor]
    cuda: dict[str, Cuda]
    distribution_cuda: dict[str, SeenVersion] = Field(description="toolkit in a distribution's own archive")
    architectures: dict[str, GpuArchitecture]
    distros: dict[str, Distro]
    keys: dict[str, SigningKey]
    repositories: dict[str, Repository]
    packages: tuple[PackageRule, ...]
    versions: dict[str, SeenVersion]
    features: dict[str, Feature]
    kernels: dict[str, KernelFloor]
    slurm: dict[str, Slurm]
    slurm_upstream: SlurmUpstream
    uv: Uv
    cpython: dict[str, SeenVersion] = Field(description="managed builds, by major.minor")
    environments: dict[str, Environment]
    python_packages: dict[str, PythonPackage]
    conflicts: tuple[Conflict, ...]
    images: dict[str, Image]

    def architecture(self, compute: str) -> tuple[str, GpuArchitecture] | None:
        """Name and record of the architecture with this compute capability, None when none is recorded."""
        return next(((name, item) for name, item in self.architectures.items() if compute in item.compute), None)

    def distro_of(self, os: str, version: str) -> str | None:
        """Name of the distribution that /etc/os-release calls `os` `version`; RHEL's rebuilds count as it."""
        family = "rhel" if os in ("rhel", "rocky", "almalinux", "centos", "ol") else os
        found = (name for name, item in self.distros.items() if item.os == family and _release(item, version))
        return next(found, None)

    def supported(self) -> Iterator[tuple[str, Supported]]:
        """Every record with an end of life, by `section.name`."""
        for section, records in (("drivers", self.drivers), ("distros", self.distros)):
            yield from ((f"{section}.{name}", record) for name, record in records.items())


def _release(distro: Distro, version: str) -> bool:
    return version == distro.version or (distro.family == "rpm" and version.split(".")[0] == distro.version)


@cache
def software() -> Software:
    """The records of software.yml."""
    path = Path(__file__).with_name("software.yml")
    return check(yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader), Software, path=path)


def ordered(version: str) -> tuple[int, ...]:
    """`580.65.06` as numbers to compare; a Debian revision, `-generic` or `.post1` does not count."""
    digits: list[int] = []
    for part in version.split("-")[0].split("."):
        if not part.isdigit():
            break
        digits.append(int(part))
    return tuple(digits)

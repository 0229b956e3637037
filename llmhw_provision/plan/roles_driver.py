"""The interface of the role nvidia_driver; `plan/roles.py` lists it with the others."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from llmhw_provision.documents import Record
from llmhw_provision.plan.roles_gpu import Glob, Package

DriverVersion = Annotated[str, StringConstraints(pattern=r"^[0-9]{3}\.[0-9]{2,3}(\.[0-9]{2})?$")]
PackageName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9+.-]*$")]
Need = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9+.-]*(>=[0-9.]+)?$")]
ModuleName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+$")]


class DriverPackage(Record):
    """A package and the version that it must have."""

    name: PackageName = Field(description="name")
    version: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z.+~:-]*$")] = Field(
        description="upstream's version, without the packager's revision; empty: any, which is then held"
    )


class Along(Record):
    """What other roles want on a host without a driver: apt brings all of it with the same command."""

    packages: tuple[Package, ...] = Field(description="packages, as NAME or NAME=VERSION")
    first_of: tuple[Package, ...] = Field(description="names of which the first that is offered is installed")
    keep: tuple[Glob, ...] = Field(description="packages that must not come with them")


class NvidiaDriverConfig(Record):
    """Role nvidia_driver: driver, fabric manager and persistence daemon at one version, held."""

    version: DriverVersion = Field(description="driver version, all digits")
    modules: Literal["open", "closed"] = Field(description="flavour of the kernel modules")
    packages: tuple[DriverPackage, ...] = Field(
        min_length=1, description="packages of the driver and, on boards with NVSwitch, of the fabric manager"
    )
    needs: tuple[Need, ...] = Field(description="packages that must be there first, without the kernel's headers")
    dkms: bool = Field(description="the module is built on the host, for each kernel that boots")
    headers_prefix: str = Field(description="what comes before the release in the name of a package of headers")
    stream: str = Field(description="module stream of dnf to enable, empty for none")
    board: Literal["none", "nvswitch", "nvlink5"] = Field(
        description="nvswitch: with fabric manager; nvlink5: its switches are programmed through nvlsm as well"
    )
    modules_load: tuple[ModuleName, ...] = Field(description="kernel modules of the switches, loaded before nvidia")
    gpus: int = Field(ge=1, description="GPUs that the driver must see")
    along: Along | None = Field(
        default=None, description="what roles that follow want on a host without a driver; with apt only"
    )
    without_return: bool = Field(description="consent to change the version although the old packages cannot be kept")

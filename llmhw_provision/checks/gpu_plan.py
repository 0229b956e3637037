"""The GPU software of a host in one view: what the roles nvidia_driver, cuda, nccl and package_sources are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llmhw_provision.checks.views import NotThere
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.plan.roles_driver import NvidiaDriverConfig
from llmhw_provision.plan.roles_gpu import CudaConfig, NcclConfig

_NOTHING = ((), ("",))


@dataclass(frozen=True)
class Stack:
    """What apply installs on the host. `packages` hold the version to install by name, empty where any will do."""

    driver: NvidiaDriverConfig
    cuda: CudaConfig | None
    nccl: NcclConfig | None
    repositories: tuple[str, ...]
    replaced: tuple[str, ...]
    family: Literal["deb", "rpm"]
    packages: dict[str, str]

    def sets_aside(self, uri: str) -> bool:
        """Whether apply sets other entries for the source aside before it writes its own."""
        return uri.rstrip("/") in self.repositories or uri.startswith(self.replaced)

    @property
    def hold(self) -> tuple[str, ...]:
        """Patterns of package names that must be held beside the driver's own."""
        named = tuple(item.name for item in self.driver.packages)
        return (*named, *(self.cuda.hold if self.cuda else ()), *(self.nccl.hold if self.nccl else ()))


def stack_of(host: HostPlan) -> Stack | None:
    """The GPU software that apply installs on the host; None where it leaves that alone."""
    roles = host.roles
    driver = roles.nvidia_driver
    if driver is None:
        return None
    named = [*(roles.cuda.packages if roles.cuda else ()), *(roles.nccl.packages if roles.nccl else ())]
    sources = roles.package_sources.sources if roles.package_sources else ()
    return Stack(
        driver=driver,
        cuda=roles.cuda,
        nccl=roles.nccl,
        repositories=tuple(item.uri.rstrip("/") for item in sources),
        replaced=tuple(address for item in sources for address in item.replaces),
        family="deb" if driver.headers_prefix.startswith("linux-") else "rpm",
        packages={
            **{item.name: item.version for item in driver.packages},
            **{name: version for name, _, version in (entry.partition("=") for entry in named)},
        },
    )


def stack(host: HostPlan) -> Stack:
    """The GPU software that apply installs; raises NotThere where it installs none."""
    found = stack_of(host)
    if found is None:
        raise NotThere("apply installs no GPU software on this host")
    return found


def with_stack(host: HostPlan) -> tuple[str, ...]:
    """One subject where apply installs the GPU software."""
    return _NOTHING[host.roles.nvidia_driver is not None]


def with_build(host: HostPlan) -> tuple[str, ...]:
    """One subject where the driver's modules are built on the host."""
    driver = host.roles.nvidia_driver
    return _NOTHING[driver is not None and driver.dkms]


def with_apt(host: HostPlan) -> tuple[str, ...]:
    """One subject where apply installs the GPU software by apt."""
    found = stack_of(host)
    return _NOTHING[found is not None and found.family == "deb"]

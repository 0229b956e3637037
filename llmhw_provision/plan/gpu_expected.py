"""From the versions that were chosen for a host to what its GPU software must be, where apply installs it."""

from __future__ import annotations

from llmhw_provision.catalogue.loader import Gpu, find
from llmhw_provision.expected import ExpectedPackage, ExpectedStack
from llmhw_provision.machine import Machine
from llmhw_provision.plan.gpu_memory import known_gpus
from llmhw_provision.plan.stack import Choice, Stack
from llmhw_provision.site import Site

_TOPICS = ("driver", "fabric manager", "nvlink 5 switches", "cuda toolkit", "cudnn", "nccl")
_HEADERS = ("linux-headers", "kernel-devel")  # asked for by the kernels that are found on the host


def installs_stack(machine: Machine, site: Site) -> bool:
    """Whether apply installs the GPU stack on the host: it was observed, has GPUs, and the site does not refuse."""
    return machine.origin == "observed" and bool(machine.gpus) and site.software.install is not False


def stack_expected(stack: Stack, machine: Machine) -> ExpectedStack | None:
    """What `stack` puts on its host `machine`; None without a driver."""
    if stack.driver is None:
        return None
    from llmhw_provision.catalogue.software import software  # not at the top: most verbs need no matrix

    tables = software()
    distro, found = tables.distros[stack.distro], {item.topic: item for item in stack.choices}
    driver, gpus = found["driver"], known_gpus(machine)
    architecture = tables.architecture(find("gpus", gpus.kind, Gpu).compute_capability) if gpus else None
    switched = stack.fabric_manager is not None
    five = "nvlink 5 switches" in found
    return ExpectedStack(
        driver=stack.driver.version,
        modules=stack.driver.modules,
        open_only=architecture is not None and architecture[1].modules == ("open",),
        prebuilt=any(item.name.startswith("linux-modules-nvidia-") for item in driver.packages),
        switches="nvlink5" if five else "nvlink4" if switched else "none",
        packages=_packages(tuple(found[topic] for topic in _TOPICS if topic in found)),
        needs=tuple(name for name in driver.needs if not name.startswith(_HEADERS)),
        driver_names=driver.excludes or tables.repositories["cuda"].driver_names,
        modules_load=found["nvlink 5 switches"].modules_load if five else (),
        family=distro.family,
        slug=distro.slug,
        repositories=tuple(item.url for item in stack.repositories if item.name == "cuda"),
        cuda=stack.cuda,
    )


def _packages(choices: tuple[Choice, ...]) -> tuple[ExpectedPackage, ...]:
    return tuple(
        ExpectedPackage(name=item.name, version=item.version) for choice in choices for item in choice.packages
    )

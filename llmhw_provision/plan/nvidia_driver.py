"""Role nvidia_driver from the host's stack: nothing is decided here that the stack has decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llmhw_provision.machine import Machine
from llmhw_provision.plan.model import Note
from llmhw_provision.plan.roles_driver import Along, DriverPackage, NvidiaDriverConfig
from llmhw_provision.plan.stack import Choice, Stack
from llmhw_provision.site import Site

_HEADERS = {"deb": "linux-headers-", "rpm": "kernel-devel-"}
_TOPICS = ("driver", "fabric manager", "nvlink 5 switches")
_PINNING = "nvidia-driver-pinning-"
_ASKED = ("pciutils",)  # lspci, which verify asks for links and for what holds the GPUs; a small image lacks it


@dataclass(frozen=True)
class DriverPlan:
    """What nvidia_driver is given for one host, and why; `config` is None where it is not planned."""

    config: NvidiaDriverConfig | None = None
    creates: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


def plan_driver(host: str, machine: Machine, stack: Stack, site: Site, along: Along | None = None) -> DriverPlan:
    """The driver of `stack` for a host whose GPU stack is planned, with what comes along on a bare host."""
    from llmhw_provision.catalogue.software import software  # not at the top: most verbs need no matrix

    driver, choices = stack.driver, {item.topic: item for item in stack.choices}
    if driver is None or "driver" not in choices:
        return DriverPlan()
    chosen = [choices[topic] for topic in _TOPICS if topic in choices and choices[topic].packages]
    headers = _HEADERS[software().distros[stack.distro].family]
    needs = choices["driver"].needs
    config = NvidiaDriverConfig(
        version=driver.version,
        modules=driver.modules,
        packages=tuple(_packages(chosen)),
        needs=(*(name for name in needs if not name.startswith(headers)), *_ASKED),
        dkms=any(name.startswith("dkms") for name in needs),
        headers_prefix=headers,
        stream=choices["driver"].stream,
        board=_board(stack, choices),
        modules_load=tuple(name for item in chosen for name in item.modules_load),
        gpus=sum(item.count for item in machine.gpus),
        along=along,
        without_return=site.software.upgrade_without_return,
    )
    return DriverPlan(config, (_creates(config),), (_note(host, config),))


def _packages(chosen: list[Choice]) -> list[DriverPackage]:
    """The packages of all choices, and NVIDIA's package of preferences where the driver's branch has one."""
    found = [DriverPackage(name=item.name, version=item.version) for choice in chosen for item in choice.packages]
    locks = [choice.lock for choice in chosen if choice.lock.startswith(_PINNING)]
    return [*found, *(DriverPackage(name=name, version="") for name in dict.fromkeys(locks))]


def _board(stack: Stack, choices: dict[str, Choice]) -> Literal["none", "nvswitch", "nvlink5"]:
    if stack.fabric_manager is None:
        return "none"
    return "nvlink5" if "nvlink 5 switches" in choices else "nvswitch"


def _creates(config: NvidiaDriverConfig) -> str:
    beside = {"none": "", "nvswitch": " with fabric manager", "nvlink5": " with fabric manager and nvlsm"}
    return f"driver {config.version} ({config.modules} modules){beside[config.board]}, held with the kernel"


def _note(host: str, config: NvidiaDriverConfig) -> Note:
    return Note(
        host=host,
        rule="driver, libraries and fabric manager have one version, digit by digit, and change only together",
        choice=f"{config.version}; held, left alone by unattended upgrades, the set before kept on the host",
        inputs=tuple(f"{item.name}={item.version}" if item.version else item.name for item in config.packages),
        source="NVIDIA/gpu-driver-container#735; pando85/homelab#4110; illinois-scicomp/machine-shop-maintenance#70",
    )

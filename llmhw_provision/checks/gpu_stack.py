"""The installed GPU software: packages, holds, modules for the kernels that run and will run, services, CUDA, NCCL."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from llmhw_provision.checks.gpu_plan import stack, stack_of, with_apt, with_build, with_stack
from llmhw_provision.checks.gpu_views import listed, planned
from llmhw_provision.checks.model import Check, Outcome, failed, passed
from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import dkms, gpu_packages, gpu_runtime, kernels, nouveau


def package(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """The planned package is installed, whole, in the planned version."""
    wanted = stack(host).packages[subject]
    found = gpu_packages.packages(evidence).installed.get(subject)
    expected = wanted or "installed"
    if found is None:
        return failed("not installed", expected, "absent")
    if found.state != "installed":
        return failed(f"{found.version}, {found.state}", expected, "half")
    text = found.version
    return passed(text, expected) if gpu_packages.same(wanted, text) else failed(text, expected)


def one_version(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Every package that follows the driver's version has the planned one, to the last digit, and is whole."""
    wanted = stack(host).driver.version
    found = [item for item in gpu_packages.packages(evidence).installed.values() if item.of_driver]
    expected = f"every package of the driver {wanted}"
    half = {item.name: item.state for item in found if item.state != "installed"}
    if half:
        return failed(listed(half), expected, "half")
    other = {item.name: item.upstream for item in found if item.bound and item.upstream != wanted}
    if not found:
        return failed("no package of a driver", expected, "none")
    return failed(listed(other), expected) if other else passed(f"{len(found)} packages {wanted}", expected)


def _kept(host: HostPlan, evidence: Evidence) -> list[gpu_packages.Installed]:
    """What must not move by itself: the driver's packages, what the plan names, and the kernel's metapackages."""
    mine, metas = stack(host).hold, kernels.kernels(evidence).metas
    every = gpu_packages.packages(evidence).installed.values()
    named = [item for item in every if any(fnmatchcase(item.name, pattern) for pattern in (*mine, *metas))]
    return [*(item for item in every if item.of_driver and item not in named), *named]


def held(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The whole installed set is held: one library that moves alone stops every GPU."""
    kept = _kept(host, evidence)
    free = [item.name for item in kept if not item.held]
    expected = f"{len(kept)} packages held"
    if free:
        return failed(f"not held: {', '.join(free[:6])}" + (f" and {len(free) - 6} more" if free[6:] else ""), expected)
    return passed(expected, expected) if kept else failed("nothing is installed", "packages held", "none")


def unattended(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Unattended upgrades leave the set alone, also when a hold is taken off for a moment."""
    patterns = gpu_packages.packages(evidence).unattended
    expected = "unattended upgrades leave driver and kernel alone"
    if patterns is None:
        return passed("unattended-upgrades is not installed", expected)
    metas = kernels.kernels(evidence).metas
    names = [item.name for item in _kept(host, evidence) if item.of_driver or item.name in metas]
    free = [name for name in names if not any(_matches(pattern, name) for pattern in patterns)]
    if free:
        return failed(f"would upgrade {', '.join(free[:6])}", expected)
    return passed(f"{len(names)} packages on the list", expected)


def _matches(pattern: str, name: str) -> bool:
    """As unattended-upgrades matches: a regular expression from the beginning of the name."""
    try:
        return re.match(pattern, name) is not None
    except re.error:
        return False


def modules_built(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """DKMS has installed the planned driver for the running kernel, the one that boots next and the newest."""
    wanted, found = stack(host).driver.version, dkms.built(evidence)
    names = kernels.kernels(evidence).wanted
    done = {item.kernel for item in found if item.version == wanted and item.state == "installed"}
    expected = f"{wanted} installed for {', '.join(names)}"
    lacking = [name for name in names if name not in done]
    if not lacking:
        warnings = {item.kernel: item.warning for item in found if item.warning and item.version == wanted}
        changed = {kernel: text for kernel, text in warnings.items() if "Diff" in text}
        return failed(listed(changed), expected, "changed") if changed else passed(expected, expected)
    said = dkms.error(evidence, wanted)
    text = f"not for {', '.join(lacking)}" + (f": {said}" if said else "")
    if not any(item.version == wanted for item in found):
        others = sorted({item.version for item in found}) or ["nothing"]
        return failed(f"{text}; dkms knows {', '.join(others)}", expected, "unknown")
    return failed(text, expected, "compiler" if said else "")


def boot_module(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The module of the planned version and flavour lies on the disk for the kernel that boots next."""
    wanted, found = stack(host).driver, kernels.kernels(evidence)
    module = found.modules.get(found.next)
    expected = f"{wanted.version}, {wanted.modules}, for {found.next}"
    if module is None:
        return failed(f"none for {found.next}", expected, "none")
    kind = "open" if module.open else "closed"
    if module.version != wanted.version:
        return failed(f"{module.version} for {found.next}", expected)
    return passed(expected, expected) if kind == wanted.modules else failed(f"{kind} modules", expected, "flavour")


def loaded_flavour(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The loaded module says the planned version and flavour of itself."""
    wanted, said = stack(host).driver, gpu_runtime.nodes(evidence).driver
    expected = f"{wanted.version}, {wanted.modules}"
    if not said:
        return failed("no nvidia module is loaded", expected, "none")
    kind = "open" if "Open Kernel Module" in said else "closed"
    match = re.search(r"Kernel Module.*?\s([0-9]{3}(?:\.[0-9]+)+)\s", f"{said} ")
    version = match[1] if match else "no version"
    text = f"{version}, {kind}"
    return passed(text, expected) if text == expected else failed(text, expected)


def rivals(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Nothing else that would take the GPUs is loaded, and modprobe would not load it by itself."""
    found = nouveau.rivals(evidence)
    expected = f"none of {', '.join(nouveau.RIVALS)}"
    if found.loaded:
        return failed(f"loaded: {', '.join(found.loaded)}", expected, "loaded")
    free = [name for name in nouveau.RIVALS if name not in found.blacklisted]
    return failed(f"not blacklisted: {', '.join(free)}", expected) if free else passed("all blacklisted", expected)


def rivals_at_boot(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The initramfs of the kernel that boots next carries the blacklist: it loads drivers before any disk is there."""
    image, named = nouveau.in_image(evidence)
    free = [name for name in nouveau.RIVALS if name not in named]
    expected = f"{', '.join(nouveau.RIVALS)} blacklisted inside the initramfs"
    return failed(f"{image}: not {', '.join(free)}", expected) if free else passed(image, expected)


def persistenced(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The persistence daemon runs, and will after the next boot."""
    unit = gpu_runtime.persistenced(evidence)
    expected = "active and enabled"
    state, enabled = unit.get("ActiveState", ""), unit.get("UnitFileState", "")
    if unit["LoadState"] != "loaded":
        return failed(unit["LoadState"], expected, "absent")
    if state != "active":
        skipped = unit.get("ConditionResult") == "no"
        text = f"{state}, a condition of its unit was not met" if skipped else f"{state} ({unit.get('Result', '')})"
        return failed(text, expected, "skipped" if skipped else "")
    return passed(expected, expected) if enabled in ("enabled", "static") else failed(enabled, expected, "disabled")


def subnet_manager(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """On NVLink 5 boards NVLSM runs and its modules are loaded: it programs the switches."""
    found = gpu_runtime.nodes(evidence)
    wanted = stack(host).driver.modules_load
    lacking = [name for name in wanted if name not in found.modules]
    expected = f"nvlsm running, {', '.join(wanted)} loaded"
    if lacking:
        return failed(f"not loaded: {', '.join(lacking)}", expected, "modules")
    return passed(expected, expected) if found.nvlsm else failed("nvlsm does not run", expected)


def nodes(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The driver has taken every planned GPU, and programs can open them."""
    found, count = gpu_runtime.nodes(evidence), planned(host).count
    expected = f"{count} GPUs, nvidia0 to nvidia{count - 1}, nvidiactl, nvidia-uvm"
    if len(found.gpus) != count:
        return failed(f"the driver has {len(found.gpus)} GPUs", expected, "fewer")
    wanted = [*(f"nvidia{index}" for index in range(count)), "nvidiactl", "nvidia-uvm"]
    lacking = [name for name in wanted if name not in found.devices]
    if lacking:
        return failed(f"no /dev/{', /dev/'.join(lacking)}", expected)
    if stack(host).driver.board == "nvswitch" and not found.switches:
        return failed("the driver has no NVSwitch", f"{expected}, NVSwitches", "switches")
    return passed(f"{count} GPUs" + (f", {len(found.switches)} NVSwitches" if found.switches else ""), expected)


def package_names(host: HostPlan) -> tuple[str, ...]:
    """Names of the packages that are asked for one by one."""
    found = stack_of(host)
    return tuple(found.packages) if found else ()


def _switched(host: HostPlan) -> tuple[str, ...]:
    driver = host.roles.nvidia_driver
    return ("",) if driver is not None and driver.board == "nvlink5" else ()


_DRIVER, _PAGE = "gpu-driver", "gpu-software"
_SET, _KERNELS, _NODES = "gpu-packages", kernels.COMMAND.key, gpu_runtime.NODES.key
_IMAGE = nouveau.image_command().key
CHECKS = (
    Check("gpu-package", "gpu", ("quick",), "critical", _PAGE, _SET, package_names, package),
    Check("gpu-one-version", "gpu", ("quick",), "critical", _PAGE, _SET, with_stack, one_version),
    Check("gpu-held", "gpu", ("quick",), "major", _PAGE, _SET, with_stack, held),
    Check("gpu-unattended", "gpu", ("quick",), "major", _PAGE, _SET, with_apt, unattended),
    Check("gpu-dkms", "gpu", ("quick",), "critical", _PAGE, dkms.COMMAND.key, with_build, modules_built),
    Check("gpu-boot-module", "gpu", ("quick",), "critical", _PAGE, _KERNELS, with_stack, boot_module),
    Check("gpu-loaded", "gpu", ("quick",), "critical", _DRIVER, _NODES, with_stack, loaded_flavour),
    Check("gpu-rivals", "gpu", ("quick",), "critical", _PAGE, nouveau.COMMAND.key, with_stack, rivals),
    Check("gpu-image", "gpu", ("quick",), "critical", _PAGE, _IMAGE, with_stack, rivals_at_boot),
    Check("gpu-persistenced", "gpu", ("quick",), "major", _DRIVER, gpu_runtime.UNITS.key, with_stack, persistenced),
    Check("gpu-subnet-manager", "gpu", ("quick",), "critical", "gpu-fabric", _NODES, _switched, subnet_manager),
    Check("gpu-nodes", "gpu", ("quick",), "critical", _DRIVER, _NODES, with_stack, nodes),
)

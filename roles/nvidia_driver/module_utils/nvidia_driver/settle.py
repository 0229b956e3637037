"""What is left to do once the packages are there: module built, files, holds, loaded, services. Steps by state."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible.module_utils.host_modules import files
from ansible.module_utils.nvidia_driver import decide, leave, packages, render
from ansible.module_utils.nvidia_driver.host import Host, State, compiler_line

PERSISTENCED, FABRIC_MANAGER = "nvidia-persistenced", "nvidia-fabricmanager"
_UNITS = ("etc/systemd/system", "lib/systemd/system", "usr/lib/systemd/system")
# Packages of Debian whose triggers set the alternatives under which module and libraries are found.
_LINKERS = ("glx-alternative-", "update-glx")
_LOGS = "var/lib/dkms/*/{version}"


class Step(NamedTuple):
    """One thing to do: a kind, what it is done to, and the sentence."""

    kind: str
    target: str
    sentence: str


def build_steps(state: State, version: str) -> list[Step]:
    """Kernels that lack the module in this version."""
    return [
        Step("build", release, f"build the module {version} for kernel {release}")
        for release in state.boots
        if state.built.get(release) != version
    ]


def build(host: Host, release: str, version: str) -> str:
    """Lets dkms build what it has registered; why the module is still not there, empty when it is."""
    registered = [item for item in host.dkms() if item.version == version and item.module.startswith("nvidia")]
    for name in dict.fromkeys(item.module for item in registered):
        host.run(["dkms", "install", "-m", name, "-v", version, "-k", release])
    if host.state().built.get(release) == version:
        return ""
    return build_failure(host, release, version)


def build_failure(host: Host, release: str, version: str) -> str:
    """Why there is no module of that version for a kernel, with the compiler's line where a build has failed."""
    logs = glob.glob(host.path(_LOGS.format(version=version), "build", "make.log"))
    logs += glob.glob(host.path(_LOGS.format(version=version), release, "*", "log", "make.log"))
    newest = max(logs, key=os.path.getmtime) if logs else ""
    line = compiler_line(files.read(newest)) if newest else ""
    if line:
        return f"the module {version} was not built for kernel {release}: {line} ({newest})"
    if not os.path.exists(host.path("lib/modules", release, "build/Makefile")):
        return f"no module {version} for kernel {release}: its headers are not installed"
    known = ", ".join(f"{item.module} {item.version} {item.state}" for item in host.dkms()) or "nothing"
    return f"no module {version} for kernel {release} in /lib/modules/{release}; dkms status says: {known}"


def wanted_files(host: Host, state: State, config: Mapping[str, Any]) -> list[files.File]:
    """The files of kernel and services; nothing of the kernel before its module is on disk."""
    found = []
    if state.boots and all(state.built.get(release) for release in state.boots):
        found += render.kernel_files(render.modules(config["board"], config["modules_load"]))
    shipped = unit_text(host, PERSISTENCED)
    if shipped:
        found.append(files.File(render.PERSISTENCED, render.persistenced(shipped)))
    board = config["board"] != "none"
    if unit_text(host, FABRIC_MANAGER) and board:
        found.append(files.File(render.FABRIC_MANAGER, render.fabric_manager()))
    elif not board:
        found.append(files.File(render.FABRIC_MANAGER, None))
    return found


def unit_text(host: Host, name: str) -> str:
    """The text of a shipped unit, empty where there is none."""
    paths = (host.path(folder, f"{name}.service") for folder in _UNITS)
    return next((text for text in map(files.read, paths) if text), "")


def trigger_steps(state: State) -> list[Step]:
    """Triggers put off that link the driver into place: Debian's own packages name module and libraries by them."""
    names = [
        name
        for name, item in state.there.items()
        if item.state == "triggers-pending" and (packages.driver_name(name) or name.startswith(_LINKERS))
    ]
    return [Step("trigger", name, f"link what {name} leads to into place") for name in sorted(names)]


def hold_steps(state: State, config: Mapping[str, Any]) -> list[Step]:
    """Packages of the set, and the kernel's metas, that are not held."""
    names = [*packages.the_set(state.there, [item["name"] for item in config["packages"]])]
    if config["dkms"] or state.boots:
        names += packages.kernel_metas(state.there)
    free = [state.there[name] for name in names if state.there[name].want != "hold"]
    return [Step("hold", item.full, f"hold {item.name} {item.version}") for item in free]


def load_steps(state: State, version: str) -> list[Step]:
    """The module is loaded now where that needs no restart."""
    if not state.running or state.loaded or state.foreign or state.built.get(state.running) != version:
        return []
    return [Step("load", "nvidia", f"load the module {version}")]


def service_steps(host: Host, state: State, config: Mapping[str, Any], version: str) -> list[Step]:
    """Services enabled by the board; started once the loaded module is theirs."""
    found = []
    runs = state.loaded == version or bool(load_steps(state, version))
    for name, wanted in ((PERSISTENCED, True), (FABRIC_MANAGER, config["board"] != "none")):
        if not unit_text(host, name):
            continue
        enabled = host.run(["systemctl", "is-enabled", "--quiet", f"{name}.service"])[0] == 0
        active = host.run(["systemctl", "is-active", "--quiet", f"{name}.service"])[0] == 0
        if wanted and not enabled:
            found.append(Step("enable", name, f"enable {name}"))
        if wanted and not active and runs:
            found.append(Step("start", name, f"start {name}"))
        if not wanted and (enabled or active):
            found.append(Step("disable", name, f"disable {name}: the board has no NVSwitch"))
    return found + ([step for name in leave.SERVICES for step in _again(host, name)] if runs else [])


def _again(host: Host, name: str) -> list[Step]:
    """A service of others that stopped for the change and is to run."""
    if name in (PERSISTENCED, FABRIC_MANAGER):
        return []
    if host.run(["systemctl", "is-enabled", "--quiet", f"{name}.service"])[0] != 0:
        return []
    active = host.run(["systemctl", "is-active", "--quiet", f"{name}.service"])[0] == 0
    return [] if active else [Step("start", name, f"start {name}")]


def reboot_reasons(state: State, version: str) -> list[str]:
    """Why the machine must be restarted, from its state alone."""
    found = [f"{name} is loaded; the NVIDIA module takes over at the next boot" for name in state.foreign]
    if state.loaded and state.loaded != version:
        found.append(f"module {state.loaded} is loaded, {version} is installed")
    boots = state.kernels[-1:]
    if boots and state.running and boots[0] != state.running and state.built.get(state.running) != version:
        found.append(f"kernel {state.running} has no module {version}; {boots[0]} has")
    return found


def faults(state: State, config: Mapping[str, Any], version: str) -> list[str]:
    """What is wrong with the packages once they are said to be there."""
    other = decide.others(state.there, version)
    found = [f"{name} is {old}; the driver is {version}" for name, old in sorted(other.items())]
    found += [f"{name} is not configured" for name, item in state.there.items() if _cut(item)]
    planned = [item["name"] for item in config["packages"]] if version == config["version"] else []
    return found + [f"{name} is not installed" for name in planned if name not in state.there]


def _cut(item: packages.Installed) -> bool:
    return bool(packages.driver_version(item)) and not item.whole


def starter_fault(host: Host, config: Mapping[str, Any]) -> str:
    """On NVLink 5 boards the unit must start nvlsm as well."""
    text = unit_text(host, FABRIC_MANAGER)
    if config["board"] != "nvlink5" or not text or "nvidia-fabricmanager-start.sh" in text:
        return ""
    return (
        "nvidia-fabricmanager.service does not call nvidia-fabricmanager-start.sh, so nvlsm would never run, "
        "and NVLink 5 switches stay unprogrammed"
    )


def gpu_fault(host: Host, config: Mapping[str, Any], loaded: str) -> str:
    """Fewer or more GPUs than planned, as the loaded driver counts them."""
    folder = host.path("proc/driver/nvidia/gpus")
    count = len(os.listdir(folder)) if os.path.isdir(folder) else 0
    if not loaded or count == config["gpus"]:
        return ""
    return f"the driver sees {count} GPUs, planned are {config['gpus']}"


def sentences(steps: Sequence[Step]) -> list[str]:
    """What the steps do, in words."""
    return [step.sentence for step in steps]

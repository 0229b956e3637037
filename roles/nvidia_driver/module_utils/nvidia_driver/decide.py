"""What is to be installed, and why it must not be. Values in, sentences out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible.module_utils.host_modules.exact_versions import meant
from ansible.module_utils.nvidia_driver import packages
from ansible.module_utils.nvidia_driver.host import State
from ansible.module_utils.nvidia_driver.packages import Installed, Planned

# Small packages around the driver, of versions of their own, which a change of source may take away.
_PARTS = re.compile(r"^((lib)?nvidia-(?!container)|cuda-drivers|glx-|update-glx)")
Offers = Mapping[str, Sequence["tuple[str, int]"]]


class Transaction(NamedTuple):
    """What the package manager is told: entries NAME or NAME=VERSION, and packages to remove."""

    install: tuple[str, ...]
    absent: tuple[str, ...]

    @property
    def empty(self) -> bool:
        return not self.install and not self.absent


def entries(config: Mapping[str, Any]) -> list[str]:
    """The planned packages as NAME=VERSION, NAME where any version will do."""
    return [f"{item['name']}={item['version']}" if item["version"] else item["name"] for item in config["packages"]]


def lacking(wanted: Sequence[str], there: Mapping[str, Installed]) -> list[str]:
    """The entries that are not there whole, or in another version."""
    found = []
    for entry in wanted:
        name, _, version = entry.partition("=")
        item = there.get(name)
        if item is None or not item.whole or not meant(version, item.version):
            found.append(entry)
    return found


def others(there: Mapping[str, Installed], version: str) -> dict[str, str]:
    """Packages of the driver that are of another version, with that version."""
    return {name: found for name, found in packages.core(there).items() if found != version}


def along(there: Mapping[str, Installed], config: Mapping[str, Any]) -> dict[str, list[str]]:
    """What roles that follow want as well: where no package of a driver is there, apt brings it with the same command.

    Elsewhere they install by themselves, with their own knowledge of what they may move.
    """
    given = config.get("along") if not packages.core(there) else None
    return {key: list(given[key]) if given else [] for key in ("packages", "first_of", "keep")}


def old_pins(there: Mapping[str, Installed], config: Mapping[str, Any]) -> list[str]:
    """NVIDIA's packages of preferences for another version, which would argue with those of the planned one."""
    planned = {item["name"] for item in config["packages"]}
    return sorted(name for name in there if name.startswith("nvidia-driver-pinning-") and name not in planned)


def old_version(there: Mapping[str, Installed], version: str) -> str:
    """The version that is to be left; of several the one that most packages have."""
    found = list(others(there, version).values())
    return max(sorted(set(found)), key=found.count) if found else ""


def mixed(there: Mapping[str, Installed]) -> bool:
    """Whether packages of the driver are of several versions, or not whole: a change that was cut off."""
    cut = any(packages.driver_version(item) and not item.whole for item in there.values())
    return cut or len(set(packages.core(there).values())) > 1


def needed_headers(state: State, prefix: str) -> list[str]:
    """Packages of headers for the kernels that a module is built for and that have none."""
    return [f"{prefix}{release}" for release in state.boots if release not in state.headers]


def refusals(state: State, config: Mapping[str, Any]) -> list[str]:
    """Why nothing may be touched, as far as the machine itself tells."""
    found = []
    if state.installer:
        found.append(
            f"{state.installer}: a driver from NVIDIA's .run installer is there; its files would be mixed with packages"
        )
    if state.secure_boot and config["dkms"] and state.running:
        found.append(
            f"Secure Boot is on, and the module that dkms builds is not signed: {state.running} would refuse it"
        )
    return found


def stub_sentence(name: str, version: str, offers: Offers) -> str:
    """That no source offers the planned version, and what is offered in its place."""
    there = [text for text, priority in offers.get(name, ()) if priority >= 0]
    shut = [text for text, priority in offers.get(name, ()) if priority < 0]
    branch = version.partition(".")[0]
    if there and not any(packages.upstream(text).startswith(f"{branch}.") for text in there):
        return f"{name}: planned is {version}, and what would come is {there[0]}: a stub that leads to another branch"
    if there:
        return f"{name}: planned is {version}; the sources offer {', '.join(there[:5])}"
    if shut:
        return f"{name} {version}: only sources that are shut out offer it ({', '.join(shut[:3])})"
    return f"{name}: no package source offers it"


def simulation_refusals(found: Sequence[Planned], version: str) -> list[str]:
    """What apt would do beside what is planned."""
    refused = []
    for item in found:
        probe = Installed(item.name, "", item.new or item.old)
        of = packages.driver_version(probe)
        if item.new and of and of != version and item.name in packages.core({item.name: probe}):
            refused.append(f"apt would install {item.name} {item.new} with it; planned is {version}: a stub, or mixed")
        if not item.new and not of and not _PARTS.match(item.name):
            refused.append(f"apt would remove {item.name} {item.old}, which is no part of the driver")
    return refused


def source_refusals(
    found: Sequence[Planned], origins: Mapping[str, Mapping[str, Sequence[str]]], version: str
) -> list[str]:
    """Packages of the driver that no single source offers together."""
    wanted = {item.name: item.new for item in found if item.new and meant(version, item.new)}
    addresses = {name: set(origins.get(name, {}).get(text, ())) for name, text in wanted.items()}
    addresses = {name: where for name, where in addresses.items() if where}
    if not addresses or set.intersection(*addresses.values()):
        return []
    by_source: dict[str, list[str]] = {}
    for name in sorted(addresses):
        for where in sorted(addresses[name]):
            by_source.setdefault(where, []).append(name)
    listed = "; ".join(f"{where}: {', '.join(names[:4])}" for where, names in sorted(by_source.items()))
    return [f"packages of driver {version} would come from several sources: {listed}"]


def steps(transaction: Transaction, old: str, version: str) -> list[str]:
    """Sentences about what the package manager will be told."""
    found = [f"change the driver from {old} to {version}"] if old else []
    found += [f"install {entry}" for entry in transaction.install]
    return found + [f"remove {name}" for name in transaction.absent]

"""What dnf is told for the driver. Values in, commands out; nothing is asked of the repositories before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.module_utils.nvidia_driver import decide, packages
from ansible.module_utils.nvidia_driver.apt import Found
from ansible.module_utils.nvidia_driver.decide import Transaction
from ansible.module_utils.nvidia_driver.host import State
from ansible.module_utils.nvidia_driver.packages import Installed


def work_out(state: State, config: Mapping[str, Any]) -> Found:
    """The transaction that brings the planned packages; `dkms>=3.1.8` counts by name, dnf judges the version."""
    needs = [name for name in config["needs"] if name.partition(">")[0] not in state.there]
    headers = decide.needed_headers(state, config["headers_prefix"]) if config["dkms"] else []
    wanted = decide.lacking(decide.entries(config), state.there)
    if not needs and not headers and not wanted and not decide.others(state.there, config["version"]):
        return Found(Transaction((), ()), [], [])
    return Found(Transaction((*needs, *headers, *wanted), ()), [], [])


def commands(install: Sequence[str], config: Mapping[str, Any], enabled: Sequence[str]) -> list[list[str]]:
    """The commands in order: the module stream, then one transaction; `enabled` are streams as NAME:STREAM."""
    found = []
    stream = config["stream"]
    if stream and stream not in enabled:
        module = stream.partition(":")[0]
        if any(name.startswith(f"{module}:") for name in enabled):
            found.append(["dnf", "--assumeyes", "module", "reset", module])
        found.append(["dnf", "--assumeyes", "module", "enable", stream])
    if install:
        found.append(["dnf", "--assumeyes", "--setopt=install_weak_deps=False", "install", *map(spec, install)])
    return found


def spec(entry: str) -> str:
    """An entry as dnf names it: NAME-VERSION with any release, or a comparison as it is."""
    name, mark, version = entry.partition("=")
    return entry if not mark or name.endswith(">") else f"{name}-{version}*"


def locks(there: Mapping[str, Installed], names: Sequence[str], listed: str) -> list[list[str]]:
    """The commands that lock what is not locked yet; `listed` is the answer of dnf versionlock list."""
    the_set = packages.the_set(there, names)
    free = [name for name in the_set if f"{there[name].name}-" not in _names(listed, there[name])]
    return [["dnf", "--assumeyes", "versionlock", "add", *(there[name].name for name in free)]] if free else []


def _names(listed: str, item: Installed) -> str:
    """The line of `item` in the list, which has it as NAME-EPOCH:VERSION-RELEASE.*; empty without one."""
    lines = (line.strip() for line in listed.splitlines())
    return next((line for line in lines if line.startswith(f"{item.name}-") and item.version in line), "")


def streams(text: str) -> list[str]:
    """Enabled streams as NAME:STREAM, out of dnf module list --enabled."""
    rows = [line.split() for line in text.splitlines()]
    return [f"{row[0]}:{row[1]}" for row in rows if len(row) > 2 and "[e]" in row]

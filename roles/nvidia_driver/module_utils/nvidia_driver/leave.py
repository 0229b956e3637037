"""Leaving a version: services stopped in order, the module unloaded where nothing uses it, the old set kept."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from ansible.module_utils.nvidia_driver import kept, packages
from ansible.module_utils.nvidia_driver.host import Host, State
from ansible.module_utils.nvidia_driver.packages import Installed

# Who uses the driver stops first; the fabric manager last, since it serves the others.
SERVICES = ("nvidia-dcgm-exporter", "dcgm-exporter", "nvidia-dcgm", "nvidia-persistenced", "nvidia-fabricmanager")
MODULES = ("nvidia_drm", "nvidia_modeset", "nvidia_peermem", "nvidia_fs", "nvidia_uvm", "nvidia")
_ARCHIVES = "var/cache/apt/archives"


def active(host: Host) -> list[str]:
    """The services that run now, in the order in which they stop."""
    return [name for name in SERVICES if host.run(["systemctl", "is-active", "--quiet", f"{name}.service"])[0] == 0]


def stop(host: Host, names: Sequence[str]) -> list[str]:
    """Stops the services; sentences about those that did not."""
    found = []
    for name in names:
        rc, out, err = host.run(["systemctl", "stop", f"{name}.service"])
        if rc != 0:
            found.append(f"{name} does not stop: {(err or out).strip()}")
    return found


def unload(host: Host) -> bool:
    """Whether the module is gone; where something uses it, it stays, and a restart does the rest."""
    there = [name for name in MODULES if os.path.isdir(host.path("sys/module", name))]
    for name in there:
        host.run(["modprobe", "--remove", name])
    return not os.path.isdir(host.path("sys/module/nvidia"))


def to_keep(state: State, config: Mapping[str, Any]) -> list[Installed]:
    """The packages of the set that is left, with the kernel's metas."""
    names = packages.the_set(state.there, [item["name"] for item in config["packages"]])
    return [state.there[name] for name in names]


def fetcher(host: Host) -> kept.Fetch:
    """Brings a package's file out of apt's own cache, or from a source that still has that version."""

    def fetch(item: Installed, folder: str) -> Optional[str]:  # noqa: UP045
        cached = host.path(_ARCHIVES, kept.file_name(item))
        if _is(host, cached, item):
            return cached
        name = item.name if item.architecture == "all" else f"{item.name}:{item.architecture}"
        script = 'cd "$1" && exec apt-get download -o APT::Sandbox::User=root "$2"'
        host.run(["sh", "-c", script, "sh", folder, f"{name}={item.version}"])
        found = [path for path in glob.glob(os.path.join(folder, f"{item.name}_*.deb")) if _is(host, path, item)]
        if not found:
            return None
        os.rename(found[0], os.path.join(folder, kept.file_name(item)))
        return os.path.join(folder, kept.file_name(item))

    return fetch


def _is(host: Host, path: str, item: Installed) -> bool:
    if not os.path.isfile(path):
        return False
    rc, out, _ = host.run(["dpkg-deb", "--show", "--showformat", "${Package} ${Version}", path])
    return rc == 0 and out == f"{item.name} {item.version}"

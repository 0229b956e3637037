"""Machines in the words of the role nvidia_driver, for its unit tests."""

from __future__ import annotations

from typing import Any

from tests.unit import role_modules

from ansible.module_utils.nvidia_driver import packages  # isort: skip
from ansible.module_utils.nvidia_driver.host import State  # isort: skip

assert role_modules
A, B = "580.126.09", "580.159.03"
K1, K2 = "6.1.0-49-amd64", "6.1.0-50-amd64"
LINE = "nv-pci.c:237:12: error: too few arguments to function 'pci_resize_resource'"


def there(*rows: str) -> dict[str, packages.Installed]:
    """Rows `name version [state] [want] [depends]`, as dpkg-query prints them."""
    lines = []
    for row in rows:
        name, version, *rest = row.split(" ", 4)
        state, want, depends = [*rest, *("installed", "install", "")[len(rest) :]]
        lines.append("\t".join((name, "amd64", version, want, state, "ok", version, depends)))
    return packages.installed("\n".join(lines))


def state(*rows: str, **changes: Any) -> State:
    found: dict[str, Any] = {
        "there": there(*rows),
        "running": K2,
        "kernels": (K1, K2),
        "headers": frozenset({K1, K2}),
        "built": {K2: B},
        "loaded": "",
        "foreign": (),
        "installer": "",
        "secure_boot": False,
    }
    return State(**{**found, **changes})


def config(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "version": B,
        "packages": [{"name": "nvidia-open", "version": B}, {"name": "nvidia-fabricmanager", "version": B}],
        "needs": ["dkms", "g++"],
        "dkms": True,
        "headers_prefix": "linux-headers-",
        "stream": "",
        "board": "nvswitch",
        "modules_load": [],
        "gpus": 8,
    }
    return {**found, **changes}

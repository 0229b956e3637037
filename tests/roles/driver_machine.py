"""A container with build tools and a repository of generated packages, to which the role nvidia_driver is applied.

The kernel is one whose headers are installed and whose image is an empty file: nothing is loaded here, and whatever
needs a running kernel is proven on the rehearsal machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from llmhw_provision.plan.roles_driver import DriverPackage, NvidiaDriverConfig
from tests.containers.container import Container
from tests.containers.play import Result, ansible
from tests.rehearsal.gpu.repository import NVIDIA, _index, build, served
from tests.rehearsal.gpu.signing import Key

A, B, NEXT = "580.126.09", "580.159.03", "590.48.01"
STATE = """find /etc /var/cache/llmhw /usr/lib/modprobe.d -xdev -not -path '/etc/ssh/*' -printf '%p %m %l\\n' | sort
find /etc -xdev -type f -exec sha256sum {} + | sort; dpkg -l; dpkg --get-selections
ls -R /run/llmhw 2>/dev/null; true"""
TOOLS = "linux-headers-amd64 dkms gcc g++ make unattended-upgrades pciutils kmod"


def config(version: str = B, board: str = "nvswitch", **changes: Any) -> NvidiaDriverConfig:
    """What the plan gives a Debian 12 host with the vendor's repository."""
    names = ["nvidia-open", *(["nvidia-fabricmanager", "libnvidia-nscq"] if board != "none" else [])]
    found = [DriverPackage(name=name, version=version) for name in names]
    more = ["nvlsm", "infiniband-diags"] if board == "nvlink5" else []
    values: dict[str, Any] = {
        "version": version,
        "modules": "open",
        "packages": (
            *found,
            *(DriverPackage(name=name, version="") for name in more),
            DriverPackage(name=f"nvidia-driver-pinning-{version}", version=""),
        ),
        "needs": ("dkms", "gcc", "g++", "make"),
        "dkms": True,
        "headers_prefix": "linux-headers-",
        "stream": "",
        "board": board,
        "modules_load": ("mlx5_core", "mlx5_ib", "ib_umad") if board == "nvlink5" else (),
        "gpus": 8,
        "without_return": False,
    }
    return NvidiaDriverConfig(**{**values, **changes})


class Machine:
    """A container with build tools, and the repositories that it gets its driver from."""

    def __init__(self, container: Container, folder: Path, base: str, key: Key) -> None:
        self.container, self.folder, self.base, self.key = container, folder, base, key
        container.run(f"apt-get update && apt-get install -y --no-install-recommends {TOOLS}", timeout=600)
        self.release = container.run("ls /lib/modules").stdout.split()[-1]
        container.run(f"touch /boot/vmlinuz-{self.release} /lib/modules/{self.release}/modules.{{order,builtin}}")
        (container.root / "etc/apt/keyrings").mkdir(exist_ok=True)
        (container.root / "etc/apt/keyrings/vendor.asc").write_text(key.armoured)

    def offer(self, *, name: str = "vendor", driver: Sequence[str] = (A, B), without: str = "", **options: Any) -> None:
        """One repository of that name, with these drivers."""
        made = build(self.folder / name, key=self.key, driver=driver, **options)
        if without:
            entries = (made.folder / "Packages").read_text().strip().split("\n\n")
            kept = [entry for entry in entries if not entry.startswith(f"Package: {without}\n")]
            _index(made.folder, "\n\n".join(kept) + "\n", self.key, options.get("origin", NVIDIA))
        source = self.container.root / f"etc/apt/sources.list.d/{name}.list"
        source.write_text(f"deb [signed-by=/etc/apt/keyrings/vendor.asc] {self.base}{name}/ ./\n")
        self.container.run("apt-get update")

    def withdraw(self, name: str = "vendor") -> None:
        (self.container.root / f"etc/apt/sources.list.d/{name}.list").unlink(missing_ok=True)
        self.container.run("apt-get update")

    def clean(self) -> None:
        """As it was before the first driver."""
        for name in ("vendor", "other"):
            (self.container.root / f"etc/apt/sources.list.d/{name}.list").unlink(missing_ok=True)
        self.container.run(
            "dpkg-query -W -f '${Package} ${Version}\\n' | grep -E ' (580|590)\\.|^nvlsm' | cut -d' ' -f1 | "
            "xargs -r dpkg --purge --force-all; rm -rf /var/lib/dkms/nvidia /var/cache/llmhw /etc/apt/preferences.d/*"
            " /etc/modprobe.d/llmhw* /etc/modules-load.d/llmhw* /etc/systemd/system/nvidia-*.service.d"
            " /etc/apt/apt.conf.d/52llmhw* /var/cache/apt/archives/*nvidia* /usr/bin/nvidia-uninstall"
            " /lib/modules/*/updates; dpkg --get-selections | sed -n 's/hold$/install/p' | dpkg --set-selections",
            timeout=300,
        )

    def apply(self, wanted: NvidiaDriverConfig, **more: Any) -> Result:
        return ansible(
            self.container, "nvidia_driver", {"nvidia_driver_config": wanted.model_dump(mode="json")}, **more
        )

    def refused(self, wanted: NvidiaDriverConfig) -> str:
        """What the role says against it."""
        before = self.container.run(STATE).stdout
        (text,) = self.apply(wanted, may_fail=True).failed
        assert self.container.run(STATE).stdout.splitlines() == before.splitlines()
        return text

    def back(self, wanted: NvidiaDriverConfig, **more: Any) -> Result:
        task = {
            "name": "back",
            "ansible.builtin.include_role": {"name": "nvidia_driver", "tasks_from": "return.yml"},
        }
        values = {"nvidia_driver_config": wanted.model_dump(mode="json")}
        return ansible(self.container, [task], values, **more)

    def versions(self) -> dict[str, str]:
        """The driver's packages that are configured, with their versions."""
        out = self.container.run("dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\\n'").stdout
        rows = (line.split() for line in out.splitlines())
        return {
            row[0]: row[1]
            for row in rows
            if len(row) == 3 and row[1][:3] in ("580", "590") and row[2] != "config-files"
        }

    def held(self) -> set[str]:
        return set(self.container.run("apt-mark showhold").stdout.split())

    def built(self) -> str:
        return self.container.run(f"modinfo -k {self.release} -F version nvidia", check=False).stdout.strip()


@pytest.fixture(scope="module")
def machine_of_module(module_container: Container, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    folder = tmp_path_factory.mktemp("gpu")
    key = Key.make(folder / "key")
    address = module_container.address.rpartition(".")[0] + ".1"
    with served(folder, address) as base:
        yield Machine(module_container, folder, base, key)
    key.close()


@pytest.fixture
def machine(machine_of_module: Machine) -> Iterator[Machine]:
    yield machine_of_module
    machine_of_module.clean()

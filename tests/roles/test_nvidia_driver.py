"""The role nvidia_driver in a Debian 12 container with a repository of generated packages: real apt, dpkg and dkms.

The kernel is one whose headers are installed and whose image is an empty file: nothing is loaded here, and whatever
needs a running kernel is proven on the rehearsal machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from llmhw_provision.plan.roles_driver import DriverPackage, NvidiaDriverConfig
from tests.containers.container import Container
from tests.containers.play import Result, ansible
from tests.rehearsal.gpu.repository import NVIDIA, _index, build, served
from tests.rehearsal.gpu.signing import Key

pytestmark = pytest.mark.container

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


def actions(result: Result) -> list[str]:
    """What the role's modules did or would do, in order."""
    return [action for event in result.events for action in event.result.get("actions", ())]


def upgraded(text: str) -> list[str]:
    """What unattended-upgrade says it would upgrade."""
    return text.partition("Packages that will be upgraded:")[2].partition("\n")[0].split()


def test_check_apply_apply_and_what_lasts(machine: Machine) -> None:
    machine.offer(driver=(A, B, NEXT))
    before = machine.container.run(STATE).stdout
    foreseen = machine.apply(config(), check=True)
    assert machine.container.run(STATE).stdout == before
    assert any("nvidia-open=580.159.03-1" in text for text in actions(foreseen))
    assert len(foreseen.changed) >= 3

    first = machine.apply(config())
    found = machine.versions()
    assert {"nvidia-open", "nvidia-fabricmanager", "libcuda1", "nvidia-persistenced", "nvidia-modprobe"} <= found.keys()
    assert set(found.values()) == {f"{B}-1"}
    assert machine.built() == B
    assert "blacklist nova_core" in machine.container.run("cat /etc/modprobe.d/llmhw-nvidia.conf").stdout
    assert machine.container.run("cat /etc/modules-load.d/llmhw-nvidia.conf").stdout.split()[-2:] == [
        "nvidia",
        "nvidia_uvm",
    ]
    drop_in = machine.container.run("systemctl cat nvidia-persistenced nvidia-fabricmanager").stdout
    assert "ConditionPathExistsGlob=\n" in drop_in
    assert "Before=slurmd.service docker.service" in drop_in
    machine.container.run("systemd-analyze verify nvidia-persistenced.service nvidia-fabricmanager.service")
    assert len(actions(first)) > 10

    again, checked = machine.apply(config()), machine.apply(config(), check=True)
    assert (again.changed, checked.changed) == ((), ())

    assert found.keys() | {"linux-headers-amd64"} <= machine.held()
    machine.container.run("apt-mark unhold libcuda1 linux-headers-amd64")
    leaked = machine.apply(config())
    assert sorted(actions(leaked)) == [
        f"hold libcuda1 {B}-1",
        *(t for t in actions(leaked) if "linux-headers-amd64" in t),
    ]
    assert found.keys() <= machine.held()


@pytest.mark.proof
def test_unattended_upgrades_leave_it_alone_even_when_a_hold_has_leaked(machine: Machine) -> None:
    machine.offer(driver=(B, NEXT))
    allow = machine.container.root / "etc/apt/apt.conf.d/99all"
    allow.write_text('Unattended-Upgrade::Origins-Pattern { "origin=NVIDIA"; };\n')
    dry = "unattended-upgrade --dry-run --debug 2>&1"
    machine.container.run(
        f"apt-get install -y --no-install-recommends nvidia-driver-cuda={B}-1 libcuda1={B}-1 "
        f"libcudadebugger1={B}-1 libnvcuvid1={B}-1 libnvidia-encode1={B}-1 libnvidia-ml1={B}-1 "
        f"libnvidia-nvvm4={B}-1 libnvidia-ptxjitcompiler1={B}-1 nvidia-modprobe={B}-1 "
        f"nvidia-persistenced={B}-1 libnvidia-cfg1={B}-1"
    )
    assert "libcuda1" in upgraded(machine.container.run(dry, timeout=300).stdout)  # without the role

    machine.apply(config())
    machine.container.run("apt-mark unhold libcuda1 libnvidia-ml1")
    left = machine.container.run(dry, timeout=300).stdout
    assert "libcuda" in left.partition("Initial blacklist:")[2].partition("\n")[0]
    assert [name for name in upgraded(left) if "nvidia" in name or "cuda" in name] == []
    allow.unlink()


@pytest.mark.proof
def test_stubs_two_sources_and_a_run_installer_are_refused(machine: Machine) -> None:
    machine.offer(driver=(NEXT,))
    text = machine.refused(config(B))
    assert f"nvidia-open: planned is {B}, and what would come is {NEXT}-1: a stub that leads to another branch" in text

    machine.offer(driver=(B,), without="nvidia-fabricmanager")
    machine.offer(name="other", driver=(B,), origin=("Other", "Other"), without="nvidia-open")
    text = machine.refused(config())
    assert f"packages of driver {B} would come from several sources: {machine.base}other" in text
    machine.withdraw("other")

    (machine.container.root / "usr/bin/nvidia-uninstall").write_text("#!/bin/sh\n")
    text = machine.refused(config(B))
    assert "/usr/bin/nvidia-uninstall: a driver from NVIDIA's .run installer is there" in text
    machine.container.run("rm /usr/bin/nvidia-uninstall")


@pytest.mark.proof
def test_a_build_that_fails_makes_the_role_fail_with_the_compilers_line(machine: Machine) -> None:
    for fault in ("dkms-hidden", "dkms-broken"):
        machine.offer(driver=(B,), faults=(fault,))
        (text,) = machine.apply(config(), may_fail=True).failed[-1:]
        assert f"the module {B} was not built for kernel {machine.release}: " in text
        assert "error: " in text
        assert "make.log" in text
        assert "llmhw-nvidia.conf" not in machine.container.run("ls /etc/modprobe.d").stdout
        machine.clean()


@pytest.mark.proof
def test_a_driver_without_headers_is_refused(machine: Machine) -> None:
    machine.offer()
    machine.container.run("touch /boot/vmlinuz-6.1.0-99-amd64; mkdir -p /lib/modules/6.1.0-99-amd64")
    text = machine.refused(config())
    assert "linux-headers-6.1.0-99-amd64: no source offers it; without headers no module can be built" in text
    machine.container.run("rm -r /boot/vmlinuz-6.1.0-99-amd64 /lib/modules/6.1.0-99-amd64")


@pytest.mark.proof
def test_upgrade_cut_off_and_back_with_the_mirror_gone(machine: Machine) -> None:
    machine.offer()
    machine.apply(config(A))
    old, held = machine.versions(), machine.held()
    nothing = machine.back(config(A), may_fail=True)
    assert "no earlier set of packages is kept in /var/cache/llmhw/packages" in nothing.failed[0]

    upgrade = config(B)
    machine.apply(upgrade)
    assert set(machine.versions().values()) == {f"{B}-1"}
    assert machine.versions().keys() >= old.keys() - {f"nvidia-driver-pinning-{A}"}
    assert machine.built() == B
    manifest = json.loads(
        (machine.container.root / f"var/cache/llmhw/packages/nvidia-driver-{A}/manifest.json").read_text()
    )
    assert {item["name"]: item["version"] for item in manifest["packages"]} == old

    machine.withdraw()
    machine.container.run("apt-get clean")
    check = machine.back(upgrade, check=True)
    assert f"go back from driver {B} to {A}, from /var/cache/llmhw/packages/nvidia-driver-{A}" in actions(check)
    machine.back(upgrade)
    assert machine.versions() == old
    assert machine.held() == held
    assert machine.built() == A
    assert machine.back(upgrade).changed == ()


@pytest.mark.proof
def test_half_a_library_set_and_a_cut_dpkg_are_put_right(machine: Machine) -> None:
    machine.offer()
    machine.apply(config(A))
    wanted = machine.versions()
    machine.container.run(
        "mkdir -p /root/b && cd /root/b && rm -f *.deb && apt-get download -o APT::Sandbox::User=root "
        f"libcuda1={B}-1 libnvidia-ml1={B}-1 libnvidia-ptxjitcompiler1={B}-1 && "
        "dpkg --force-all --unpack libcuda1*.deb libnvidia-ml1*.deb && dpkg --force-all -i libnvidia-ptx*.deb"
    )
    machine.apply(config(A))
    assert machine.versions() == wanted
    assert machine.apply(config(A)).changed == ()


@pytest.mark.proof
def test_no_way_back_needs_a_consent(machine: Machine) -> None:
    machine.offer()
    machine.apply(config(A))
    machine.container.run("apt-get clean")
    machine.offer(driver=(B,))
    text = machine.refused(config(B))
    assert f"no way back to driver {A}: neither apt's cache nor a source has " in text
    assert "software.upgrade_without_return: true" in text
    machine.apply(config(B, without_return=True))
    assert set(machine.versions().values()) == {f"{B}-1"}


@pytest.mark.proof
def test_boards(machine: Machine) -> None:
    machine.offer()
    machine.apply(config(board="nvlink5"))
    lines = machine.container.run("cat /etc/modules-load.d/llmhw-nvidia.conf").stdout.splitlines()[1:]
    assert lines == ["mlx5_core", "mlx5_ib", "ib_umad", "nvidia", "nvidia_uvm"]
    enabled = "systemctl is-enabled nvidia-fabricmanager"
    assert machine.container.run(enabled).stdout.strip() == "enabled"
    plain = machine.apply(config(board="none"))
    assert "disable nvidia-fabricmanager: the board has no NVSwitch" in actions(plain)
    assert machine.container.run(enabled, check=False).stdout.strip() == "disabled"

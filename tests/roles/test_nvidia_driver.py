"""The role nvidia_driver in a Debian 12 container: real apt, dpkg and dkms, packages of a generated repository."""

from __future__ import annotations

import pytest

from tests.roles.driver_machine import NEXT, STATE, A, B, Machine, config
from tests.roles.gpu_packages import actions

pytestmark = pytest.mark.container


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

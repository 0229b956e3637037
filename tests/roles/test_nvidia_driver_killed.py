"""The role nvidia_driver takes up what was cut off half-way, and goes back to the driver that was there before."""

from __future__ import annotations

import json

import pytest

from tests.roles.driver_machine import A, B, Machine, config
from tests.roles.gpu_packages import actions

pytestmark = [pytest.mark.container, pytest.mark.proof]

# Every dpkg tells it what it does; in the sixth package it kills apt, dpkg and all that they have started.
CUT = r"""#!/bin/bash
group() { cut -d' ' -f5 "/proc/$(pgrep -o -x "$1")/stat"; }
while read -r line; do
    [[ $line == *half-installed* ]] || continue
    echo "$line" >> /root/seen
    [[ $(wc -l < /root/seen) -eq 6 ]] && rm /etc/dpkg/dpkg.cfg.d/cut && kill -9 -- -"$(group apt-get)" -"$(group dpkg)"
done
"""


def test_an_upgrade_killed_while_dpkg_unpacks_is_finished_by_the_next_run(machine: Machine) -> None:
    machine.offer()
    machine.apply(config(A))
    old = machine.versions()
    machine.container.run("cat > /root/cut && chmod +x /root/cut", given=CUT)
    machine.container.run("rm -f /root/seen; echo 'status-logger=/root/cut' > /etc/dpkg/dpkg.cfg.d/cut")
    cut = machine.apply(config(B), may_fail=True)
    assert cut.status != 0
    audit = machine.container.run("dpkg --audit", check=False).stdout
    assert "only half installed" in audit or "unpacked but not yet configured" in audit
    assert set(machine.versions().values()) == {f"{A}-1", f"{B}-1"}, "in the middle of the set"

    machine.apply(config(B))
    found = machine.versions()
    assert set(found.values()) == {f"{B}-1"}
    assert found.keys() - old.keys() == {f"nvidia-driver-pinning-{B}"}
    assert found.keys() | {"linux-headers-amd64"} <= machine.held()
    assert machine.container.run("dpkg --audit").stdout == ""
    assert machine.built() == B
    kept = machine.container.root / f"var/cache/llmhw/packages/nvidia-driver-{A}/manifest.json"
    assert {item["name"]: item["version"] for item in json.loads(kept.read_text())["packages"]} == old
    assert machine.apply(config(B)).changed == ()


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

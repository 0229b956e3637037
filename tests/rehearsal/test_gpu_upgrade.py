"""An AlphaPro660 changes its driver: the power goes inside dpkg, the next run finishes, and rollback needs no mirror.

One story on one machine; board, packages and tools are stand-ins (tests/rehearsal/gpu).
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.rehearsal.gpu.site import GpuSite, gpu_site
from tests.rehearsal.machine import Machine
from tests.rehearsal.site import product, run

pytestmark = [pytest.mark.vm, pytest.mark.proof]

PRODUCT = "AlphaPro660"
OLD, NEW = "580.126.09", "580.159.03"
# dpkg's own log: the libraries of the new set are being unpacked, the rest is still the old one
UNPACKING = "sudo tail -n 0 -F /var/log/dpkg.log"
SET = r"dpkg-query -W -f '${Package} ${Version}\n' | grep -E ' 580\.' | grep -v pinning | sort"


@dataclass(frozen=True)
class Seen:
    """What has to be of one version, and what is held."""

    module: str
    library: str
    fabric_manager: str
    held: tuple[str, ...]


def seen(machine: Machine) -> Seen:
    """What the machine says of itself: the kernel, the library, the fabric manager's own word, dpkg."""
    fabric = machine.run("nv-fabricmanager --version 2>&1 || true").stdout
    library = machine.run("nvidia-smi --query-gpu=driver_version --format=csv,noheader | sort -u").stdout
    return Seen(
        module=machine.run("cat /sys/module/nvidia/version").stdout.strip(),
        library=library.strip(),
        fabric_manager=fabric.split()[-1].rstrip(".") if fabric.split() else "",
        held=tuple(machine.run("apt-mark showhold").stdout.split()),
    )


@pytest.fixture(scope="module")
def site(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuSite]:
    with gpu_site(machine, tmp_path_factory.mktemp("gpu"), driver=OLD) as made:
        run("discover", made.folder, "--accept-host-keys")
        run("plan", made.folder)
        run("apply", made.folder, "--yes", "--allow-reboot")
        yield made


@pytest.fixture(scope="module")
def before(request: pytest.FixtureRequest, machine: Machine) -> Seen:
    """The machine with the old driver in force."""
    request.getfixturevalue("site")
    found = seen(machine)
    assert (found.module, found.library) == (OLD, OLD)
    return found


def test_power_goes_inside_dpkg_and_the_next_run_finishes(site: GpuSite, machine: Machine, before: Seen) -> None:
    site.ask_for(NEW)
    run("plan", site.folder)
    ssh = ["ssh", "-F", str(machine.ssh_config), machine.alias, UNPACKING]
    log = subprocess.Popen(ssh, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert log.stdout
    time.sleep(3)
    with log, subprocess.Popen(product("apply", site.folder, "--yes"), stdout=subprocess.PIPE) as running:
        for line in log.stdout:
            if f"status unpacked libnvidia-ml1:amd64 {NEW}" in line:
                machine.power_cut()
                break
        log.kill()
        assert running.wait(timeout=600) != 0, "the run came to its end before the power went"
    machine.start()
    versions = {line.split()[-1] for line in machine.run(SET).stdout.splitlines()}
    assert {f"{OLD}-1", f"{NEW}-1"} <= versions, "the power came too early or too late"
    run("verify", site.folder, "--level", "quick", expect=3)
    run("apply", site.folder, "--yes", "--allow-reboot")
    after = seen(machine)
    assert (after.module, after.library) == (NEW, NEW)
    assert after.fabric_manager == before.fabric_manager.replace(OLD, NEW)
    assert [name.replace(NEW, OLD) for name in after.held] == list(before.held)
    run("verify", site.folder, "--level", "quick")


def test_rollback_with_the_mirror_gone(site: GpuSite, machine: Machine, before: Seen) -> None:
    site.rebuild((NEW,))  # and nobody offers the old one any more
    run("rollback", site.folder, "--yes", "--allow-reboot")
    assert seen(machine) == before
    site.ask_for(OLD)
    run("plan", site.folder)
    run("verify", site.folder, "--level", "quick")

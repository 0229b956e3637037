"""The rehearsal machine keeps its promises: real boots, drives whose names move, nothing left behind."""

import subprocess
import sys
import time

import pytest

from tests.rehearsal import host, layout
from tests.rehearsal.errors import RehearsalError
from tests.rehearsal.leftovers import snapshot
from tests.rehearsal.machine import Machine
from tests.rehearsal.settings import REPO

pytestmark = pytest.mark.vm


def names(machine: Machine) -> dict[str, str]:
    """Kernel name by serial, as udev links it under /dev/disk/by-id."""
    found = {}
    for drive in layout.drives():
        link = f"/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_{drive.serial}"
        done = machine.run(f"readlink -f {link}; test -e {link}", check=False)
        if done.returncode == 0:
            found[drive.serial] = done.stdout.strip()
    return found


@pytest.fixture
def no_machine(rehearsal_possible: None) -> None:
    if host.domain_state():
        pytest.skip("a rehearsal machine exists; these tests need the host without one")


def test_failed_up_leaves_nothing(no_machine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    before, create = snapshot(), layout.create_images

    def create_and_break_one() -> None:
        create()
        broken = layout.drives()[4].image
        broken.unlink()
        broken.mkdir()  # QEMU refuses it, after Vagrant has made network, disk and domain

    monkeypatch.setattr(layout, "create_images", create_and_break_one)
    with pytest.raises(RehearsalError, match="vagrant up failed"):
        Machine().up()
    assert snapshot() == before


def starting(process: subprocess.Popen[bytes]) -> None:
    """Waits until ``process`` has a domain running, whose guest is far from ssh."""
    deadline = time.monotonic() + 90
    while host.domain_state() != "running":
        assert process.poll() is None
        assert time.monotonic() < deadline, "the domain did not start within 90 s"
        time.sleep(0.2)


def test_terminated_up_leaves_nothing(no_machine: None) -> None:
    before = snapshot()
    process = subprocess.Popen([sys.executable, "-m", "tests.rehearsal", "up"], cwd=REPO)
    starting(process)
    process.terminate()
    assert process.wait(timeout=60) == 143
    assert snapshot() == before


def test_clean_reaps_what_a_killed_run_left(no_machine: None) -> None:
    before = snapshot()
    process = subprocess.Popen([sys.executable, "-m", "tests.rehearsal", "up"], cwd=REPO)
    starting(process)
    process.kill()
    process.wait()
    assert snapshot() != before
    subprocess.run([sys.executable, "-m", "tests.rehearsal", "clean"], cwd=REPO, check=True)
    assert snapshot() == before


def test_boots_through_grub_and_its_own_initramfs(machine: Machine) -> None:
    assert "BOOT_IMAGE=/boot/vmlinuz-" in machine.run("cat /proc/cmdline").stdout
    assert machine.run("systemctl --failed --no-legend").stdout == ""
    assert machine.run("dpkg -l mdadm xfsprogs", check=False).returncode != 0


def test_roles_packages_need_no_network(machine: Machine) -> None:
    machine.run("sudo unshare -n apt-get install --no-install-recommends --download-only -y mdadm xfsprogs")


def test_a_second_machine_is_refused(machine: Machine) -> None:
    with pytest.raises(RehearsalError, match="exists already"):
        Machine().up()


def test_reboot_moves_the_names_and_keeps_the_serials(machine: Machine) -> None:
    before = names(machine)
    assert len(before) == 9
    machine.reboot()
    after = names(machine)
    assert set(after) == set(before)
    assert after != before


def test_pulled_drive_and_power_cut_leave_a_machine_that_boots(machine: Machine) -> None:
    hashes = machine.drive_hashes()
    machine.power_cut()
    machine.pull("LLMHW0003")
    machine.start()
    assert set(names(machine)) == set(hashes) - {"LLMHW0003"}
    machine.insert("LLMHW0003")
    assert machine.drive_hashes() == hashes

"""What the rehearsal machine promises to the tests on it: real boots, drives whose names move, power cuts."""

import pytest

from tests.rehearsal import layout
from tests.rehearsal.errors import RehearsalError
from tests.rehearsal.machine import Machine

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


def test_boots_through_grub_and_its_own_initramfs(machine: Machine) -> None:
    assert "BOOT_IMAGE=/boot/vmlinuz-" in machine.run("cat /proc/cmdline").stdout
    assert machine.run("systemctl --failed --no-legend").stdout == ""
    assert machine.run("dpkg -l mdadm xfsprogs", check=False).returncode != 0


def test_roles_packages_need_no_network(machine: Machine) -> None:
    machine.run("sudo unshare -n apt-get install --no-install-recommends --download-only -y mdadm xfsprogs")


def test_a_second_machine_is_refused_and_the_first_stays(machine: Machine) -> None:
    with pytest.raises(RehearsalError, match="exists already"), Machine() as second:
        second.up()
    assert machine.boot_id()


def test_reboot_moves_the_names_and_keeps_the_serials(machine: Machine) -> None:
    before = names(machine)
    assert len(before) == 9
    machine.reboot()
    after = names(machine)
    assert set(after) == set(before)
    assert after != before


def test_pulled_drive_and_power_cut_leave_a_machine_that_boots(machine: Machine) -> None:
    hashes, before = machine.drive_hashes(), layout.drives()
    machine.power_cut()
    machine.pull("LLMHW0003")
    machine.shuffle(1)
    machine.start()
    after = layout.drives()
    assert sorted(drive.slot for drive in after) == sorted(drive.slot for drive in before)
    assert [drive.slot for drive in after] != [drive.slot for drive in before]
    found = machine.run("grep . /sys/bus/pci/devices/0000:00:*/nvme/*/serial").stdout
    there = {f"0000:00:{drive.slot:02x}.0 {drive.serial}" for drive in after if drive.inserted}
    assert {f"{line.split('/')[5]} {line.split(':')[-1].strip()}" for line in found.splitlines()} == there
    assert set(names(machine)) == set(hashes) - {"LLMHW0003"}
    machine.insert("LLMHW0003")
    assert machine.drive_hashes() == hashes

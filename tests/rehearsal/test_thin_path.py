"""The whole path on a real kernel: plan, check, apply, apply, reboot with other names, verify, a drive that is gone.

The tests are one story and run in this order on one machine. The first five are what the rehearsal machine promises to
all tests on it: real boots, drives whose names move, power cuts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmhw_provision.content import content_root
from tests.rehearsal import foreign, layout
from tests.rehearsal.errors import RehearsalError
from tests.rehearsal.machine import Machine
from tests.rehearsal.site import HOST, close, run, write_site

pytestmark = pytest.mark.vm

# what apply may touch: everything that is configuration, and what is mounted or running from it
STATE = r"""
find /etc /usr/lib/systemd /boot /scratch /srv /mnt -xdev -printf "%p %m %u %s %l\n" 2>/dev/null | sort
find /etc -xdev -type f -exec sha256sum {} + 2>/dev/null | sort
dpkg-query -W; findmnt -rno TARGET,SOURCE,FSTYPE,OPTIONS | grep -v -e /run -e /proc -e /sys -e /dev
cat /proc/mdstat 2>/dev/null; lsattr -d /scratch /mnt/hot 2>/dev/null; ls /run/llmhw 2>/dev/null; true
"""
PULLED = "LLMHW0003"
FOREIGN = {
    "LLMHW0001": ("gpt", "has a partition table: gpt with 1 partition"),
    "LLMHW0002": ("LVM2_member", "holds an LVM2_member signature"),
    "LLMHW0004": ("crypto_LUKS", "holds a crypto_LUKS signature"),
    "LLMHW0005": ("swap", "holds a swap signature"),
    "LLMHW0008": ("linux_raid_member", "is a member of array theirs"),
}


@pytest.fixture(scope="module")
def site(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("thin") / "site"
    write_site(folder, address=machine.address, port=machine.port, user=machine.user, identity=machine.identity_file)
    yield folder
    close(folder)


def state(machine: Machine) -> set[str]:
    return set(machine.run(f"sudo sh -c '{STATE}'").stdout.splitlines())


def names(machine: Machine) -> dict[str, str]:
    """Kernel name of every NVMe drive by serial."""
    done = machine.run("lsblk -dno SERIAL,NAME | grep LLMHW")
    pairs = [line.split() for line in done.stdout.splitlines()]
    return {pair[0]: pair[1] for pair in pairs}


def links(machine: Machine) -> dict[str, str]:
    """Kernel name by serial, as udev links it under /dev/disk/by-id."""
    found = {}
    for drive in layout.drives():
        link = f"/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_{drive.serial}"
        done = machine.run(f"readlink -f {link}; test -e {link}", check=False)
        if done.returncode == 0:
            found[drive.serial] = done.stdout.strip()
    return found


def changed(result: dict[str, object]) -> set[tuple[str, str]]:
    return {(item["role"], item["task"]) for item in result["changes"]}  # type: ignore[attr-defined, index]


def apply(site: Path, *options: str) -> dict[str, object]:
    done: dict[str, object] = json.loads(run("apply", site, "--json", *options).stdout)
    return done


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
    before = links(machine)
    assert len(before) == 9
    machine.reboot()
    after = links(machine)
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
    assert set(links(machine)) == set(hashes) - {"LLMHW0003"}
    machine.halt()
    machine.insert("LLMHW0003")
    assert machine.drive_hashes() == hashes
    machine.start()
    assert set(links(machine)) == set(hashes)


def test_discover_sees_eight_empty_drives_and_the_customers(site: Path) -> None:
    run("discover", site, "--accept-host-keys")
    observed = json.loads((site / f"observed/{HOST}.json").read_text())
    drives = {disk["serial"]: disk for disk in observed["disks"] if disk["transport"] == "nvme"}
    assert len(drives) == 9
    assert [item["type"] for item in drives["LLMHWKEEP1"]["contents"]] == ["ext4"]
    assert all(not disk["contents"] for serial, disk in drives.items() if serial != "LLMHWKEEP1")
    assert [disk["system"] for disk in observed["disks"] if disk["transport"] != "nvme"] == [True]


def test_plan_uses_the_empty_drives_and_keeps_the_customers(site: Path) -> None:
    text = run("plan", site).stdout
    assert "raid0 array /dev/md/scratch over 8 disks" in text
    assert "LLMHWKEEP1: holds ext4 filesystem 'customer'" in text
    assert "one dead drive of 8 loses everything on /scratch" in text
    assert run("plan", site, "--diff").stdout == "no difference\n"


def test_apply_refuses_what_has_come_onto_the_drives_since(site: Path, machine: Machine) -> None:
    foreign.unpack(machine)
    foreign.sign(machine, {serial: kind for serial, (kind, _) in FOREIGN.items()})
    drives, before = machine.drive_hashes(), state(machine)
    refused = run("apply", site, "--yes", expect=3)
    for serial, (_, text) in FOREIGN.items():
        assert f"disk nvme-QEMU_NVMe_Ctrl_{serial} {text}" in refused.stderr
    assert machine.drive_hashes() == drives
    assert state(machine) ^ before == set()
    foreign.clear(machine, *FOREIGN)
    foreign.remove(machine)


def test_check_alters_nothing_and_lists_what_apply_changes(site: Path, machine: Machine) -> None:
    drives, before = machine.drive_hashes(), state(machine)
    listed = apply(site, "--check", "--diff")
    assert state(machine) ^ before == set()
    assert machine.drive_hashes() == drives
    done = apply(site, "--yes")
    assert changed(done) == changed(listed)
    assert len(changed(done)) > 3


def test_second_apply_and_second_check_change_nothing(site: Path) -> None:
    assert changed(apply(site, "--yes")) == set()
    assert changed(apply(site, "--check")) == set()


def test_plain_ansible_playbook_takes_the_inventory_as_it_is(site: Path) -> None:
    content = content_root()
    done = subprocess.run(
        [
            Path(sys.executable).with_name("ansible-playbook"),
            "-i",
            "inventory/hosts.yml",
            content / "playbooks/site.yml",
        ],
        cwd=site,
        env={**os.environ, "ANSIBLE_ROLES_PATH": str(content / "roles"), "ANSIBLE_HOME": str(site / ".ansible")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "changed=0" in done.stdout


def test_reboot_shuffles_names_and_keeps_array_mount_and_data(site: Path, machine: Machine) -> None:
    machine.run("head -c 20000000 /dev/urandom > /scratch/data; sync")
    tell = "sha256sum < /scratch/data; findmnt -rno TARGET,FSTYPE,OPTIONS /scratch; "
    tell += "sudo mdadm --detail --export /dev/md/scratch"
    before, old = machine.run(tell).stdout, names(machine)
    result = apply(site, "--yes", "--allow-reboot")
    assert (result["state"], changed(result)) == ("done", {("", "Restart the machine")})
    assert names(machine) != old, "the machine was not rebooted, or the names did not change"
    after = machine.run(tell).stdout

    def lasting(text: str) -> list[str]:
        return [line for line in text.splitlines() if "_DEV=" not in line and "_ROLE=" not in line]

    assert lasting(after) == lasting(before)


def test_verify_passes_and_never_reads_accepted(site: Path) -> None:
    done = run("verify", site, "--level", "quick", "--json")
    report = json.loads(done.stdout)
    assert report["verdict"] == "REHEARSAL PASSED"
    for name in ("report.html", "report.zh.html", "report.json", "junit.xml"):
        text = (max((site / "runs").glob("*-verify")) / name).read_text(encoding="utf-8")
        assert "ACCEPTED" not in text
        assert "REHEARSAL" in text


def test_pulled_drive_leaves_a_machine_that_boots_and_is_named(site: Path, machine: Machine) -> None:
    machine.halt()
    machine.pull(PULLED)
    machine.start()
    assert machine.run("findmnt /scratch", check=False).returncode == 1
    assert machine.run("sudo touch /scratch/x", check=False).returncode != 0
    assert machine.run("sudo find /scratch -mindepth 1").stdout == ""
    done = run("verify", site, "--level", "quick", expect=3)
    assert PULLED in done.stdout + done.stderr
    text = (max((site / "runs").glob("*-verify")) / "report.html").read_text(encoding="utf-8")
    assert PULLED in text
    refused = run("apply", site, "--yes", expect=3)
    assert PULLED in refused.stderr
    machine.halt()
    machine.insert(PULLED)
    machine.start()
    run("verify", site, "--level", "quick")
    assert machine.run("stat -c %s /scratch/data").stdout.strip() == "20000000"

"""An AlphaPro660's board on a real kernel: what the kernel, udev and the product see, and the stand-in driver on it.

The tests are one story and run in this order on one machine.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from llmhw_provision.probes import lspci, pci
from tests.rehearsal.machine import Machine

pytestmark = [pytest.mark.vm, pytest.mark.proof]

PRODUCT = "AlphaPro660"
VERSION = "580.159.03"
MODULE = Path(__file__).parent / "gpu/module"
GPUS = [f"0001:{bus}:00.0" for bus in ("1b", "43", "52", "61", "9d", "c3", "d1", "df")]
SWITCHES = [f"0001:{bus}:00.0" for bus in ("05", "06", "07", "08")]


@pytest.fixture(scope="module")
def source(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The stand-in driver, built on the machine with its own compiler and headers."""
    folder = tmp_path_factory.mktemp("module") / "nvidia"
    folder.mkdir()
    for path in MODULE.iterdir():
        (folder / path.name).write_text(path.read_text(encoding="utf-8").replace("@VERSION@", VERSION), "utf-8")
    copy = ["scp", "-F", str(machine.ssh_config), "-r", str(folder), f"{machine.alias}:/tmp/nvidia"]
    subprocess.run(copy, check=True, capture_output=True)
    machine.run("make -C /tmp/nvidia modules", timeout=900)
    return "/tmp/nvidia"


def test_the_kernel_sees_the_board(machine: Machine) -> None:
    functions = pci.parse_devices(machine.run(pci.DEVICES.line()).stdout.encode())
    nvidia = {one.address: f"10de:{one.device_id}" for one in functions if one.vendor_id == "10de"}
    assert nvidia == dict.fromkeys(GPUS, "10de:2330") | dict.fromkeys(SWITCHES, "10de:22a3")
    assert {one.numa_node for one in functions if one.vendor_id == "10de"} == {0}


def test_lspci_sees_links_and_memory_as_on_the_real_board(machine: Machine) -> None:
    machine.run("sudo apt-get install -y pciutils")
    functions = {one.address: one for one in lspci.parse(machine.run("sudo lspci -vvv").stdout.encode())}
    for address in GPUS:
        assert (functions[address].speed, functions[address].width) == ("32GT/s", "x16")
        assert functions[address].bars == ["16M", "128G", "32M"]
    assert lspci.judge(tuple(functions.values())) == ("pass", {})
    assert [one.address for one in functions.values() if one.nvswitch] == SWITCHES


def test_nouveau_loads_by_itself_and_holds_nothing(machine: Machine) -> None:
    machine.run("sudo udevadm settle")
    assert machine.run("grep -c ^nouveau /proc/modules").stdout.strip() == "1"
    assert machine.run("ls /sys/bus/pci/drivers/nouveau | grep -c ^0001", check=False).stdout.strip() == "0"


def test_the_driver_takes_gpus_and_switches(machine: Machine, source: str) -> None:
    machine.run(f"sudo insmod {source}/nvidia.ko NVreg_RestrictProfilingToAdminUsers=0")
    version = machine.run("cat /proc/driver/nvidia/version").stdout
    assert f"NVIDIA UNIX Open Kernel Module for x86_64  {VERSION}  Release Build" in version
    assert machine.run("cat /sys/module/nvidia/version").stdout.strip() == VERSION
    assert "RestrictProfilingToAdminUsers: 0" in machine.run("cat /proc/driver/nvidia/params").stdout
    assert machine.run("ls /proc/driver/nvidia/gpus").stdout.split() == GPUS
    assert machine.run("ls /proc/driver/nvidia-nvswitch/devices").stdout.split() == SWITCHES


def test_a_lost_gpu_says_so_and_is_missing_after_the_next_load(machine: Machine, source: str) -> None:
    machine.run("echo 4 | sudo tee /sys/module/llmhw_rehearsal_pci/parameters/lost")
    lost = GPUS[2]
    machine.run(f"cat /proc/driver/nvidia/gpus/{lost}/information")
    assert "Xid (PCI:0001:52:00): 79" in machine.run("sudo dmesg").stdout
    machine.run(f"sudo rmmod nvidia && sudo insmod {source}/nvidia.ko")
    assert machine.run("ls /proc/driver/nvidia/gpus").stdout.split() == [gpu for gpu in GPUS if gpu != lost]
    assert "fallen off the bus and is not responding to commands" in machine.run("sudo dmesg").stdout
    machine.run("echo 0 | sudo tee /sys/module/llmhw_rehearsal_pci/parameters/lost")


def test_devices_can_come_late(machine: Machine, source: str) -> None:
    machine.run(f"sudo rmmod nvidia && sudo insmod {source}/nvidia.ko rehearsal_delay_ms=4000")
    assert machine.run("ls /proc/driver/nvidia/gpus").stdout == ""
    machine.run("sleep 6")
    assert machine.run("ls /proc/driver/nvidia/gpus").stdout.split() == GPUS
    assert "195 nvidia\n" in machine.run("cat /proc/devices").stdout


def test_the_board_is_there_again_after_a_reboot(machine: Machine) -> None:
    machine.reboot()
    machine.run("sudo udevadm settle")
    assert len(machine.run("grep -l 0x10de /sys/bus/pci/devices/*/vendor").stdout.split()) == len(GPUS + SWITCHES)

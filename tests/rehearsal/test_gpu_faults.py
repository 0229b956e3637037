"""A provisioned AlphaPro660 is broken by hand, without our roles: each fault is named by the check that belongs to it.

One story on one machine; board, packages and tools are stand-ins (tests/rehearsal/gpu).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.rehearsal.gpu.site import GpuSite, gpu_site
from tests.rehearsal.machine import Machine
from tests.rehearsal.site import run

pytestmark = [pytest.mark.vm, pytest.mark.proof]

PRODUCT = "AlphaPro660"
OLD, NEW = "580.126.09", "580.159.03"
INSTALL = "sudo DEBIAN_FRONTEND=noninteractive apt-get install -y --allow-downgrades --allow-change-held-packages"


@pytest.fixture(scope="module")
def site(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuSite]:
    with gpu_site(machine, tmp_path_factory.mktemp("gpu"), driver=NEW) as made:
        run("discover", made.folder, "--accept-host-keys")
        run("plan", made.folder)
        run("apply", made.folder, "--yes", "--allow-reboot")
        run("verify", made.folder, "--level", "quick")
        yield made


def failed(site: GpuSite) -> dict[str, str]:
    """The checks of a quick verify that did not pass, with what they found."""
    report = json.loads(run("verify", site.folder, "--level", "quick", "--json", expect=3).stdout)
    wrong = ("fail", "could-not-run")
    return {item["check"]: f"{item['found']} {item['cause']}" for item in report["findings"] if item["status"] in wrong}


def test_fabric_manager_of_another_release(site: GpuSite, machine: Machine) -> None:
    """NVIDIA/gpu-driver-container#735."""
    machine.run(f"sudo rm /etc/apt/preferences.d/*nvidia*; {INSTALL} nvidia-fabricmanager={OLD}-1")
    machine.run("sudo systemctl restart nvidia-fabricmanager", check=False)
    found = failed(site)
    assert OLD in found["gpu-one-version"]
    assert f"nvidia-fabricmanager: {OLD}" in found["gpu-version"]
    assert "gpu-fabric" in found
    run("apply", site.folder, "--yes")
    run("verify", site.folder, "--level", "quick")


def test_half_of_the_libraries_of_another_release(site: GpuSite, machine: Machine) -> None:
    """illinois-scicomp/machine-shop-maintenance#70: a reboot does not help, the next apply does."""
    half = "libcuda1 libnvidia-ml1"
    names = " ".join(f"{name}={OLD}-1" for name in half.split())
    machine.run(f"mkdir -p /tmp/half && cd /tmp/half && rm -f *.deb && apt-get download {names}")
    machine.run("sudo dpkg --force-all --install /tmp/half/*.deb", timeout=900)
    said = machine.run("nvidia-smi 2>&1", check=False).stdout
    assert "Driver/library version mismatch" in said
    found = failed(site)
    assert OLD in found["gpu-one-version"]
    assert "mismatch" in found["gpu-answers"]
    run("apply", site.folder, "--yes")
    run("verify", site.folder, "--level", "quick")


def test_nouveau_left_in_the_initramfs(site: GpuSite, machine: Machine) -> None:
    """beclab/Olares#2180: the file is there, the initramfs was made without it."""
    machine.run(
        "sudo sh -c 'mv /etc/modprobe.d/llmhw-nvidia.conf /root/ && update-initramfs -u -k all"
        " && mv /root/llmhw-nvidia.conf /etc/modprobe.d/'",
        timeout=900,
    )
    assert "nouveau" in failed(site)["gpu-image"]
    run("apply", site.folder, "--yes", "--allow-reboot")
    run("verify", site.folder, "--level", "quick")


def test_a_gpu_falls_off_the_bus(site: GpuSite, machine: Machine) -> None:
    machine.run("echo 4 | sudo tee /sys/module/llmhw_rehearsal_pci/parameters/lost")
    machine.run("nvidia-smi", check=False)
    found = failed(site)
    assert any("79" in text or "bus" in text for text in found.values()), found
    machine.run("echo 0 | sudo tee /sys/module/llmhw_rehearsal_pci/parameters/lost")
    machine.reboot()
    run("verify", site.folder, "--level", "quick")


def test_devices_that_come_late_find_the_persistence_daemon(site: GpuSite, machine: Machine) -> None:
    """ublue-os/ucore#419: the daemon's condition is looked at before the devices are there."""
    late = "/etc/modprobe.d/late.conf"
    machine.run(
        f"echo 'options nvidia rehearsal_delay_ms=8000' | sudo tee {late} && sudo update-initramfs -u", timeout=900
    )
    machine.reboot()
    assert machine.run("systemctl is-active nvidia-persistenced").stdout == "active\n"
    machine.run(
        "sudo mkdir /root/kept && sudo sh -c 'mv /etc/systemd/system/nvidia-persistenced.service.d /root/kept/'"
    )
    machine.run("sudo systemctl daemon-reload")
    machine.reboot()
    assert "gpu-persistenced" in failed(site)
    machine.run(f"sudo rm {late}; sudo update-initramfs -u", timeout=900)
    run("apply", site.folder, "--yes", "--allow-reboot")
    run("verify", site.folder, "--level", "quick")

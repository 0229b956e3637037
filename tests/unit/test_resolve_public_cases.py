"""Reported failures of version sets, each with its cause seeded and the line that we print, or the plan instead."""

from __future__ import annotations

import pytest

from llmhw_provision.machine import Gpus, PciDevice
from llmhw_provision.plan.request import request_of
from llmhw_provision.site import SoftwareChoices
from tests.unit.machines import machine
from tests.unit.stacks import DAY, choice, packages, refusals, stack

DEBIAN12 = "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64"
NIC = ("15b3:1021",)


def test_gpu_driver_container_735_fabric_manager_of_another_branch() -> None:
    """A glob on the unsuffixed package took 590 beside driver 580: the version is the driver's, to the last digit."""
    found = stack("h200-sxm", software={"driver": "580.126.09"})
    assert packages(found, "fabric manager") == ["nvidia-fabricmanager=580.126.09", "libnvidia-nscq=580.126.09"]
    assert found.fabric_manager == found.driver.version if found.driver else False


def test_gpu_operator_610_no_nvswitch_no_fabric_manager() -> None:
    """NV_WARN_NOTHING_TO_DO: bridges and PCIe cards have NVLink, but no NVSwitch."""
    found = stack("h100-pcie")
    assert choice(found, "fabric manager").choice == "none"
    assert found.fabric_manager is None


@pytest.mark.parametrize(("switches", "wanted"), [(0, False), (4, True)])
def test_gpu_operator_610_a_board_is_judged_by_what_it_holds(switches: int, wanted: bool) -> None:
    """Four-GPU SXM boards have no NVSwitch either."""
    bridges = tuple(
        PciDevice(address=f"0000:0{index}:00.0", class_id="0680", vendor_id="10de", device_id="22a3")
        for index in range(switches)
    )
    board = machine().model_copy(update={"gpus": (Gpus(kind="h100-sxm", count=4),), "pci": bridges})
    asked = request_of("a", board, job="sft", choices=SoftwareChoices(), raid0=False, day=DAY)
    assert asked.nvswitch is wanted


def test_siderolabs_extensions_717_and_canvos_700_nvlink_5_needs_nvlsm_and_ib_umad() -> None:
    found = stack("b200-sxm")
    made = choice(found, "nvlink 5 switches")
    assert [str(item) for item in made.packages] == ["nvlsm", "infiniband-diags", "libnvsdm=580.159.03"]
    assert made.modules_load == ("mlx5_core", "mlx5_ib", "ib_umad")
    assert "nvlink 5 switches" not in {item.topic for item in stack("h100-sxm").choices}
    assert any(text.startswith("nvlsm: no exact version is recorded") for text in found.warnings)


def test_xnvme_aisio_67_ubuntu_stub_installs_another_branch() -> None:
    chosen = {"driver": "570", "sources": {"driver": "distribution"}, "eol_ok": True}
    line = "driver 570: Ubuntu's packages of it are stubs that install 580"
    assert line in refusals("h100-pcie", software=chosen)


NAMES = {
    ("580", "ubuntu2204"): ("nvidia-open-580=580.11.22", "nvidia-driver-pinning-580.11.22", ""),
    ("595", "ubuntu2204"): ("nvidia-open=595.11.22", "nvidia-driver-pinning-595.11.22", ""),
    ("620", "ubuntu2204"): ("nvidia-open=620.11.22", "nvidia-driver-pinning-620.11.22", ""),
    ("580", "ubuntu2404"): ("nvidia-open-580=580.11.22", "nvidia-driver-pinning-580.11.22", ""),
    ("595", "ubuntu2404"): ("nvidia-open=595.11.22", "nvidia-driver-pinning-595.11.22", ""),
    ("620", "ubuntu2404"): ("nvidia-open=620.11.22", "nvidia-driver-pinning-620.11.22", ""),
    ("580", "debian12"): ("nvidia-open=580.11.22", "nvidia-driver-pinning-580.11.22", ""),
    ("595", "debian12"): ("nvidia-open=595.11.22", "nvidia-driver-pinning-595.11.22", ""),
    ("620", "debian12"): ("nvidia-open=620.11.22", "nvidia-driver-pinning-620.11.22", ""),
    ("580", "debian13"): ("nvidia-open=580.11.22", "nvidia-driver-pinning-580.11.22", ""),
    ("620", "debian13"): ("nvidia-open=620.11.22", "nvidia-driver-pinning-620.11.22", ""),
    ("580", "el9"): ("nvidia-open=580.11.22", "dnf versionlock", "nvidia-driver:580-open"),
    ("595", "el9"): ("nvidia-open=595.11.22", "dnf versionlock", "nvidia-driver:595-open"),
    ("620", "el9"): ("nvidia-open=620.11.22", "dnf versionlock", "nvidia-driver:620-open"),
    ("580", "el10"): ("nvidia-open=580.11.22", "dnf versionlock", ""),
    ("620", "el10"): ("nvidia-open=620.11.22", "dnf versionlock", ""),
}


@pytest.mark.parametrize(("branch", "distro"), NAMES)
def test_ansible_role_nvidia_driver_89_names_are_cut_at_590(branch: str, distro: str) -> None:
    made = choice(stack("h100-pcie", distro, software={"driver": f"{branch}.11.22"}), "driver")
    assert (str(made.packages[0]), made.lock, made.stream) == NAMES[branch, distro]
    assert len(made.packages) == 1


@pytest.mark.parametrize("origin", ["vendor", "distribution"])
def test_ansible_role_nvidia_driver_11_one_source_for_the_names_of_the_driver(origin: str) -> None:
    """ "held broken packages": archive and CUDA repository offer the same names."""
    made = choice(stack("h100-pcie", software={"sources": {"driver": origin}}), "driver")
    assert {"cuda-drivers*", "nvidia-driver*", "nvidia-fabricmanager*"} <= set(made.excludes)


def test_slurm_appliance_685_and_open_kernel_modules_805_el9_prerequisites() -> None:
    needs = choice(stack("h100-pcie", "el9"), "driver").needs
    assert {"dkms>=3.1.8", "gcc-c++"} <= set(needs)
    assert "g++" in choice(stack("h100-pcie"), "driver").needs


def test_nvidia_ubuntu_driver_guide_10_blackwell_runs_only_on_open_modules() -> None:
    line = (
        "modules closed: NVIDIA GeForce RTX 5090 (compute capability 12.0) runs only on the open kernel modules"
        " (getsolus/packages#5575"
    )
    assert line in refusals("rtx-5090", software={"modules": "closed"})


def test_cuda_repo_management_39_debian12_repository_on_debian_13() -> None:
    text = refusals("h100-pcie", "debian13", software={"sources": {"driver": DEBIAN12, "cuda": DEBIAN12}})
    assert text.startswith(
        "node-01: cuda repository debian12 on Debian 13: repositories of another distribution are not used; "
        "it is signed by 3bf863cc, which Debian 13 refuses (NVIDIA/cuda-repo-management#39"
    )
    assert text.endswith("use the one of debian13")
    assert len(text.splitlines()) == 1
    found = stack("h100-pcie", "debian13")
    assert (found.repositories[0].url.split("/")[-3], found.repositories[0].key) == ("debian13", "8793F200")


def test_nv_peer_memory_116_peermem_only_with_doca() -> None:
    chosen = {"modules": "closed"}
    inbox = stack("h100-pcie", adapters=NIC, software=chosen)
    assert not any(item.choice == "nvidia-peermem" for item in inbox.choices)
    assert any("nvidia-peermem needs DOCA-OFED" in text for text in inbox.warnings)


def test_azhpc_install_doca_el_excludes_what_doca_owns() -> None:
    made = choice(stack("h100-pcie", "el9", adapters=NIC, software={"sources": {"rdma": "vendor"}}), "rdma")
    assert {"rdma-core", "libibverbs", "librdmacm", "perftest"} <= set(made.excludes)
    assert choice(stack("h100-pcie", "el9", adapters=NIC), "rdma").excludes == ()
    deb = choice(stack("h100-pcie", adapters=NIC, software={"sources": {"rdma": "vendor"}}), "rdma")
    assert deb.leaves == ("dkms",)


def test_deepops_1214_gres_detection_by_what_slurm_was_built_with() -> None:
    """22.05 refuses AutoDetect=nvidia, 24.11 brings it; nvml is never asked of a distribution's build."""
    assert stack("h100-sxm", "debian12", software={"slurm": True}).gres == "Name=gpu File=/dev/nvidia[0-7]"
    assert stack("h100-pcie", "ubuntu2404", software={"slurm": True}).gres == "Name=gpu File=/dev/nvidia0"
    assert stack("h100-sxm", "debian13", software={"slurm": True}).gres == "AutoDetect=nvidia"


def test_bookworm_nvml_plugin_is_never_listed() -> None:
    """Measured: slurm-wlm-nvml-plugin depends on a basic-plugins version that the security update replaced."""
    found = stack("h100-sxm", "debian12", software={"slurm": True})
    assert "slurm-wlm-nvml-plugin" not in " ".join(packages(found))
    assert "never slurm-wlm-nvml-plugin" in choice(found, "slurm").rule


def test_slurm_for_dummies_12_jammy_is_cgroup_v1_only() -> None:
    line = "slurm 21.08 of Ubuntu 22.04: cgroup v1 only, the host runs cgroup v2 (SergioMEV/slurm-for-dummies#12"
    assert line in refusals("h100-pcie", "ubuntu2204", software={"slurm": True})


def test_dcgm_exporter_456_profiling_needs_the_proprietary_packages() -> None:
    names = [item.split("=")[0] for item in packages(stack(), "dcgm")]
    assert "datacenter-gpu-manager-4-proprietary-cuda13" in names
    assert "datacenter-gpu-manager-4-cuda13" in names
    assert len({item.split("=")[1] for item in packages(stack(), "dcgm")}) == 1


def test_dynamo_13943_image_of_a_newer_driver() -> None:
    line = "image tritonserver:26.07: built for driver 610.43.02, the host has 580.159.03: minor-version compatibility"
    chosen = {"images": ["tritonserver:26.07"]}
    assert any(text.startswith(line) for text in stack(software=chosen).warnings)
    newer = stack(software={**chosen, "driver": "620.55.01"})
    assert not any("tritonserver" in text for text in newer.warnings)


def test_gds_p2pdma_on_raid0() -> None:
    line = "gds p2pdma: NVIDIA does not support it on RAID0 over NVMe, and scratch is an md RAID0"
    assert line in refusals("h100-pcie", software={"gds": "p2pdma"}, raid0=True)
    assert choice(stack("h100-pcie", software={"gds": "p2pdma"}), "gds").choice == "P2PDMA"

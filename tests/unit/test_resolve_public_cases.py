"""Reported failures of version sets, each with its cause seeded and the line that we print, or what is planned instead.

The resolver cases run the real `uv pip compile` over wheels with the metadata of the report.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from llmhw_provision.machine import Gpus, PciDevice
from llmhw_provision.plan.request import request_of
from llmhw_provision.plan.resolve_python import lock_problems
from llmhw_provision.site import SoftwareChoices
from tests.unit.machines import machine
from tests.unit.stacks import DAY, choice, packages, refusals, stack
from tests.unit.wheels import compile_lock, wheel

DEBIAN12 = "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64"
NIC = ("15b3:1021",)
LOCKS = Path(__file__).resolve().parents[2] / "locks"


def environment(*names: str) -> dict[str, object]:
    return {"environments": [{"name": "lab", "packages": list(names)}]}


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


def test_deepspeed_2772_and_vllm_49497_toolkit_of_torchs_cuda() -> None:
    """CUDA_HOME does not exist, nvcc not found: the toolkit is that of the wheels, by its minor."""
    found = stack(job="pretrain")
    assert packages(found, "cuda toolkit") == ["cuda-toolkit-13-0"]
    assert {item.cuda for item in found.environments} == {found.cuda}


def test_deepspeed_7616_and_flash_attention_1421_built_after_torch() -> None:
    made = choice(stack(), "environment")
    assert "deepspeed, flash-attn built after torch, --no-build-isolation" in made.rule


def test_vllm_44335_two_cuda_majors_in_one_lock(tmp_path: Path) -> None:
    """torch for cu129 beside vLLM for cu13: resolves, and libcudart.so.13 is missing."""
    wheel(tmp_path, "torch", "2.14.0+cu129", "nvidia-cublas-cu12")
    wheel(tmp_path, "nvidia-cublas-cu12", "12.9.1")
    wheel(tmp_path, "nvidia-cuda-runtime-cu13", "13.0.96")
    wheel(tmp_path, "vllm", "0.33.0", "torch==2.14.0", "nvidia-cuda-runtime-cu13")
    for name, version in (("transformers", "5.20.2"), ("flashinfer-python", "0.7.2.post1"), ("numpy", "2.3.5")):
        wheel(tmp_path, name, version)
    code, lock = compile_lock(tmp_path, *stack(job="serve").environments[0].requirements)
    assert code == 0, lock
    assert [problem.message for problem in lock_problems(lock, "serve")] == ["lock serve: brings cu12 and cu13"]
    assert lock_problems(lock.replace("+cu129", "").replace("nvidia-cublas-cu12==12.9.1", ""), "serve") == ()


def test_funasr_2973_cu13_wheels_on_driver_570() -> None:
    text = refusals("h100-pcie", job="serve", software={"driver": "570", "cuda": "12.8", "eol_ok": True})
    line = "environment serve (CUDA 13.0 wheels) needs driver 580 or newer; 570.211.01 is chosen"
    assert line in text


def test_llamafactory_10665_vllm_and_llamafactory_cannot_share(tmp_path: Path) -> None:
    wheel(tmp_path, "vllm", "0.33.0", "starlette>=1.0.1")
    wheel(tmp_path, "llamafactory", "0.9.5", "gradio<=5.50.0")
    wheel(tmp_path, "gradio", "5.50.0", "starlette<1.0")
    wheel(tmp_path, "starlette", "0.52.0")
    wheel(tmp_path, "starlette", "1.0.1")
    code, text = compile_lock(tmp_path, "vllm==0.33.0", "llamafactory==0.9.5", "gradio==5.50.0")
    assert code != 0
    assert "starlette" in text
    line = (
        "environment lab: vllm and llamafactory cannot share one: transformers: vllm 0.33 needs >=5.16.1,<5.21; "
        "llamafactory 0.9.5 needs <=5.6.0; starlette: vllm 0.33 needs >=1.0.1"
    )
    text = refusals("h100-pcie", software=environment("vllm", "llamafactory"))
    assert line in text
    assert "write an environment for each" in text


def test_open_vllm_resolves_silently_to_0_1_2(tmp_path: Path) -> None:
    """Measured: `vllm llamafactory==0.9.5` takes vllm 0.1.2 with exit 0. Exact pins fail, and the lock is read back."""
    wheel(tmp_path, "vllm", "0.33.0", "transformers>=5.16.1")
    wheel(tmp_path, "vllm", "0.1.2", "transformers")
    wheel(tmp_path, "llamafactory", "0.9.5", "transformers<=5.6.0")
    wheel(tmp_path, "transformers", "5.6.0")
    wheel(tmp_path, "transformers", "5.20.2")
    code, lock = compile_lock(tmp_path, "vllm", "llamafactory==0.9.5")
    assert (code, "vllm==0.1.2" in lock) == (0, True)
    messages = [problem.message for problem in lock_problems(lock, "serve")]
    assert "lock serve: vllm is 0.1.2; 0.33.0 is recorded" in messages
    assert "lock serve: torch is missing; 2.14.0 is recorded" in messages
    pinned = next(item for item in stack(job="serve").environments[0].requirements if item.startswith("vllm"))
    code, text = compile_lock(tmp_path, pinned, "llamafactory==0.9.5")
    assert (pinned, code != 0) == ("vllm==0.33.0", True), text


def test_flash_attention_2593_no_kernels_for_sm_120() -> None:
    line = (
        "environment lab: flash-attn-3 has no kernels for NVIDIA GeForce RTX 5090 (compute capability 12.0) "
        "(getsolus/packages#5575; Dao-AILab/flash-attention#2593"
    )
    text = refusals("rtx-5090", software=environment("torch", "flash-attn-3"))
    assert line in text
    assert "use FlashInfer or PyTorch's own attention (SDPA)" in text
    assert "use FlashAttention-4" in refusals("b200-sxm", software=environment("torch", "flash-attn-3"))


@pytest.mark.parametrize("gpu", ["h100-pcie", "h200-sxm", "h20"])
def test_abot_world_13_flash_attention_3_by_compute_capability(gpu: str) -> None:
    """A test for the name "h100" missed H200."""
    found = stack(gpu, software=environment("torch", "flash-attn-3"))
    assert any(text.startswith("flash-attn-3: it is not on PyPI") for text in found.warnings)


def test_tensorrt_llm_1423_only_as_a_container(tmp_path: Path) -> None:
    code, text = compile_lock(tmp_path, "tensorrt-llm==1.2.1")
    assert (code != 0, "tensorrt-llm" in text) == (True, True)
    line = "environment lab: tensorrt-llm is offered as a container only: PyPI holds placeholder sdists"
    assert line in refusals("h100-pcie", software=environment("tensorrt-llm"))
    assert "text-generation-inference is offered as a container only" in refusals(
        "h100-pcie", software=environment("text-generation-inference")
    )


@pytest.mark.parametrize("name", ["train-lf", "train-hf", "train-lf-cpu", "train-hf-cpu"])
def test_tensorboard_7107_newer_than_setuptools_82(name: str, tmp_path: Path) -> None:
    """setuptools 82 has no pkg_resources, which tensorboard 2.20 imports: resolves, and does not start."""
    wheel(tmp_path, "tensorboard", "2.20.0", "setuptools>=41")
    wheel(tmp_path, "setuptools", "84.2.1")
    code, lock = compile_lock(tmp_path, "tensorboard<2.21")
    assert (code, "setuptools==84.2.1" in lock) == (0, True)
    line = f"lock {name}: tensorboard is 2.20.0; 2.21.0 is recorded"
    assert line in [problem.message for problem in lock_problems(lock, name)]
    committed = (LOCKS / f"{name}.txt").read_text(encoding="utf-8")
    assert "\nsetuptools==84" in committed
    assert "\ntensorboard==2.21.0" in committed


@pytest.mark.parametrize("name", ["train-lf", "train-hf", "serve"])
def test_vllm_44335_funasr_2973_committed_locks_bring_one_cuda_major_that_the_default_driver_runs(name: str) -> None:
    committed = (LOCKS / f"{name}.txt").read_text(encoding="utf-8")
    assert lock_problems(committed, name) == ()
    assert "nvidia-nccl-cu13==2.30.7" in committed
    assert "cu129" not in committed
    downgraded = committed.replace("nvidia-nccl-cu13==2.30.7", "nvidia-nccl-cu12==2.27.3")
    assert f"lock {name}: brings cu12 and cu13" in [problem.message for problem in lock_problems(downgraded, name)]


def test_llamafactory_10665_committed_locks_keep_the_two_apart() -> None:
    training, serving = ((LOCKS / f"{name}.txt").read_text(encoding="utf-8") for name in ("train-lf", "serve"))
    assert "\nvllm==" not in training
    assert "\nllamafactory==" not in serving
    assert re.search(r"^starlette==0\.", training, re.MULTILINE)
    assert re.search(r"^starlette==1\.", serving, re.MULTILINE)


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

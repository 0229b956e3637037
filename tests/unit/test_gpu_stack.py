"""Package sources, CUDA and NCCL out of a host's stack; the site's mirrors and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llmhw_provision.documents import check
from llmhw_provision.errors import InputError
from llmhw_provision.plan.base import require_files
from llmhw_provision.plan.cluster_model import HostNode, Rail
from llmhw_provision.plan.contradictions import require_consistent
from llmhw_provision.plan.gpu_stack import GpuPlan, plan_gpu, software_files, with_rails
from llmhw_provision.plan.model import RoleConfigs
from llmhw_provision.plan.roles_gpu import CudaConfig, NcclConfig, VendorSource
from llmhw_provision.site import Site
from tests.unit import role_modules  # noqa: F401 - makes the imports below possible
from tests.unit.stacks import refusals, stack

from ansible.module_utils.cuda import render as cuda_render  # isort: skip
from ansible.module_utils.nccl import render as nccl_render  # isort: skip

VENDOR = "https://developer.download.nvidia.com/compute/cuda/repos/"
MIRROR = "https://mirror.example.org/cuda/debian12"
NEITHER = f"sources.driver is distribution, sources.cuda is {MIRROR}"


def site(**software: Any) -> Site:
    hosts = [{"name": "node-01", "address": "192.0.2.1"}]
    return check({"schema": 1, "site": "x", "hosts": hosts, "software": software}, Site, path=Path("site.yaml"))


def plan(distro: str = "debian12", **software: Any) -> GpuPlan:
    return plan_gpu("node-01", stack("h100-sxm", distro, software=software), site(**software))


def sources(found: GpuPlan) -> tuple[VendorSource, ...]:
    assert found.package_sources
    return found.package_sources.sources


def cuda(found: GpuPlan) -> CudaConfig:
    assert found.cuda
    return found.cuda


def nccl(found: GpuPlan) -> NcclConfig:
    assert found.nccl
    return found.nccl


@pytest.mark.parametrize(
    ("distro", "slug", "fingerprint", "file"),
    [
        ("debian12", "debian12", "EB693B3035CD5710E231E123A4B469963BF863CC", "3bf863cc.pub"),
        ("debian13", "debian13", "02182E60104FCDC26EAE1B8597A5D4CB8793F200", "8793F200.pub"),
        ("ubuntu2404", "ubuntu2404", "EB693B3035CD5710E231E123A4B469963BF863CC", "3bf863cc.pub"),
        ("el9", "rhel9", "610C7B14E068A878070DA4E99CD0A493D42D0685", "D42D0685.pub"),
    ],
)
def test_each_distribution_gets_its_own_repository_and_key(distro: str, slug: str, fingerprint: str, file: str) -> None:
    (item,) = sources(plan(distro))
    assert item.uri == f"{VENDOR}{slug}/x86_64/"
    assert item.key_url == f"{item.uri}{file}"
    assert (item.fingerprints, item.key_file, item.suites) == ((fingerprint,), None, ("/",))
    assert item.replaces == (VENDOR,)


def test_a_mirror_stands_for_the_vendor_with_the_vendors_key_or_its_own() -> None:
    (item,) = sources(plan(repositories={"cuda": {"uri": MIRROR}}))
    assert (item.uri, item.suites, item.key_url) == (MIRROR, ("./",), f"{MIRROR}/3bf863cc.pub")
    assert item.fingerprints == ("EB693B3035CD5710E231E123A4B469963BF863CC",)
    assert sources(plan(repositories={"cuda": {"uri": MIRROR, "suites": ["./"]}})) == (item,)
    found = plan(repositories={"cuda": {"uri": MIRROR, "key_file": "keys/m.asc"}})
    (item,) = sources(found)
    assert (item.key_file, item.key_url, item.fingerprints) == ("keys/m.asc", None, ())
    assert f"package source cuda: {MIRROR}, key in keys/m.asc" in found.creates
    foreign = {"repositories": {"cuda": {"uri": "https://mirror.example.org/repos/ubuntu2404/x86_64"}}}
    assert "cuda repository ubuntu2404 on Debian 13: repositories of another" in refusals(
        "h100-sxm", "debian13", software=foreign
    )


def test_the_drivers_names_come_from_the_drivers_source_alone() -> None:
    (item,) = sources(plan())
    assert {"nvidia-open*", "libnccl2", "cuda-toolkit-13-0"} <= set(item.only)
    assert item.never == ()
    (item,) = sources(plan("ubuntu2404", sources={"driver": "distribution"}))
    assert "nvidia-driver*" in item.never
    assert not set(item.never) & set(item.only)
    driver, libraries = sources(plan(sources={"driver": MIRROR}))
    assert (driver.name, driver.uri, libraries.name) == ("driver", MIRROR, "cuda")
    assert "nvidia-open*" in driver.only
    assert "nvidia-open*" in libraries.never
    assert "libnccl2" in libraries.only


def test_toolkits_lie_side_by_side_and_never_bring_a_driver() -> None:
    found = cuda(plan(cuda_beside=["12.8", "13.0"]))
    assert [(item.version, item.home) for item in found.toolkits] == [
        ("13.0", "/usr/local/cuda-13.0"),
        ("12.8", "/usr/local/cuda-12.8"),
    ]
    assert found.packages == (
        "cuda-toolkit-13-0",
        "cuda-toolkit-12-8",
        "libcudnn9-cuda-13=9.24.0.43",
        "libcudnn9-dev-cuda-13=9.24.0.43",
        "libcudnn9-headers-cuda-13=9.24.0.43",
    )
    assert (found.default, found.home, found.alternatives) == ("13.0", "/usr/local/cuda", True)
    assert {"*-13-0", "*-12-8", "nsight-systems-cli"} <= set(found.hold)
    assert {"cuda", "cuda-runtime-*", "cuda-drivers*", "nvidia-open*"} <= set(found.keep)
    assert found.profiler == ("cuda-nsight-systems-13-0", "nsight-systems-cli")
    assert "cuda 11.0: not recorded" in refusals("h100-sxm", "debian12", software={"cuda_beside": ["11.0"]})
    assert "cuda 12.6: " in refusals("b200-sxm", "debian12", software={"cuda_beside": ["12.6"]})


def test_the_distributions_toolkit_has_the_distributions_version() -> None:
    wanted: dict[str, Any] = {"sources": {"cuda": "distribution"}, "environments": []}
    found = cuda(plan(**wanted))
    assert found.packages == ("nvidia-cuda-toolkit", "nvidia-cuda-toolkit-gcc")
    assert [(item.version, item.home) for item in found.toolkits] == [("11.8", "/usr")]
    assert (found.home, found.alternatives, found.keep, found.profiler) == ("/usr", False, (), ())
    assert found.compiler == "/usr/bin/cuda-g++"
    assert nccl(plan(**wanted)).packages == ()
    assert "cuda 13.0: Debian 12's own toolkit is 11.8" in refusals(
        "h100-sxm", "debian12", software={**wanted, "cuda": "13.0"}
    )


def test_nccl_has_the_wheels_version_and_its_tests_the_hosts_gpus() -> None:
    found = plan(nccl_tests="nccl-tests.tar.gz")
    config = nccl(found)
    assert config.packages == ("libnccl2=2.30.7-1+cuda13.0", "libnccl-dev=2.30.7-1+cuda13.0")
    assert config.tests is not None
    assert config.tests.compute == ("9.0",)
    assert not any("not built" in note.choice for note in found.notes)
    without = plan()
    assert nccl(without).tests is None
    assert "not built: the site names no source archive (software.nccl_tests)" in [n.choice for n in without.notes]
    assert all(note.source and note.choice for note in (*found.notes, *without.notes))


def test_rails_are_named_by_address_and_written_by_the_hosts_names() -> None:
    roles = RoleConfigs(nccl=nccl(plan()))
    rails = tuple(Rail(index=i, gpu=i, numa=0, nic_pci=f"0000:{i:02x}:00.0") for i in range(2))
    node = HostNode(roles=("compute",), rails=rails, nccl="NCCL_IB_TC=106\n", nccl_hca="rails")
    config = with_rails(roles, node).nccl
    assert config is not None
    assert (config.settings, config.rails) == ("NCCL_IB_TC=106\n", ("0000:00:00.0", "0000:01:00.0"))
    every = with_rails(roles, node.model_copy(update={"nccl_hca": "all"})).nccl
    assert every is not None
    assert every.rails == ()
    assert with_rails(roles, None) == roles
    devices = {"0000:00:00.0": ["mlx5_3"], "0000:01:00.0": []}
    assert nccl_render.refusals(config.rails, devices) == ["adapter 0000:01:00.0 is no RDMA device here"]
    devices["0000:01:00.0"] = ["mlx5_0"]
    text = nccl_render.text(config.settings, config.rails, devices)
    assert text == "NCCL_IB_TC=106\nNCCL_IB_HCA==mlx5_3,mlx5_0\n"
    assert nccl_render.gencode(["9.0", "12.0"]) == (
        "-gencode=arch=compute_90,code=sm_90 -gencode=arch=compute_120,code=sm_120"
    )


def test_nothing_without_a_stack() -> None:
    assert plan_gpu("node-01", None, site()) == GpuPlan()
    assert plan_gpu("node-01", stack(None, "debian12"), site()) == GpuPlan()


def test_files_that_software_names_must_be_there(tmp_path: Path) -> None:
    wanted = site(repositories={"cuda": {"uri": MIRROR, "key_file": "m.asc"}}, nccl_tests="n.tar.gz")
    with pytest.raises(InputError) as caught:
        require_files(wanted.site_base, tmp_path, software_files(wanted.software))
    assert [problem.message.partition(": ")[2] for problem in caught.value.problems] == [
        f"software.repositories.cuda.key_file: no file {tmp_path / 'm.asc'}",
        f"software.nccl_tests: no file {tmp_path / 'n.tar.gz'}",
    ]


def test_the_environment_of_a_toolkit() -> None:
    unit, shell = cuda_render.files("/usr/local/cuda", None)
    assert unit.path == "/etc/llmhw/cuda.env"
    assert "\nCUDA_HOME=/usr/local/cuda\nPATH=/usr/local/cuda/bin:/usr/local/sbin:" in unit.text
    assert "LD_LIBRARY_PATH" not in unit.text + shell.text
    assert "NVCC" not in unit.text + shell.text
    unit, shell = cuda_render.files("/usr", "/usr/bin/cuda-g++")
    assert unit.text.endswith("\nNVCC_PREPEND_FLAGS=-ccbin=/usr/bin/cuda-g++\n")
    assert shell.text.endswith("\nexport NVCC_PREPEND_FLAGS=-ccbin=/usr/bin/cuda-g++\n")
    said = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 11.8, V11.8.89\n"
    assert cuda_render.release(said) == "11.8"
    assert cuda_render.release("nvcc fatal: no") == ""
    assert cuda_render.manual("manual\n/usr/local/cuda\n")
    assert not cuda_render.manual("auto\n")


@pytest.mark.parametrize(
    ("software", "says"),
    [
        (
            {"repositories": {"cuda": {"uri": MIRROR}}, "sources": {"driver": "distribution", "cuda": MIRROR}},
            f"software.repositories.cuda: nothing is taken from it: {NEITHER}",
        ),
        (
            {"cuda_beside": ["12.8"], "sources": {"cuda": "distribution"}},
            "software.cuda_beside: 12.8: a distribution has one toolkit",
        ),
    ],
)
def test_what_would_have_no_effect_is_refused(software: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as caught:
        require_consistent(site(**software))
    assert [problem.message for problem in caught.value.problems] == [f"site.yaml: {says}"]


def test_a_bare_host_gets_cuda_and_nccl_with_the_drivers_command() -> None:
    found = plan()
    assert found.along
    assert found.along.packages == (*cuda(found).packages, *nccl(found).packages)
    assert found.along.first_of == cuda(found).profiler
    assert "cuda-runtime-*" in found.along.keep

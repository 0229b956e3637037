"""Single choices of the resolver: sources, modules, RDMA, storage, kernel, Slurm."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml

from llmhw_provision.catalogue.software import software
from llmhw_provision.documents import check
from llmhw_provision.site import SoftwareChoices
from tests.unit.stacks import choice, packages, refusals, stack

TABLES = software()
ROOT = Path(__file__).resolve().parents[2]
MIRROR = "https://mirror.example.org/cuda/repos"


def test_minor_version_compatibility_is_warned_of() -> None:
    found = stack(software={"cuda": "13.2"})
    assert any("cuda 13.2 is bundled with driver 595.45.04; 580.159.03 runs it by minor" in t for t in found.warnings)
    assert any("deepspeed, flash-attn compile against CUDA 13.2, torch carries 13.0" in t for t in found.warnings)
    assert not any("bundled" in text for text in stack().warnings)


def test_a_mirror_gives_the_vendors_packages() -> None:
    mirror = f"{MIRROR}/ubuntu2404/x86_64"
    found = stack(software={"sources": {"driver": mirror, "cuda": mirror}})
    assert next(item.url for item in found.repositories) == mirror
    assert packages(found) == packages(stack())


def test_rdma_inbox_uses_dmabuf_and_doca_falls_back_to_peermem() -> None:
    nic = ("15b3:1021",)
    assert choice(stack(adapters=nic), "gpudirect rdma").choice == "dmabuf"
    closed = {"modules": "closed"}
    text = stack(adapters=nic, software=closed).warnings
    assert any("gpudirect rdma: not possible, it needs the open kernel modules" in line for line in text)
    doca = stack(adapters=nic, software={**closed, "sources": {"rdma": "vendor"}})
    assert choice(doca, "gpudirect rdma").choice == "nvidia-peermem"
    assert "rdma" not in {item.topic for item in stack().choices}


def test_gds_by_nvidia_fs_with_doca() -> None:
    found = stack(software={"gds": "nvidia-fs", "sources": {"rdma": "vendor"}}, raid0=True, adapters=("15b3:1021",))
    assert packages(found, "gds") == ["nvidia-gds-13-0"]
    assert "IOMMU off" in choice(found, "gds").rule


def test_kernel_floor_of_low_confidence_warns_and_else_refuses() -> None:
    old = {"cpu": "AMD EPYC 9755 128-Core Processor", "kernel": "6.5.0-14-generic"}
    line = "kernel 6.5.0-14-generic: AMD EPYC 9005 (Zen 5) needs 6.8 or newer"
    assert any(text.startswith(line) for text in stack(**old).warnings)
    sure = TABLES.kernels["zen5-epyc"].model_copy(update={"confidence": "high"})
    tables = TABLES.model_copy(update={"kernels": {"zen5-epyc": sure}})
    assert line in refusals(**old, tables=tables)
    assert "backports drivers" in " ".join(stack(distro="el9", **{**old, "kernel": "5.14.0-503"}).warnings)


def test_prerequisites_and_modules_of_ubuntu_name_the_running_kernel() -> None:
    found = stack(kernel="6.8.0-84-aws")
    assert "linux-headers-6.8.0-84-aws" in choice(found, "driver").needs
    own = stack(kernel="6.8.0-84-aws", software={"sources": {"driver": "distribution"}})
    assert "linux-modules-nvidia-580-server-open-aws" in packages(own, "driver")


def test_slurm_of_ones_own() -> None:
    chosen = {"slurm": True, "sources": {"slurm": "https://p.example.org/s"}, "versions": {"slurm": "25.11.2"}}
    found = stack(distro="el9", software=chosen)
    assert (found.slurm, found.gres) == ("25.11.2", "AutoDetect=nvidia")
    assert "slurm-smd-slurmd=25.11.2" in packages(found, "slurm")
    assert "munge" in packages(found, "slurm")


def test_only_the_verb_that_needs_the_matrix_loads_it() -> None:
    code = "import sys, llmhw_provision.cli.plan, llmhw_provision.cli.size; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "llmhw_provision.catalogue.loader" in loaded.stdout.split()
    assert "llmhw_provision.catalogue.software" not in loaded.stdout.split()


def test_the_guides_example_is_accepted() -> None:
    guide = (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    example = re.search(r"^## matrix\n.*?```yaml\n(.*?)```", guide, re.DOTALL | re.MULTILINE)
    assert example
    data = yaml.safe_load(example[1])["software"]
    assert set(data) == set(SoftwareChoices.model_fields)
    check(data, SoftwareChoices, path=Path("guide"))

"""The resolver: what it decides fits together, whatever is asked; what cannot be is refused with its rule."""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from llmhw_provision.catalogue.loader import names
from llmhw_provision.catalogue.software import software
from llmhw_provision.documents import check
from llmhw_provision.errors import InputError, ProvisionError
from llmhw_provision.machine import Gpus, Os
from llmhw_provision.plan.request import request_of
from llmhw_provision.plan.resolve import resolve
from llmhw_provision.plan.stack import Request, Stack
from llmhw_provision.site import SoftwareChoices
from tests.unit.machines import machine
from tests.unit.stacks import DAY, choice, packages, refusals, request, stack

TABLES = software()
ROOT = Path(__file__).resolve().parents[2]
MIRROR = "https://mirror.example.org/cuda/repos"


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def held_to_the_matrix(asked: Request, found: Stack) -> None:
    """Every pair of the set, looked up in the records again."""
    distro = TABLES.distros[found.distro]
    assert asked.choices.eol_ok or not distro.over(asked.day)
    for made in found.choices:
        assert made.source
        if made.confidence == "low":
            assert any(made.topic in text and "low confidence" in text for text in found.warnings), made
    for repository in found.repositories:
        slugs = [part for part in repository.url.split("/") if part in TABLES.repositories["cuda"].slugs]
        assert set(slugs) <= {distro.slug}
    if found.slurm and asked.choices.sources.slurm == "distribution":
        record = TABLES.slurm[found.distro]
        assert record.cgroup_v2
        assert not {item.split("=")[0] for item in packages(found, "slurm")} & set(record.never)
        assert ("AutoDetect" in str(found.gres)) == (record.detect == "nvidia")
    if asked.gpu is None:
        assert (found.driver, found.cuda, found.fabric_manager) == (None, None, None)
        return
    held_to_the_gpu(asked, found)


def held_to_the_gpu(asked: Request, found: Stack) -> None:
    assert asked.gpu
    assert found.driver
    assert found.cuda
    branch = TABLES.drivers[found.driver.branch]
    architecture = next(item for item in TABLES.architectures.values() if asked.gpu.compute_capability in item.compute)
    assert asked.choices.eol_ok or not branch.over(asked.day)
    assert found.driver.version.split(".")[0] == found.driver.branch
    assert found.driver.version.count(".") >= 1
    assert found.driver.modules in branch.modules
    assert found.driver.modules in architecture.modules
    assert numbers(found.driver.version) >= numbers(architecture.min_driver)
    assert architecture.last_driver is None or int(found.driver.branch) <= architecture.last_driver
    assert numbers(found.cuda) >= numbers(architecture.first_cuda)
    major = found.cuda.split(".")[0]
    assert int(major) <= branch.max_cuda_major
    assert int(found.driver.branch) >= int(TABLES.cuda_majors[major].min_driver)
    assert found.fabric_manager == (found.driver.version if asked.nvswitch else None)
    fabric = [item for item in packages(found) if re.match(r"nvidia-fabric-?manager", item)]
    assert [item.split("=")[1] for item in fabric] == [found.driver.version] * asked.nvswitch
    assert any("nvlsm" in item for item in packages(found)) == (asked.nvswitch and architecture.nvlink == 5)
    installed = [item.split("=")[0] for item in packages(found)]
    assert len(installed) == len(set(installed)) or "infiniband-diags" in installed
    assert not set(installed) & {"cuda", "cuda-toolkit", "cuda-drivers-fabricmanager"}
    assert [name for name in installed if re.match(r"(cuda-drivers|nvidia-open)-(59|6)", name)] == []
    for environment in found.environments:
        assert environment.cuda.split(".")[0] == major
        assert environment.requirements == tuple(sorted(environment.requirements))
    if asked.choices.gds == "p2pdma":
        assert not asked.raid0
        assert found.driver.modules == "open"
        assert numbers(found.cuda) >= [12, 8]


@st.composite
def requests(draw: st.DrawFn) -> Request:
    origin = st.sampled_from(["vendor", "distribution"])
    data = {
        "driver": draw(st.sampled_from([None, None, *TABLES.drivers, "580.159.03", "620.55.01"])),
        "modules": draw(st.sampled_from([None, None, "open", "closed"])),
        "cuda": draw(st.sampled_from([None, None, *TABLES.cuda])),
        "eol_ok": draw(st.booleans()),
        "sources": {"driver": draw(origin), "rdma": draw(origin), "slurm": draw(origin), "python": draw(origin)},
        "environments": draw(st.sampled_from([None, [], [{"name": "a", "packages": ["vllm"]}]])),
        "gds": draw(st.sampled_from(["off", "off", "p2pdma", "nvidia-fs"])),
        "slurm": draw(st.booleans()),
    }
    return request(
        draw(st.sampled_from([None, *names("gpus")])),
        draw(st.sampled_from(list(TABLES.distros))),
        software={key: value for key, value in data.items() if value is not None},
        job=draw(st.sampled_from(["pretrain", "sft", "grpo", "serve"])),
        raid0=draw(st.booleans()),
        adapters=draw(st.sampled_from([(), ("15b3:1021",)])),
        machine=draw(st.sampled_from(["x86_64", "x86_64", "aarch64"])),
        day=draw(st.sampled_from([DAY, datetime.date(2027, 6, 1), datetime.date(2029, 1, 1)])),
    )


@settings(max_examples=400, deadline=None)
@given(requests())
def test_whatever_is_resolved_satisfies_the_matrix(asked: Request) -> None:
    try:
        held_to_the_matrix(asked, resolve(asked))
    except InputError as error:
        unexplained = [problem for problem in error.problems if not problem.hint]
    else:
        unexplained = []
    assert unexplained == []


@pytest.mark.parametrize("distro", TABLES.distros)
@pytest.mark.parametrize("gpu", names("gpus"))
def test_defaults_resolve_on_every_gpu_and_distribution(gpu: str, distro: str) -> None:
    """Only Volta is refused: CUDA 13 has no code for it. Keeps the property above from being empty."""
    asked = request(gpu, distro, software={"cuda": "12.9", "environments": []} if gpu.startswith("v100") else {})
    if gpu.startswith("v100") and distro == "el10":
        assert "closed modules" in refusals(gpu, distro, software={"cuda": "12.9", "environments": []})
        return
    found = resolve(asked)
    held_to_the_matrix(asked, found)
    assert found.driver
    assert found.driver.modules == ("closed" if gpu.startswith("v100") else "open")


@pytest.mark.parametrize("job", ["pretrain", "sft", "dpo", "ppo", "grpo", "serve"])
def test_every_job_has_its_environment(job: str) -> None:
    found = stack(job=job)
    assert [item.lock for item in found.environments] == [
        {"pretrain": "train-hf", "grpo": "train-hf", "serve": "serve"}.get(job, "train-lf")
    ]
    assert "torch==2.14.0" in found.environments[0].requirements


def test_same_request_same_bytes() -> None:
    assert stack().model_dump_json() == stack().model_dump_json()


def test_a_host_without_gpu_gets_no_driver() -> None:
    found = stack(None, "debian12", software={"slurm": True})
    assert [item.topic for item in found.choices] == ["distribution", "python of train-lf", "environment", "slurm"]
    assert found.gres == "no GPU"
    assert found.repositories == ()


REFUSED = {
    "end of life": (("h100-sxm", "ubuntu2404", {"driver": "610"}), "driver 610: support ended with 2026-08"),
    "unknown branch": (("h100-sxm", "ubuntu2404", {"driver": "999"}), "driver 999: no such branch is recorded"),
    "no version": (("h100-sxm", "ubuntu2404", {"driver": "620"}), "driver 620: no full version of it is recorded"),
    "closed on 620": (
        ("h100-sxm", "ubuntu2404", {"driver": "620.55.01", "modules": "closed"}),
        "modules closed: driver 620 has only open kernel modules",
    ),
    "open on Volta": (
        ("v100-sxm-32", "ubuntu2404", {"modules": "open", "cuda": "12.9", "environments": []}),
        "(compute capability 7.0) runs only on the closed kernel modules",
    ),
    "Volta after 580": (
        ("v100-sxm-32", "ubuntu2404", {"driver": "595", "cuda": "12.9", "environments": []}),
        "driver 595.71.05: 580 is the last branch for NVIDIA V100",
    ),
    "Volta and CUDA 13": (("v100-sxm-32", "ubuntu2404", {}), "cuda 13.0: 12 is the last major for NVIDIA V100"),
    "old driver on B200": (
        ("b200-sxm", "ubuntu2404", {"driver": "570.86.15", "cuda": "12.8", "eol_ok": True, "environments": []}),
        "driver 570.86.15: NVIDIA B200 180GB SXM needs 570.133.20 or newer",
    ),
    "CUDA before Blackwell": (
        ("rtx-5090", "ubuntu2404", {"cuda": "12.6", "environments": []}),
        "cuda 12.6: NVIDIA GeForce RTX 5090 needs 12.8 or newer",
    ),
    "CUDA unknown": (("h100-sxm", "ubuntu2404", {"cuda": "14.0"}), "cuda 14.0: not recorded"),
    "CUDA major of the wheels": (
        ("h100-sxm", "ubuntu2404", {"cuda": "12.9"}),
        "one CUDA major per environment; its wheels carry 13.0, toolkit is 12.9",
    ),
    "driver of an EL distribution": (
        ("h100-sxm", "el9", {"sources": {"driver": "distribution"}}),
        "no full version of it is recorded for RHEL, Rocky or Alma 9's archive",
    ),
    "Debian's own branch": (
        ("h100-pcie", "debian13", {"driver": "580", "sources": {"driver": "distribution"}}),
        "Debian 13 carries 550.163.01; take sources.driver: vendor",
    ),
    "Debian's archive has no fabric manager": (
        (
            "h100-sxm",
            "debian12",
            {"sources": {"driver": "distribution"}, "eol_ok": True, "cuda": "12.4", "environments": []},
        ),
        "fabric manager 535 (open modules): no packages of it from the distribution are recorded for Debian 12",
    ),
    "aarch64 on Debian 13": (("h100-sxm", "debian13", {}), "Debian 13 on aarch64: NVIDIA's repository debian13 has"),
    "P2PDMA with closed modules": (
        ("h100-pcie", "ubuntu2404", {"gds": "p2pdma", "modules": "closed"}),
        "gds p2pdma: it needs the open kernel modules",
    ),
    "P2PDMA on an old kernel": (
        ("h100-pcie", "debian12", {"gds": "p2pdma"}),
        "gds p2pdma: it needs kernel 6.2, the host has 6.1",
    ),
    "P2PDMA on old CUDA": (
        ("h100-pcie", "ubuntu2404", {"gds": "p2pdma", "cuda": "12.6", "environments": []}),
        "gds p2pdma: it needs CUDA 12.8, 12.6 is chosen",
    ),
    "nvidia-fs with inbox RDMA": (
        ("h100-pcie", "ubuntu2404", {"gds": "nvidia-fs"}),
        "gds nvidia-fs: needs the NVMe patches of DOCA-OFED; RDMA is inbox",
    ),
    "Slurm from SchedMD": (
        ("h100-sxm", "el9", {"slurm": True, "sources": {"slurm": "vendor"}}),
        "SchedMD publishes no package repository",
    ),
    "Slurm of EL": (("h100-sxm", "el9", {"slurm": True}), "slurm: no packages of RHEL, Rocky or Alma 9 are recorded"),
    "Slurm without version": (
        ("h100-sxm", "el9", {"slurm": True, "sources": {"slurm": "https://pkg.example.org/slurm"}}),
        "slurm from https://pkg.example.org/slurm: its version is not named",
    ),
    "Slurm too old": (
        (
            "h100-sxm",
            "el9",
            {"slurm": True, "sources": {"slurm": "https://p.example.org/s"}, "versions": {"slurm": "23.02.1"}},
        ),
        "slurm 23.02.1: not supported by SchedMD",
    ),
    "system Python": (
        ("h100-sxm", "ubuntu2204", {"sources": {"python": "distribution"}}),
        "is locked for CPython 3.12; Ubuntu 22.04 has 3.10",
    ),
    "no lock": (
        ("h100-sxm", "ubuntu2404", {"environments": [{"name": "x", "packages": ["vllm", "trl"]}]}),
        "environment x: no lock holds trl, vllm together",
    ),
    "unknown image": (("h100-sxm", "ubuntu2404", {"images": ["tritonserver:1.0"]}), "image tritonserver:1.0: not"),
    "CUDA from the distribution": (
        ("h100-sxm", "ubuntu2404", {"sources": {"cuda": "distribution"}}),
        "cuda toolkit: no packages of it from the distribution are recorded for Ubuntu 24.04",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_rule_source_and_hint(name: str) -> None:
    (gpu, distro, chosen), line = REFUSED[name]
    text = refusals(gpu, distro, software=chosen, machine="aarch64" if "aarch64" in name else "x86_64")
    assert line in text
    for refusal in text.splitlines():
        assert re.search(r", 2026-\d\d-\d\d\) \| .", refusal), refusal


def test_everything_wrong_is_said_at_once() -> None:
    text = refusals(
        "b200-sxm",
        "ubuntu2204",
        software={
            "driver": "570",
            "modules": "closed",
            "cuda": "13.0",
            "gds": "p2pdma",
            "slurm": True,
            "environments": [{"name": "all", "packages": ["vllm", "llamafactory"]}],
        },
        raid0=True,
    )
    for line in (
        "driver 570: support ended with 2026-02",
        "modules closed",
        "cuda 13.0 needs driver 580 or newer; 570.211.01 is chosen",
        "vllm and llamafactory cannot share one",
        "gds p2pdma: NVIDIA does not support it on RAID0 over NVMe, and scratch is an md RAID0",
        "gds p2pdma: it needs kernel 6.2, the host has 5.15",
        "slurm 21.08 of Ubuntu 22.04: cgroup v1 only",
    ):
        assert line in text


def test_eol_ok_takes_the_branch_and_says_so() -> None:
    found = stack(software={"driver": "610", "eol_ok": True})
    assert "driver 610: support ended with 2026-08; taken because of eol_ok" in found.warnings
    assert choice(found, "driver branch").source.startswith("site.yaml; ")


def test_the_default_is_refused_once_its_support_is_over() -> None:
    text = refusals(day=datetime.date(2028, 7, 1))
    assert "driver 580: support ended with 2028-06" in text
    assert "supported: 620; or software.eol_ok: true" in text


def test_a_distribution_past_its_end_is_refused() -> None:
    assert "Ubuntu 22.04: support ended with 2027-04" in refusals(distro="ubuntu2204", day=datetime.date(2027, 5, 1))


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


def test_unknown_distribution_and_gpu() -> None:
    assert "distribution 'slackware' is not in the matrix | known: ubuntu2204" in refusals(distro="slackware")
    tables = TABLES.model_copy(update={"architectures": {}})
    assert "compute capability 9.0 is not in the matrix" in refusals(tables=tables)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"gpus": (Gpus(kind="10de:ffff", count=2),)}, "a: 2× 10de:ffff is not in the catalogue; no driver is guessed"),
        (
            {"gpus": (Gpus(kind="h100-pcie", count=1), Gpus(kind="rtx-4090", count=1))},
            "a: GPUs of several kinds (1× h100-pcie, 1× rtx-4090)",
        ),
        ({"os": Os(id="arch", version="", pretty_name="Arch", kernel="6.9", architecture="x86_64")}, "a: Arch is not"),
    ],
)
def test_nothing_is_guessed_for_an_observed_machine(changes: dict[str, object], line: str) -> None:
    odd = machine().model_copy(update=changes)
    with pytest.raises(InputError, match=re.escape(line)):
        request_of("a", odd, job="sft", choices=SoftwareChoices(), raid0=False, day=DAY)


def test_an_observed_machine_says_its_distribution_itself() -> None:
    asked = request_of("a", machine(), job="sft", choices=SoftwareChoices(), raid0=False, day=DAY)
    assert (asked.distro, asked.kernel, asked.gpus, asked.nvswitch) == ("debian12", "6.1.0", 4, False)
    choices = SoftwareChoices(distro="ubuntu2404")
    with pytest.raises(InputError, match=r"software\.distro is ubuntu2404, found Debian 12"):
        request_of("a", machine(), job="sft", choices=choices, raid0=False, day=DAY)


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


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("driver", "latest"),
        ("driver", 580),
        ("cuda", "13.0; rm -rf /"),
        ("sources", {"cuda": "ftp://x"}),
        ("sources", {"cuda": "https://x/$(id)"}),
        ("versions", {"dcgm": "4.*"}),
        ("environments", [{"name": "x", "packages": ["vllm==0.1"]}]),
        ("environments", [{"name": "../x", "packages": ["vllm"]}]),
        ("images", ["tritonserver"]),
        ("gds", True),
    ],
)
def test_site_refuses_what_is_no_choice(key: str, value: object) -> None:
    with pytest.raises(ProvisionError):
        check({key: value}, SoftwareChoices, path=Path("site.yaml"))

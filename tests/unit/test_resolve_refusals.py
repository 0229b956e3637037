"""What cannot be is refused: all of it at once, each with its rule, source and hint."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest

from llmhw_provision.catalogue.software import software
from llmhw_provision.documents import check
from llmhw_provision.errors import InputError, ProvisionError
from llmhw_provision.machine import Gpus, Os
from llmhw_provision.plan.request import request_of
from llmhw_provision.site import SoftwareChoices
from tests.unit.machines import machine
from tests.unit.stacks import DAY, choice, refusals, stack

TABLES = software()


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

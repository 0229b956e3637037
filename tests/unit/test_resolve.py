"""The resolver: what it decides fits together, whatever is asked."""

from __future__ import annotations

import datetime
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmhw_provision.catalogue.loader import names
from llmhw_provision.catalogue.software import software
from llmhw_provision.errors import InputError
from llmhw_provision.plan.findings import Request
from llmhw_provision.plan.resolve import resolve
from llmhw_provision.plan.stack import Stack
from tests.unit.stacks import DAY, packages, refusals, request, stack

TABLES = software()


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
    origin, rarely = st.sampled_from(["vendor", "distribution"]), st.sampled_from(["vendor"] * 4 + ["distribution"])
    data = {
        "driver": draw(st.sampled_from([*[None] * 8, *TABLES.drivers, "580.159.03", "620.55.01"])),
        "modules": draw(st.sampled_from([None, None, None, "open", "closed"])),
        "cuda": draw(st.sampled_from([*[None] * 12, *TABLES.cuda])),
        "eol_ok": draw(st.booleans()),
        "sources": {
            "driver": draw(rarely),
            "rdma": draw(origin),
            "slurm": "distribution",
            "python": draw(rarely),
        },
        "environments": draw(st.sampled_from([None, [], [{"name": "a", "packages": ["vllm"]}]])),
        "gds": draw(st.sampled_from(["off", "off", "off", "off", "p2pdma", "nvidia-fs"])),
        "slurm": draw(st.booleans()),
    }
    return request(
        draw(st.sampled_from([None, *names("gpus")])),
        draw(st.sampled_from(list(TABLES.distros))),
        software={key: value for key, value in data.items() if value is not None},
        job=draw(st.sampled_from(["pretrain", "sft", "grpo", "serve"])),
        raid0=draw(st.booleans()),
        adapters=draw(st.sampled_from([(), ("15b3:1021",)])),
        machine=draw(st.sampled_from(["x86_64", "x86_64", "x86_64", "aarch64"])),
        day=draw(st.sampled_from([DAY, DAY, DAY, datetime.date(2027, 6, 1), datetime.date(2029, 1, 1)])),
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

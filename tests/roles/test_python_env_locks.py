"""The committed CPU locks in a Debian 12 container: installed as planned, imported, linked, refused when altered."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llmhw_provision.checks import python_envs, table
from llmhw_provision.evidence import read
from llmhw_provision.plan.model import RoleConfigs
from llmhw_provision.plan.roles_python import PythonEnvConfig
from tests.containers.container import Container
from tests.containers.lab import Lab
from tests.containers.play import Result, ansible
from tests.roles.checked import planned
from tests.roles.cpu_packages import without_cuda_builds
from tests.unit.machines import drives, machine
from tests.unit.test_plan_versions import plan

pytestmark = [pytest.mark.container, pytest.mark.proof]

ROLE = Path(__file__).resolve().parents[2] / "roles/python_env"
TASK = "python_env : Make the environments and switch to them"
JOBS = {"train-lf": "sft", "train-hf": "pretrain", "serve": "serve"}


def config(job: str, *, only: bool = False) -> PythonEnvConfig:
    """What a plan gives a host without GPU that takes the distribution's CPython."""
    found = machine(*drives()).model_copy(update={"gpus": ()})
    sources = {"python": "distribution", "wheels": {"path": "/srv/wheels", "only": only}}
    made = plan(found, job=job, software={"sources": sources}).hosts[0].roles.python_env
    assert made
    return made


def apply(container: Container, wanted: PythonEnvConfig, role: str = "python_env", **more: Any) -> Result:
    variables = {"python_env_config": wanted.model_dump(mode="json")}
    return ansible(container, role, variables, timeout=1800, **more)


@pytest.fixture(scope="module")
def container(container_lab: Lab) -> Iterator[Container]:
    wheels = os.environ.get("PIP_FIND_LINKS", "")
    if not Path(wheels).is_dir():
        pytest.skip("PIP_FIND_LINKS names no folder with the CPU wheel of torch (see .env.example)")
    (started,) = container_lab.start_many(1, options=(f"--bind-ro={wheels}:/srv/wheels",))
    with started:
        started.run("mkdir -m 1777 /scratch")
        yield started


@pytest.mark.parametrize("name", JOBS)
def test_installs_imports_and_stays(container: Container, name: str) -> None:
    wanted = config(JOBS[name])
    (event,) = apply(container, wanted).of(TASK)
    facts = event.result["environments"][name]
    print(f"{name}: {facts}, {event.result['actions']}")
    assert facts["linked"] > 0.5 * facts["files"]  # all but compiled bytecode and scripts
    assert apply(container, wanted).changed == ()
    assert apply(container, wanted, check=True).changed == ()
    host = planned(RoleConfigs(python_env=wanted))
    commands = python_envs.commands(host, "standard")
    evidence = read(container.name, commands, container.ssh_config, sudo=False, address=container.address)
    found = [table.judge(item, evidence) for item in table.items(host, "standard") if item.check.area == "python"]
    assert {item.check: item.found for item in found if item.status != "pass"} == {}
    assert len(found) == 2


def test_environments_share_files_through_the_cache(container: Container) -> None:
    """torch lies on the disk once: in the cache and in three environments."""
    line = "stat -L -c %h /opt/llmhw/envs/*/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so"
    assert container.run(line).stdout.split() == ["4", "4", "4"]


@pytest.mark.parametrize(
    ("name", "modules"), [("train-lf", "peft, llamafactory, torchaudio, trl"), ("serve", "vllm, torch")]
)
def test_without_the_cuda_builds_the_rest_imports_as_well(container: Container, name: str, modules: str) -> None:
    uv = container.run("ls /opt/llmhw/uv/*/uv").stdout.strip()
    without_cuda_builds(container, uv, f"/opt/llmhw/envs/{name}", f"/scratch/copy-{name}")
    container.run([f"/scratch/copy-{name}/bin/python", "-I", "-c", f"import {modules}"], timeout=600)


@pytest.fixture
def altered(tmp_path: Path) -> Path:
    """A copy of the role whose lock of train-hf allows another file of `six` alone."""
    shutil.copytree(ROLE, tmp_path / "roles/python_env")
    shutil.copytree(ROLE.parents[1] / "locks", tmp_path / "locks")
    lock = tmp_path / "locks/train-hf-cpu.txt"
    text = lock.read_text(encoding="utf-8")
    block = re.search(r"^six==.*?(?=^[a-z])", text, re.MULTILINE | re.DOTALL)
    assert block
    wrong = re.sub(r"sha256:[0-9a-f]{64}", "sha256:" + "0" * 64, block[0])
    lock.write_text(text.replace(block[0], wrong), encoding="utf-8")
    return tmp_path / "roles/python_env"


def test_a_hash_that_the_index_does_not_have_is_refused_and_named(container: Container, altered: Path) -> None:
    digest = hashlib.sha256((altered.parents[1] / "locks/train-hf-cpu.txt").read_bytes()).hexdigest()
    wanted = config("pretrain")
    environment = wanted.environments[0].model_copy(update={"sha256": digest})
    before = container.run("readlink /opt/llmhw/envs/train-hf").stdout
    wrong = wanted.model_copy(update={"environments": (environment,)})
    (line,) = apply(container, wrong, str(altered), may_fail=True).failed
    assert "six==" in line
    assert container.run("readlink /opt/llmhw/envs/train-hf").stdout == before
    (event,) = apply(container, wanted).of(TASK)
    assert [action.partition(" ")[0] for action in event.result["actions"]] == ["remove"]  # what was begun
    assert apply(container, wanted).changed == ()


def test_a_folder_of_wheels_that_lacks_most_names_each(container: Container) -> None:
    wanted = config("pretrain", only=True).model_copy(update={"store": "/scratch/.llmhw/others"})
    (line,) = apply(container, wanted, may_fail=True).failed
    assert "lacks transformers==5.23.0" in line
    assert "lacks torch==" not in line
    assert container.run("test -e /scratch/.llmhw/others", check=False).returncode == 1

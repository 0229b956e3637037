"""Several jobs on one machine: who sits on which GPUs, what each needs, whether all of it fits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from llmhw_provision.catalogue.loader import Gpu, find
from llmhw_provision.errors import InputError
from llmhw_provision.sizing.cards import card_of
from llmhw_provision.sizing.estimate import Hardware
from llmhw_provision.sizing.job import Job
from llmhw_provision.sizing.layout import best
from llmhw_provision.sizing.placement import Placed, place
from llmhw_provision.units import GIB
from llmhw_provision.workload import Parallel, Placement
from tests.unit.sizing_setups import model
from tests.unit.test_layout_cli import said

PPO, GRPO = Job(kind="ppo"), Job(kind="grpo")
LLAMA = model("llama-3.1-8b")


def hardware(gpu: str = "h100-sxm", gpus: int = 8, nodes: int = 1, host: int = 2048) -> Hardware:
    return Hardware(card_of(find("gpus", gpu, Gpu), gpu), gpus, nodes, host * GIB)


def placed(job: Job, wanted: Placement, on: Hardware | None = None, batch: int = 8) -> Placed:
    return place(job, LLAMA, on or hardware(), Parallel(), batch, wanted)


def test_all_roles_of_ppo_on_all_gpus() -> None:
    found = placed(PPO, Placement(colocated=True))
    (group,) = found.groups
    assert group.roles == ("actor", "reference", "critic", "reward model", "rollout engine")
    assert (group.first, group.count) == (0, 8)
    assert group.estimate == best(PPO, LLAMA, hardware(), Parallel(), 8)
    shares = dict(group.shares)
    assert set(shares) == {*group.roles, "context, NCCL, fragmentation"}
    assert all(shares.values())
    assert max(shares.values()) < group.estimate.device_bytes <= sum(shares.values())


def test_a_split_takes_every_gpu_once_and_offloads_nothing() -> None:
    found = placed(PPO, Placement())
    assert [group.roles[0] for group in sorted(found.groups, key=lambda group: group.roles)] == [
        "actor",
        "critic",
        "rollout engine",
    ]
    taken = [number for group in found.groups for number in range(group.first, group.first + group.count)]
    assert sorted(taken) == list(range(8))
    assert found.verdict == "fits"
    assert not any(group.estimate.layout.offload_optimizer for group in found.groups)
    assert all(group.estimate.layout.gpus == group.count for group in found.groups)


def test_the_groups_carry_what_their_roles_need() -> None:
    groups = {group.roles[0]: group for group in placed(PPO, Placement(actor=4, critic=2, rollout=2)).groups}
    names = {role: {term.name for term in group.estimate.peak.terms} for role, group in groups.items()}
    assert "reference" in names["actor"]
    assert not {"reward model", "critic with optimizer"} & names["actor"]
    assert "reward model" in names["critic"]
    logits = {
        role: sum(term.size for term in groups[role].estimate.peak.terms if term.kind == "logits") for role in names
    }
    assert logits["critic"] == 0  # one value per token
    assert groups["rollout engine"].at_once > 8
    assert groups["actor"].at_once == 0
    assert groups["actor"].estimate.job.kind == "sft"


def test_adapters_need_no_copy_for_the_reference_and_grpo_no_critic() -> None:
    found = placed(replace(GRPO, method="lora"), Placement(actor=2, rollout=2), hardware(gpus=4))
    assert [group.roles for group in found.groups] == [("actor",), ("rollout engine",)]
    asked = {group.estimate.job.concurrency * group.estimate.layout.dp for group in found.groups[1:]}
    assert asked == {8 * GRPO.rollouts}


def test_some_serve_while_others_train() -> None:
    job = Job(method="lora", sequence=4096, concurrency=16, context=8192)
    found = placed(job, Placement(serve=2), hardware("l40s", 4, host=512))
    training, serving = found.groups
    assert (training.roles, training.count, serving.roles, serving.first) == (("training",), 2, ("serving",), 2)
    assert training.estimate == best(job, LLAMA, hardware("l40s", 2, host=512), Parallel(), 8)
    assert serving.estimate.job.kind == "serve"
    each = [sum(term.size for term in group.estimate.host if term.kind == "host") for group in found.groups]
    assert found.host_bytes == sum(each) - 8 * GIB  # one operating system


def test_groups_share_the_memory_of_the_host() -> None:
    wanted = Placement(actor=1, critic=1, rollout=2)
    parts = placed(PPO, wanted, hardware("h100-pcie", 4, host=512))
    assert parts.host_verdict == parts.verdict == "tight"  # two optimizers in the host
    assert placed(PPO, wanted, hardware("h100-pcie", 4, host=256)).verdict == "does not fit"


def test_bridged_pairs_are_not_parted() -> None:
    found = placed(PPO, Placement(actor=3, critic=3, rollout=2), hardware("h100-pcie"))
    assert (found.groups[0].roles[0], found.groups[0].first) == ("rollout engine", 0)


def test_a_published_run_of_70b() -> None:
    """OpenRLHF issue 566: PPO of 70B on 32 A100 80GB, 8 actor and reference, 8 critic and reward, 16 for answers."""
    job, on = Job(kind="ppo", sequence=2048), hardware("a100-sxm-80", 8, nodes=4)
    found = place(job, model("llama-3.1-70b"), on, Parallel(), 128, Placement(actor=2, critic=2, rollout=4))
    assert found.verdict != "does not fit"
    assert [group.estimate.layout.gpus for group in found.groups] == [8, 8, 16]
    assert found.groups[0].estimate.layout.offload_optimizer


@pytest.mark.parametrize(
    ("job", "wanted", "message"),
    [
        (Job(), Placement(actor=2), "actor is not a group of job sft"),
        (GRPO, Placement(critic=2), "critic is not a group of job grpo"),
        (Job(), Placement(), "serve is missing"),
        (Job(), Placement(colocated=True), "colocated is for ppo and grpo"),
        (PPO, Placement(colocated=True, actor=2), "colocated is for ppo and grpo"),
        (Job(kind="serve"), Placement(serve=2), "job serve has one group"),
        (Job(), Placement(serve=8), "need 9 GPUs of a host, it has 8"),
        (PPO, Placement(actor=6, rollout=2), "actor 6 + rollout 2 and one for each of 1 more need 9 GPUs"),
        (PPO, Placement(actor=2, critic=2, rollout=2), "are 6 of the 8 GPUs of a host"),
    ],
)
def test_contradictions_are_named(job: Job, wanted: Placement, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("+", r"\+")):
        placed(job, wanted)


def test_text_and_mapping_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = "schema: 1\nmodel: llama-3.1-8b\njob: ppo\nplacement: "
    outputs = []
    for text in ("actor=4,critic=2,rollout=2", "{actor: 4, critic: 2, rollout: 2}"):
        (tmp_path / "workload.yaml").write_text(head + text)
        outputs.append(said(capsys, "size", "--site", str(tmp_path), "--machine", "alphapro660"))
    options = ("--model", "llama-3.1-8b", "--job", "ppo", "--place", "actor=4,critic=2,rollout=2")
    outputs.append(said(capsys, "size", *options, "--machine", "alphapro660"))
    assert outputs[0] == outputs[1] == outputs[2]
    for words in ("GPUs 0-3", "actor, reference", "of 79.1 GiB", "sequences of 2,048 tokens at once", "host memory"):
        assert words in outputs[0]
    data = json.loads(said(capsys, "size", *options, "--machine", "alphapro660", "--json"))["machines"][0]
    assert [group["gpus"] for group in data["groups"]] == [4, 2, 2]
    assert data["groups"][0]["role_bytes"]["reference"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--place", "half"), "placement: 'half' is not split, colocated or ROLE=GPUS"),
        (("--place", "judge=2"), "placement.judge: unknown key"),
        (("--place", "serve=2"), "serving: missing"),
        (("--place", "serve=2", "--concurrency", "4", "--context", "99", "--layouts", "3"), "are about one job"),
    ],
)
def test_wrong_placements_are_named(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in said(capsys, "size", "--model", "llama-3.1-8b", "--job", "sft", *arguments, status=1)


def test_a_plan_notes_every_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "workload.yaml").write_text("schema: 1\nmodel: llama-3.1-8b\njob: grpo\nplacement: split\n")
    site = "schema: 1\nsite: lab\nhosts: [{name: ap, address: 192.0.2.10, machine: alphapro660}]\n"
    (tmp_path / "site.yaml").write_text(site)
    said(capsys, "plan", "--site", str(tmp_path))
    plan = json.loads((tmp_path / "plan.json").read_text())
    notes = [note["choice"] for note in plan["notes"] if note["rule"].startswith("GPU memory at its peak")]
    assert [note.partition(":")[0] for note in notes] == ["actor, reference", "rollout engine"]

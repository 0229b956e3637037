"""Which machine, why and what else; and what must shrink for the machine that is there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from llmhw_provision.cli import main
from llmhw_provision.errors import DoesNotFit
from llmhw_provision.machine import Gpus
from llmhw_provision.plan.build import build_plan
from llmhw_provision.plan.model import Note
from llmhw_provision.site import Host
from llmhw_provision.sizing.choice import RULE, choose, sold
from llmhw_provision.sizing.layout import best
from llmhw_provision.sizing.machines import candidate
from llmhw_provision.sizing.need import need as need_of
from llmhw_provision.sizing.shrink import _ladders, suggestions
from llmhw_provision.units import GIB
from tests.unit.machines import drives, machine, need, site

SERVE = {"job": "serve", "method": "full", "dataset": None}


def hosts(count: int) -> tuple[Host, ...]:
    return tuple(Host(name=f"a-{number:02}", address=f"192.0.2.{number}") for number in range(1, count + 1))


def noted(*, count: int = 1, **changes: Any) -> tuple[Note, str]:
    """The note of the choice and the machine that the plan has."""
    plan = build_plan(need(**changes), site().model_copy(update={"hosts": hosts(count)}), {})
    assert plan.origin == "purchase"
    (machines,) = {host.machine for host in plan.hosts}
    assert machines
    return next(note for note in plan.notes if note.rule == RULE), machines


def test_a_site_without_machine_gets_the_one_with_fewest_gpus_then_least_power() -> None:
    note, chosen = noted(model="llama-3.1-70b", dataset=None)
    assert chosen == "ga660m"
    assert note.choice.startswith("1 × GA660M: 4 GPUs, 2.3 kW; fits, ")
    nearest = [text for text in note.inputs if text.startswith("next: ")]
    assert [text.partition(":")[2].partition(";")[0].strip() for text in nearest] == [
        "1 × high tier: A100 SXM: 8 GPUs, 5.8 kW",
        "1 × AlphaPro660: 8 GPUs, 10.2 kW",
    ]
    refused = [text for text in note.inputs if text.startswith("refused: ")]
    assert any("A330: 1 GPU, 1.1 kW; does not fit, 145.2 GiB of 31.4 GiB per GPU" in text for text in refused)
    assert "tiers.yml" in note.source


def test_a_choice_never_needs_more_gpus_than_an_alternative_that_fits_surely() -> None:
    for changes in ({"model": "llama-3.1-8b"}, {"model": "llama-3.1-8b", "method": "full"}):
        found = choose(need(**changes), sold(), (1, 2, 4))
        assert found.best is not None
        assert found.best.verdict == "fits"
        costs = [(option.gpus, option.watts) for option in (found.best, *found.others) if option.verdict == "fits"]
        assert costs == sorted(costs)
        assert len(found.others) == 2


def test_hosts_that_no_adapter_joins_cannot_train_together() -> None:
    note, chosen = noted(count=2, model="llama-3.1-70b", dataset=None)
    assert chosen == "high-a100"
    assert any("GA660M" in text and "no network adapter joins its machines" in text for text in note.inputs)


def test_what_fits_no_machine_is_refused_with_what_would_have_to_shrink() -> None:
    with pytest.raises(DoesNotFit) as caught:
        build_plan(need(model="llama-3.1-70b", method="full"), site(), {})
    (problem,) = caught.value.problems
    assert problem.message.startswith(
        "no machine is named, and Llama 3.1 70B fits none of the catalogue: 1 × high tier"
    )
    assert problem.hint.startswith("fits with layout.offload optimizer on 1 × AlphaPro660: 8 GPUs, 10.2 kW; ")
    assert "fits with method lora instead of full (44.1 GiB" in problem.hint
    assert problem.hint.endswith("; as it is on 4 × high tier: A100 SXM: 32 GPUs, 23.3 kW")


def test_a_site_that_knows_its_hosts_is_left_as_it_is() -> None:
    plan = build_plan(need(), site(), {"ga660m-01": machine(*drives())})
    assert not [note for note in plan.notes if note.rule == RULE]


@pytest.mark.parametrize(
    ("changes", "on", "words"),
    [
        ({"model": "llama-3.1-70b", "method": "full"}, "ga660m", ["method lora instead of full"]),
        (
            {"model": "llama-3.1-8b", "layout": {"recompute": "none", "micro_batch": 64}, "batch": 256},
            "ga660m",
            ["layout without micro_batch 64"],
        ),
        (
            {"model": "llama-3.1-70b", **SERVE, "serving": {"concurrency": 80, "context": 8192}},
            "ga660m",
            ["KV cache fp8 instead of bf16", "33 requests at once instead of 80"],
        ),
        ({"model": "llama-3.1-8b", "sequence": 65_536}, "a330", ["sequence 4,096 instead of 65,536 tokens"]),
    ],
)
def test_every_suggestion_fits_when_it_is_followed(changes: dict[str, Any], on: str, words: list[str]) -> None:
    asked, hardware = need(**changes), candidate(on).hardware
    layout = asked.workload.layout
    assert best(asked.job, asked.model, hardware, layout, asked.workload.batch).verdict == "does not fit"
    found = suggestions(asked, hardware)
    followed = {text: load for ladder in _ladders(asked.workload, hardware) for text, load in ladder}
    said = [item.words for item in found]
    assert all(any(text.startswith(word) for text in said) for word in words), said
    for item in found:
        load = followed[item.words]
        again = best(need_of(load, asked.model).job, asked.model, hardware, load.layout, load.batch)
        assert again.verdict == item.found.verdict != "does not fit"


def test_changes_are_combined_where_none_suffices_alone() -> None:
    (found,) = suggestions(need(model="llama-3.1-8b", method="full", sequence=131_072), candidate("a330").hardware)
    assert found.words.count(" instead of ") > 1
    assert found.found.verdict != "does not fit"


def test_the_plan_names_what_must_shrink_on_the_machine_that_is_there() -> None:
    small = machine(*drives(), memory=64 * GIB).model_copy(update={"gpus": (Gpus(kind="rtx-5090", count=1),)})
    with pytest.raises(DoesNotFit) as caught:
        build_plan(need(method="full"), site(), {"ga660m-01": small})
    assert caught.value.problems[0].hint.startswith("fits with method lora instead of full (23.5 GiB of 31.4 GiB")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["size", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_size_names_a_machine_where_none_is_asked_about() -> None:
    words = ("--model", "llama-3.1-70b", "--job", "sft", "--method", "lora")
    assert "machine: 1 × GA660M: 4 GPUs, 2.3 kW; fits" in run(*words)
    data = json.loads(run(*words, "--json"))
    assert data["choice"]["name"] == "ga660m"
    assert len(data["alternatives"]) == 2
    assert "machine: 1 ×" not in run(*words, "--machine", "ga660m")


def test_size_says_what_must_shrink_on_a_named_machine() -> None:
    words = ("--model", "llama-3.1-8b", "--job", "sft", "--machine", "a330")
    assert "A330 holds it with\n  method lora instead of full (23.5 GiB of 31.4 GiB per GPU)" in run(*words)
    assert json.loads(run(*words, "--json"))["shrink"][0]["verdict"] == "fits"


def test_what_the_files_fix_is_noted_by_its_path_and_value() -> None:
    plan = build_plan(
        need(layout={"tp": 2}, training={"rank": 32}),
        site(scratch={"mount": "/data"}, trim="never"),
        {"ga660m-01": machine(*drives())},
    )
    notes = {note.source: note for note in plan.notes if note.rule.endswith("fixes is not chosen")}
    assert notes["workload.yaml"].inputs == ("layout.tp = 2", "training.rank = 32")
    assert notes["site.yaml"].inputs == ('storage.scratch.mount = "/data"', 'storage.trim = "never"')

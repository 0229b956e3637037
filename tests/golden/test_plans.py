"""Plans of ten workloads over machines and tiers, as `plan --explain` shows them; reviewed as diffs.

`--update-golden` writes them again. A choice without rule, outcome or source is no choice that can be reviewed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llmhw_provision.cli.plan_text import explain
from llmhw_provision.documents import check
from llmhw_provision.plan.build import build_plan
from llmhw_provision.plan.model import Plan
from llmhw_provision.site import Site
from tests.unit.machines import need

FOLDER = Path(__file__).parent / "plans"
DATA = {"size": "200 GB", "hot": "4 GiB"}
SMALL = {"concurrency": 16, "context": 4096}
# name: machine (None: the planner's choice), hosts, workload
CASES: dict[str, tuple[str | None, int, dict[str, Any]]] = {
    "pretrain-8b": ("alphapro660", 1, {"job": "pretrain", "method": "full", "sequence": 8192, "batch": 512}),
    "full-70b": ("alphapro660", 4, {"model": "llama-3.1-70b", "method": "full", "sequence": 4096, "batch": 64}),
    "lora-70b": ("ga660m", 1, {"model": "llama-3.1-70b", "sequence": 4096, "batch": 16}),
    "qlora-8b": ("entry", 1, {"method": "qlora", "sequence": 2048, "dataset": {"size": "20 GB"}}),
    "full-8b": ("mainstream-l40s", 1, {"method": "full", "sequence": 4096, "batch": 32}),
    "serve-8b": ("a330", 1, {"job": "serve", "method": "full", "serving": SMALL, "dataset": None}),
    "serve-70b-fp8": (
        "ga660m",
        1,
        {"model": "llama-3.1-70b", "job": "serve", "method": "full", "weights": "fp8", "serving": SMALL},
    ),
    "lora-beside-server": ("ga660m", 1, {"serving": SMALL, "placement": "serve=2"}),
    "grpo-8b": ("alphapro660", 1, {"job": "grpo", "method": "full", "placement": "split", "serving": SMALL}),
    "lora-70b-choice": (None, 1, {"model": "llama-3.1-70b", "layout": {"micro_batch": 1}}),
}


def planned(name: str) -> Plan:
    machine, count, load = CASES[name]
    hosts = [{"name": f"n-{number:02}", "address": f"192.0.2.{number}"} for number in range(1, count + 1)]
    hosts = [{**host, "machine": machine} if machine else host for host in hosts]
    site = check({"schema": 1, "site": name, "hosts": hosts}, Site, path=Path("site.yaml"))
    return build_plan(need(**{"dataset": DATA, **load}), site, {})


@pytest.mark.parametrize("name", CASES)
def test_the_plan_is_as_it_was_reviewed(name: str, request: pytest.FixtureRequest) -> None:
    plan = planned(name)
    for note in plan.notes:
        assert note.rule
        assert note.choice
        assert note.source, note.rule
    text = explain(plan.model_copy(update={"identity": "-"})) + "\n"
    path = FOLDER / f"{name}.txt"
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


def test_no_reviewed_plan_is_left_over() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(CASES)

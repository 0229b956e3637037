"""What is left of a run, and the list of runs; the folders are as a run, or its kill, leaves them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from llmhw_provision.documents import dump_json, write_atomic
from llmhw_provision.errors import InputError
from llmhw_provision.run import history, orders, text
from llmhw_provision.run.command import Choice
from llmhw_provision.run.outcome import HostResult, Result, State
from tests.unit.test_run_site import IDENTITY, host, plan, site


def made(folder: Path, name: str, *, plan_id: str = IDENTITY, check: bool = False, **limits: tuple[str, ...]) -> Path:
    """The folder of a run of apply that wrote what it was asked, and no more."""
    path = folder / "runs" / name
    order = orders.OrderFile(
        plan=plan_id,
        check=check,
        limit=limits.get("limit", ()),
        tags=limits.get("tags", ()),
        allow_reboot=False,
    )
    write_atomic(path / "order.json", dump_json(order))
    return path


def ended(path: Path, states: dict[str, State], *, wants_reboot: str = "") -> None:
    zero = dict.fromkeys(("tasks", "ok", "changed", "skipped", "failed", "unreachable", "ignored"), 0)
    hosts = tuple(
        HostResult(host=name, state=state, reboot_reasons=("x",) if name == wants_reboot else (), **zero)
        for name, state in states.items()
    )
    worst: State = next((state for state in states.values() if state != "done"), "done")
    result = Result(
        verb="apply",
        site="s",
        plan=IDENTITY,
        check=False,
        limit=(),
        tags=(),
        started="",
        seconds=61.0,
        state=worst,
        exit_code=0 if worst == "done" else 4,
        ansible="2.19",
        folder=f"runs/{path.name}",
        hosts=hosts,
        failures=(),
        changes=(),
    )
    write_atomic(path / "result.json", dump_json(result))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return site(tmp_path / "site", plan(host("one"), host("two"), host("three")))


FIRST, SECOND = "2026-11-30T10-00-00Z-apply", "2026-11-30T10-00-00Z-apply-2"


def test_a_run_that_was_cut_off_is_done_again_on_all_its_hosts(folder: Path) -> None:
    made(folder, FIRST, limit=("one", "two"), tags=("tmpfs",))
    left = history.unfinished(folder)
    assert left == history.Left(FIRST, ("one", "two"), ("tmpfs",), allow_reboot=False)
    assert left.choice(diff=True) == Choice(diff=True, limit=("one", "two"), tags=("tmpfs",))


def test_hosts_that_are_done_are_left_out(folder: Path) -> None:
    ended(made(folder, FIRST), {"one": "done", "two": "failed", "three": "unreachable"})
    assert history.unfinished(folder).limit == ("two", "three")


def test_a_host_that_is_done_but_for_its_reboot_is_not_left_out_when_that_is_allowed(folder: Path) -> None:
    ended(made(folder, FIRST), {"one": "done", "two": "failed", "three": "done"}, wants_reboot="one")
    assert history.unfinished(folder).limit == ("two",)
    assert history.unfinished(folder, allow_reboot=True).limit == ("one", "two")


def test_the_newest_run_counts_also_within_one_second(folder: Path) -> None:
    ended(made(folder, FIRST), {"one": "done", "two": "done", "three": "done"})
    made(folder, SECOND)
    assert history.unfinished(folder).run == SECOND


def test_what_cannot_be_gone_on_with_is_said(folder: Path) -> None:
    with pytest.raises(InputError, match="there is no run to go on with"):
        history.unfinished(folder)
    ended(made(folder, FIRST), {"one": "done", "two": "done", "three": "done"})
    with pytest.raises(InputError, match="is done: nothing is left to do"):
        history.unfinished(folder)
    made(folder, SECOND, check=True)  # looked only: not what is gone on with
    with pytest.raises(InputError, match=f"{FIRST} is done"):
        history.unfinished(folder)
    made(folder, SECOND, plan_id="0123456789ab")
    with pytest.raises(InputError, match=r"was of plan 0123456789ab, but plan\.json is 7f3c00112233") as caught:
        history.unfinished(folder)
    assert "without --resume" in caught.value.problems[0].hint


def test_the_order_is_kept_without_the_password(folder: Path) -> None:
    order = orders.prepare(folder, choice=Choice(limit=("one",)), password="S3CRET")
    assert "S3CRET" not in repr(order)
    assert "S3CRET" not in dump_json(orders.recorded(order))
    assert orders.recorded(replace(order, resumes=FIRST)).resumes == FIRST


def test_the_list_says_how_each_run_ended(folder: Path) -> None:
    ended(made(folder, FIRST), {"one": "done", "two": "failed"})
    made(folder, SECOND)
    (folder / "runs" / "notes").mkdir()
    lines = list(text.table(history.entries(folder / "runs")))
    assert lines == [
        f"{FIRST}    failed   {IDENTITY}  1:01  one done, two failed",
        f"{SECOND}  cut off  {IDENTITY}  -     -",
    ]
    (folder / "runs" / FIRST / "result.json").write_text("{")
    assert history.entries(folder / "runs")[0].state == "cut off"
    assert json.loads((folder / "runs" / SECOND / "order.json").read_text())["plan"] == IDENTITY

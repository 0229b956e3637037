"""Faults seeded into assembled machines: each is caught and named; healthy machines raise no alarm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest
import yaml

from llmhw_provision.checks import hardware, table
from llmhw_provision.checks.texts import TEXTS
from tests.assembled import Assembled, NoSample, h100
from tests.assembled_classes import HEALTHY
from tests.assembled_recorded import RECORDED
from tests.fault import Fault
from tests.faults import FAULTS, findings, judged
from tests.faults_elsewhere import ELSEWHERE
from tests.faults_table import PAGE, page
from tests.unit.recordings import SAMPLES, replaced, without

Thing = TypeVar("Thing")


def built(build: Callable[[], Thing]) -> Thing:
    try:
        return build()
    except NoSample as missing:
        pytest.skip(f"no sample {missing} beside the checkout")


@pytest.mark.parametrize("build", [*HEALTHY, *RECORDED], ids=lambda build: build.__name__)
def test_a_healthy_machine_raises_no_alarm(build: Callable[[], Assembled]) -> None:
    machine = built(build)
    found = findings(machine)
    assert found
    assert [(one.check, one.subject, one.status, one.found) for one in found if one.status != "pass"] == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.origin}: {fault.what}")
def test_a_seeded_fault_is_caught_and_nothing_else_alarmed(fault: Fault) -> None:
    row = built(lambda: judged(fault))
    assert row.missed == []
    assert row.alarms == []


def test_every_check_of_hardware_and_services_is_seen_to_fail() -> None:
    caught = {check for fault in FAULTS for check in fault.caught}
    assert {check.id for check in hardware.CHECKS} | {"package-solution"} <= caught


def test_every_cause_is_seen() -> None:
    """All but the words that stand for a check as a whole and for no failure of its own."""
    seen = {f"{check}/{name}" if name else check for fault in FAULTS for check, (name, _) in fault.caught.items()}
    known = {key for key in TEXTS if key.partition("/")[0] in {check.id for check in hardware.CHECKS}}
    assert known - seen == {"gpu-answers", "gpu-start", "gpu-xid", "munge", "slurm-log"}


def test_the_table_notices_what_is_missed_and_what_is_alarmed() -> None:
    fault = next(fault for fault in FAULTS if fault.what == "power limit lowered")
    row = judged(replace(fault, caught={"gpu-temperature": ("", "GPU0")}))
    assert len(row.missed) == 1
    assert row.alarms == ["gpu-power : fail GPU0: 500 W"]


ITEMS = list(table.items(h100().plan, "quick"))
HARDWARE = [item for item in ITEMS if item.check in hardware.CHECKS]


@pytest.mark.parametrize("item", HARDWARE, ids=lambda item: item.name)
def test_what_was_not_read_or_is_damaged_never_passes(item: table.Item) -> None:
    machine = h100()
    key = table.judge(item, machine.evidence).evidence
    assert key in {command.key for command in table.commands(machine.plan, "quick")}
    assert table.judge(item, without(machine.evidence, key)).status == "could-not-run"
    result = machine.evidence.results[key]
    slow = table.judge(item, replaced(machine.evidence, key, replace(result, rc=124, stdout=b"")))
    assert slow.status in ("could-not-run", "fail")
    if key == "ipmi-sel":  # one line that says there is none
        return
    cut = table.judge(item, replaced(machine.evidence, key, replace(result, stdout=result.stdout[:-2])))
    assert cut.status == "could-not-run"


def test_the_reading_asks_for_each_thing_once_and_for_all_that_checks_need() -> None:
    for build in HEALTHY:
        machine = build()
        keys = [command.key for command in table.commands(machine.plan, "quick")]
        assert len(keys) == len(set(keys))
        assert set(keys) == set(machine.evidence.results)


def test_the_committed_table_is_current() -> None:
    text = built(page)
    assert PAGE.read_text(encoding="utf-8") == text


def test_the_table_accounts_for_every_faulty_sample() -> None:
    if not (SAMPLES / "index.yaml").exists():
        pytest.skip(f"no recorded samples at {SAMPLES}")
    told = " ".join(fault.origin for fault in FAULTS)
    entries = yaml.safe_load((SAMPLES / "index.yaml").read_text())["samples"]
    faulty = [str(entry["file"]) for entry in entries if _faulty(entry["expect"])]
    assert len(faulty) > 40
    assert [name for name in faulty if name not in told and name not in ELSEWHERE] == []


def _faulty(expect: dict[str, object]) -> bool:
    verdict = str(expect.get("verdict", ""))
    kinds = ("error", "bad", "inactive", "degraded", "faulty", "removed", "fail", "down", "xids", "psu_fault", "narrow")
    kinds += ("nics_without_gpu", "uncorrectable_ecc", "gres_reason", "flags")
    named = verdict.startswith(("fail", "must", "error", "profile", "not tested"))
    return named or any(expect.get(kind) for kind in kinds) or expect.get("rc", 0) != 0

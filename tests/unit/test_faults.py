"""Faults seeded into assembled machines: each is caught and named; healthy machines raise no alarm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest
import yaml

from llmhw_provision.checks import cuda, gpu_before, gpu_sources, gpu_stack, hardware, table
from llmhw_provision.checks.texts import TEXTS
from tests.assembled import RAILS, Assembled, NoSample, h100
from tests.assembled_before import FRESH, switched_before
from tests.assembled_classes import HEALTHY, desktop, pcie
from tests.assembled_recorded import RECORDED
from tests.assembled_stack import STACKED, switched
from tests.fault import Fault, in_block, in_row
from tests.faults import FAULTS, findings, judged
from tests.faults_elsewhere import ELSEWHERE
from tests.faults_machine import roce, sata
from tests.faults_table import PAGE, page
from tests.unit.recordings import SAMPLES, replaced, without

Thing = TypeVar("Thing")


def built(build: Callable[[], Thing]) -> Thing:
    try:
        return build()
    except NoSample as missing:
        pytest.skip(f"no sample {missing} beside the checkout")


@pytest.mark.parametrize("build", [*HEALTHY, *RECORDED, *STACKED], ids=lambda build: build.__name__)
def test_a_healthy_machine_raises_no_alarm(build: Callable[[], Assembled]) -> None:
    machine = built(build)
    found = findings(machine, "standard")
    assert found
    assert [(one.check, one.subject, one.status, one.found) for one in found if one.status != "pass"] == []


@pytest.mark.parametrize("build", FRESH, ids=lambda build: build.__name__)
def test_a_machine_that_is_ready_for_the_gpu_software_raises_no_alarm(build: Callable[[], Assembled]) -> None:
    machine = build()
    found = findings(machine, "before")
    assert {one.check for one in found} >= {"gpu-board", "gpu-solution", "gpu-offers", "gpu-room"}
    assert [(one.check, one.subject, one.status, one.found) for one in found if one.status != "pass"] == []
    asked = {command.key for command in table.commands(machine.plan, "before")}
    assert asked <= set(machine.evidence.results)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.origin}: {fault.what}")
def test_a_seeded_fault_is_caught_and_nothing_else_alarmed(fault: Fault) -> None:
    row = built(lambda: judged(fault))
    assert row.missed == []
    assert row.alarms == []


def _at_200() -> Assembled:
    machine = h100()
    expected = machine.plan.expected
    assert expected
    assert expected.fabric
    fabric = expected.fabric.model_copy(update={"rate_gbit": 200})
    plan = machine.plan.model_copy(update={"expected": expected.model_copy(update={"fabric": fabric})})
    machine = replace(machine, title="8× H100 at 200 Gbit/s", plan=plan)
    for key in ("ib-sysfs", "ib-sysfs-later"):
        machine = machine.edited(key, r"400 Gb/sec \(4X NDR\)", "200 Gb/sec (2X NDR)")
    for rail in RAILS:
        machine = machine.edited(f"mlxlink:{rail}", ": 4x", ": 2x")
    return machine.edited("ibstat", "Rate: 400", "Rate: 200")


def _idle_manager() -> Assembled:
    unit = (
        "○ nvidia-fabricmanager.service - NVIDIA fabric manager service\n"
        "     Loaded: loaded (/lib/systemd/system/nvidia-fabricmanager.service; disabled; preset: enabled)\n"
        "     Active: inactive (dead)\n"
    )
    return pcie().answered("fabric-manager-unit", unit, "written by us", rc=3)


HARMLESS: dict[str, Callable[[], Assembled]] = {
    "a GPU at work is hotter": lambda: in_row(h100(), 2, " 33, 69.85 W", " 71, 512.00 W"),
    "corrected memory errors": lambda: in_block(h100(), 2, r"(DRAM Correctable +): 0", r"\1: 177"),
    "the power limit holds the clocks": lambda: in_block(h100(), 2, r"(SW Power Cap +): Not Active", r"\1: Active"),
    "two lanes carry the planned rate": _at_200,
    "a node with a job and a plan": lambda: h100().edited("slurm-nodes", "State=IDLE", "State=MIXED+PLANNED"),
    "a fabric manager that nobody starts": _idle_manager,
    "a RoCE port whose index NCCL finds itself": lambda: roce(None),
    "a SATA drive that passes its own test": lambda: sata(True),
    "a RoCE port with the right index": lambda: roce(3),
    "NVLink counters of the past": lambda: (
        h100()
        .edited("nvlink-errors", "CRC Errors: 7", "CRC Errors: 90")
        .edited("nvlink-errors-later", "CRC Errors: 7", "CRC Errors: 90")
    ),
    "an error before the last start": lambda: h100().edited(
        "fabric-manager",
        r"\A",
        "Nov 30 09:00:00 node01 nv-fabricmanager[9]: interface version 1.1 don't match with driver version 1.2\n",
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_no_fault_raises_no_alarm(name: str) -> None:
    assert [(one.check, one.status, one.found) for one in findings(HARMLESS[name]()) if one.status != "pass"] == []


def test_a_card_at_rest_is_judged_by_what_it_can_do_and_the_report_says_so() -> None:
    (one,) = (one for one in findings(desktop()) if one.check == "gpu-pcie")
    assert one.found.startswith("2 GPUs x16, generation 5 within reach; GPU0, GPU1 at rest")
    (one,) = (one for one in findings(h100()) if one.check == "gpu-pcie")
    assert one.found == "8 GPUs x16, generation 5"


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


ITEMS = list(table.items(h100().plan, "standard"))
HARDWARE = [item for item in ITEMS if item.check in hardware.CHECKS]


@pytest.mark.parametrize("item", HARDWARE, ids=lambda item: item.name)
def test_what_was_not_read_or_is_damaged_never_passes(item: table.Item) -> None:
    machine = h100()
    key = table.judge(item, machine.evidence).evidence
    assert key in {command.key for command in table.commands(machine.plan, "standard")}
    assert table.judge(item, without(machine.evidence, key)).status == "could-not-run"
    result = machine.evidence.results[key]
    slow = table.judge(item, replaced(machine.evidence, key, replace(result, rc=124, stdout=b"")))
    assert slow.status in ("could-not-run", "fail")
    if key == "ipmi-sel":  # one line that says there is none
        return
    cut = table.judge(item, replaced(machine.evidence, key, replace(result, stdout=result.stdout[:-2])))
    assert cut.status == "could-not-run"


SOFTWARE = [
    (machine, item)
    for machine, level in ((switched(), "quick"), (switched_before(), "before"))
    for item in table.items(machine.plan, level)
    if item.check in (*gpu_before.CHECKS, *gpu_sources.CHECKS, *gpu_stack.CHECKS, *cuda.CHECKS)
]


@pytest.mark.parametrize(("machine", "item"), SOFTWARE, ids=lambda value: getattr(value, "name", ""))
def test_gpu_software_that_was_not_read_or_is_cut_off_never_passes(machine: Assembled, item: table.Item) -> None:
    key = table.judge(item, machine.evidence).evidence
    result = machine.evidence.results[key]
    assert table.judge(item, without(machine.evidence, key)).status == "could-not-run"
    cut = table.judge(item, replaced(machine.evidence, key, replace(result, stdout=result.stdout[:-2])))
    assert cut.status == "could-not-run"
    late = table.judge(item, replaced(machine.evidence, key, replace(result, rc=124, stdout=b"")))
    assert late.status == "could-not-run"


def test_the_reading_asks_for_each_thing_once_and_for_all_that_checks_need() -> None:
    for build in (*HEALTHY, *STACKED):
        machine = build()
        keys = [command.key for command in table.commands(machine.plan, "standard")]
        assert len(keys) == len(set(keys))
        assert set(keys) == set(machine.evidence.results)


def test_the_committed_table_is_current() -> None:
    text = built(page)
    assert PAGE.read_text(encoding="utf-8") == text


def test_the_table_accounts_for_every_faulty_sample() -> None:
    if not (SAMPLES / "index.yaml").exists():
        pytest.skip(f"no recorded samples at {SAMPLES}")
    told = " ".join(fault.origin for fault in FAULTS)
    entries = yaml.load((SAMPLES / "index.yaml").read_text(), Loader=yaml.CSafeLoader)["samples"]
    faulty = [str(entry["file"]) for entry in entries if _faulty(entry["expect"])]
    assert len(faulty) > 40
    assert [name for name in faulty if name not in told and name not in ELSEWHERE] == []


def _faulty(expect: dict[str, object]) -> bool:
    verdict = str(expect.get("verdict", ""))
    kinds = ("error", "bad", "inactive", "degraded", "faulty", "removed", "fail", "down", "xids", "psu_fault", "narrow")
    kinds += ("nics_without_gpu", "uncorrectable_ecc", "gres_reason", "flags")
    named = verdict.startswith(("fail", "must", "error", "profile", "not tested"))
    return named or any(expect.get(kind) for kind in kinds) or expect.get("rc", 0) != 0

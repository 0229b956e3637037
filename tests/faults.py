"""All faults of the fault table, and how the checks judge them; tests/faults_table.py writes the page."""

from __future__ import annotations

from dataclasses import dataclass, field

from llmhw_provision.checks import table
from llmhw_provision.checks.model import Finding, Level
from llmhw_provision.evidence import Evidence, Result
from llmhw_provision.plan.model import HostPlan
from tests.assembled import Assembled
from tests.fault import Fault
from tests.faults_before import BEFORE_FAULTS
from tests.faults_cuda import CUDA_FAULTS
from tests.faults_gpu import GPU_FAULTS
from tests.faults_links import LINK_FAULTS
from tests.faults_machine import MACHINE_FAULTS
from tests.faults_modules import MODULE_FAULTS
from tests.faults_services import SERVICE_FAULTS
from tests.faults_stack import STACK_FAULTS
from tests.faults_variants import VARIANTS

FAULTS = (
    *GPU_FAULTS,
    *LINK_FAULTS,
    *MACHINE_FAULTS,
    *SERVICE_FAULTS,
    *BEFORE_FAULTS,
    *STACK_FAULTS,
    *MODULE_FAULTS,
    *CUDA_FAULTS,
    *VARIANTS,
)


@dataclass(frozen=True)
class Row:
    """A fault as the whole table judged it: findings that name it, what was not said, what else was said."""

    fault: Fault
    machine: str
    named: tuple[Finding, ...]
    missed: list[str]
    alarms: list[str]


@dataclass(frozen=True)
class _Watched(Evidence):
    """Evidence that notes what was asked of it."""

    asked: set[str] = field(default_factory=set)

    def get(self, key: str) -> Result | None:
        """The result under `key`."""
        self.asked.add(key)
        return super().get(key)


_KNOWN: dict[tuple[str, str], tuple[HostPlan, dict[str, Result | None], Finding]] = {}


def findings(machine: Assembled, level: Level = "quick") -> list[Finding]:
    """Every check of `level`. Checks are pure: one that was asked the same of a machine like it says the same."""
    return [_finding(machine, item) for item in table.items(machine.plan, level)]


def _finding(machine: Assembled, item: table.Item) -> Finding:
    known = _KNOWN.get((machine.title, item.name))
    if known and known[0] == machine.plan and all(machine.evidence.get(key) == was for key, was in known[1].items()):
        return known[2]
    watched = _Watched(
        machine.evidence.host, machine.evidence.origin, machine.evidence.results, machine.evidence.read_at
    )
    found = table.judge(item, watched)
    asked = {key: machine.evidence.get(key) for key in watched.asked}
    _KNOWN.setdefault((machine.title, item.name), (machine.plan, asked, found))
    return found


def judged(fault: Fault) -> Row:
    """Runs every check on the machine with the fault; raises NoSample."""
    machine = fault.seed()
    found = findings(machine, fault.level)
    said = [one for one in found if one.status != "pass"]
    missed, named = [], []
    for check, (variant, words) in fault.caught.items():
        mine = [one for one in said if one.check == check]
        good = [one for one in mine if one.variant == variant and words in one.found]
        named += good
        if not good:
            missed.append(f"{check}: {[(one.status, one.variant, one.found) for one in found if one.check == check]}")
    rest = [one for one in found if one.status != "pass" and one.check not in fault.caught]
    alarms = [
        f"{one.check} {one.subject}: {one.status} {one.found}"
        for one in rest
        if not (one.status == "could-not-run" and one.variant == "not-there")
    ]
    return Row(fault, machine.title, tuple(named), missed, alarms)

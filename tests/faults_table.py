"""The fault table as a page: `python -m tests.faults_table` writes docs/measurements/faults.md."""

from __future__ import annotations

from pathlib import Path

from llmhw_provision.checks import table
from llmhw_provision.checks.model import Level
from tests.assembled import Assembled
from tests.assembled_before import FRESH
from tests.assembled_classes import HEALTHY
from tests.assembled_recorded import RECORDED
from tests.assembled_stack import STACKED
from tests.faults import FAULTS, Row, findings, judged
from tests.faults_elsewhere import ELSEWHERE

PAGE = Path(__file__).resolve().parents[1] / "docs/measurements/faults.md"
_HEAD = """# Faults, and what finds them

Written by `python -m tests.faults_table`; a test compares it with what the checks say. No GPU took part: every machine
here is **assembled** from a reading of our own VM and outputs of GPU tools, fabric and services. Outputs are named
samples of a collection beside the checkout; what no sample shows is *written by us* in the layout of one, or a sample
edited. Each fault is seeded into one machine, then all checks of level quick run on it (of before or standard, where
the fault belongs there). A fault counts as caught when the named check says it with the right cause and **nothing
else** is alarmed: other checks pass, or say that what they ask about is not there and that another finding tells it.
Numbers such as B023 are our own list of cases.
"""


def page() -> str:
    """The whole page; raises NoSample."""
    rows = [judged(fault) for fault in FAULTS]
    wrong = [row.fault.what for row in rows if row.missed or row.alarms]
    machines = [build() for build in (*HEALTHY, *RECORDED, *STACKED)]
    own = sum(row.fault.origin == "written by us" for row in rows)
    checks = {check for row in rows for check in row.fault.caught}
    lines = [_HEAD, f"**{len(rows)} faults**, {len(rows) - own} of them public cases or samples."]
    lines += [
        f"{len(rows) - len(wrong)} are caught and named, with no other alarm. {len(checks)} of {len(table.CHECKS)}"
    ]
    lines += ["checks take part; the others are broken one by one in test_checks.py, test_checks_base.py and"]
    lines += ["test_before_checks.py of tests/unit.\n"]
    lines += ["| fault | case or sample | machine | found by | it says | likely cause |", "|---|---|---|---|---|---|"]
    lines += [_line(row) for row in rows]
    lines += [
        "\n## Healthy machines: no alarm\n",
        "| machine | questions | alarms | answers taken from |",
        "|---|---|---|---|",
    ]
    lines += [_healthy(machine) for machine in machines]
    lines += [_healthy(build(), "before") for build in FRESH]
    lines += ["\n## Not seeded\n", "| case or sample | why |", "|---|---|"]
    lines += [f"| {name} | {why} |" for name, why in sorted(ELSEWHERE.items())]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    found = row.named
    status = {one.check: one.status for one in found}
    by = "<br>".join(f"{check} ({status.get(check, 'MISSED')})" for check in row.fault.caught)
    says = "<br>".join(dict.fromkeys(_cell(one.found) for one in found))
    causes = "<br>".join(dict.fromkeys(_cell(one.cause) for one in found))
    return f"| {_cell(row.fault.what)} | {row.fault.origin} | {row.machine} | {by} | {says} | {causes} |"


def _healthy(machine: Assembled, level: Level = "standard") -> str:
    found = findings(machine, level)
    names = sorted({source for source in machine.parts.values() if "/" in source})
    alarms = sum(one.status != "pass" for one in found)
    return f"| {machine.title} | {len(found)} | {alarms} | {'; '.join(names) or 'written by us'} |"


def _cell(text: str) -> str:
    short = text if len(text) <= 160 else text[:157] + "..."
    return short.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

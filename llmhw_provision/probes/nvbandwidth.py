"""nvbandwidth: copy bandwidth of each GPU (text, and JSON with -j).

Forms by its source (v0.1 to v0.8): a heading per test, a matrix of columns by GPU, `N/A` where nothing is measured,
then SUM (or `&&&& PERF`); JSON cells are texts. "Waived:" means not run, never passed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format
from llmhw_provision.probes.reading import json_object, unreadable
from llmhw_provision.probes.screen import below_the_rest, screen, shows

_RUN = ("host_to_device_memcpy_ce", "device_to_host_memcpy_ce", "device_to_device_memcpy_read_ce")
COMMAND = Command("nvbandwidth", ("nvbandwidth", "-j", "-t", *_RUN), 300)
_TOOL = "nvbandwidth"
_RUNNING = re.compile(r"^Running (\w+)\.$")
_MATRIX = re.compile(r"^mem(?:cpy|ory) .*\((?:GB/s|ns)\)$")
_COLUMNS = re.compile(r"^\s+\d+(?:\s+\d+)*$")
_ROW = re.compile(r"^\s*(\d+)((?:\s+(?:\d+(?:\.\d+)?|N/A))+)$")
_TOTAL = re.compile(r"^(?:&&&& PERF|SUM|MIN|MAX|AVG) \S+ \+?[\d.e+-]+(?: ?\S+)?$")
_STATUS = re.compile(r"^(Passed|Waived|Not Found|Error|ERROR)\b:?\s*(.*)$")
_FAILED = re.compile(
    r"^\[?(CUDA_ERROR_\w+|cudaError\w+)\]?|^ASSERT in expression|^NVML_ERROR: |^Invalid value when checking"
)
_REMARK = re.compile(r"^NOTE: |^Performance can vary")
_KINDS = (("host_to_device_memcpy", "h2d"), ("device_to_host_memcpy", "d2h"), ("device_to_device_memcpy_", "p2p"))
_TOLERANCE = 0.10  # a GPU this far below its peers is out of line; healthy peers differ by 1 to 2 %


@dataclass
class Test:
    """One test: status, and cells by row (None where nothing was measured)."""

    name: str
    status: str = "Running"
    unit: str = ""
    columns: int = 0
    rows: list[list[float | None]] = field(default_factory=list)
    square: bool = True
    closed: bool = False

    def values(self) -> list[float]:
        """All measured cells."""
        return [cell for row in self.rows for cell in row if cell is not None]


def parse(raw: bytes) -> tuple[dict[str, str], list[Test], str]:
    """What the output says of itself (driver, version), its tests, and the error that ended it (empty when none)."""
    about: dict[str, str] = {}
    tests: list[Test] = []
    error = ""
    matrix: Test | None = None
    for line in screen(_TOOL, raw):
        running, status, failed, row = _RUNNING.match(line), _STATUS.match(line), _FAILED.match(line), _ROW.match(line)
        if running:
            tests.append(Test(running[1]))
            matrix = None
        elif failed:
            error = failed[1] or line
        elif not tests:
            key, colon, value = line.partition(": ")
            if colon and re.fullmatch(r"[A-Za-z ]+(?:\d+)?", key):
                about[key] = value
        elif _MATRIX.match(line):
            matrix = _begin(tests, line)
        elif status:
            if tests[-1].rows or tests[-1].status != "Running":  # older versions do not name what they waive
                tests.append(Test("(not named)"))
            tests[-1].status = {"ERROR": "Error"}.get(status[1], status[1])
        elif matrix and not matrix.columns and _COLUMNS.match(line):
            matrix.columns = len(line.split())
        elif matrix and matrix.columns and row:
            _add(matrix, row, line)
        elif not line.strip() or _TOTAL.match(line) or _REMARK.match(line):
            tests[-1].closed |= bool(tests[-1].rows)
        else:
            raise unreadable(_TOOL, line)
    for test in tests:
        _whole(test, error)
    if not tests and not error:
        raise unreadable(_TOOL, raw.decode("utf-8", "replace")[:80], "no test: cut off")
    return about, tests, error


def _begin(tests: list[Test], line: str) -> Test:
    """The test that a matrix heading belongs to; bidirectional copies have three."""
    part = re.search(r"\b(Read1|Read2|Write1|Write2|Total) bandwidth", line)
    if tests[-1].rows or tests[-1].columns:
        tests.append(Test(tests[-1].name.partition(":")[0]))
    tests[-1].name += f":{part[1].lower()}" if part else ""
    tests[-1].unit = line.rpartition("(")[2].rstrip(")")
    tests[-1].square = "GPU(row)" in line
    return tests[-1]


def _add(test: Test, row: re.Match[str], line: str) -> None:
    cells = row[2].split()
    if len(cells) != test.columns or int(row[1]) != len(test.rows) or test.closed:
        raise unreadable(_TOOL, line, "cells do not match the columns")
    values = [None if cell == "N/A" else float(cell) for cell in cells]
    if test.square and values[len(test.rows)] == 0:  # how the first versions say N/A
        values[len(test.rows)] = None
    test.rows.append(values)


def _whole(test: Test, error: str) -> None:
    if test.columns and (len(test.rows) == test.columns if test.square else test.closed or len(test.rows) == 1):
        test.status = "Passed" if test.status == "Running" else test.status
    elif test.columns or (test.status == "Running" and not error):
        raise unreadable(_TOOL, f"{test.name}: {len(test.rows)} of {test.columns} rows", "cut off")


def parse_json(raw: bytes) -> tuple[dict[str, str], list[Test], str]:
    """The same from `nvbandwidth -j`."""
    root = json_object(_TOOL, raw).get("nvbandwidth")
    if not isinstance(root, dict):
        raise unreadable(_TOOL, raw.decode("utf-8", "replace")[:80], "no 'nvbandwidth' object")
    tests: list[Test] = []
    for item in root.get("testcases") or ():
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise unreadable(_TOOL, str(item)[:80], "not a test case")
        test = Test(item["name"], str(item.get("status", "")), square="device_to_device" in item["name"])
        for row in item.get("bandwidth_matrix") or ():
            test.rows.append([_cell(cell) for cell in row] if isinstance(row, list) else [_cell(row)])
        if test.status == "Passed" and not test.values():
            raise unreadable(_TOOL, test.name, "passed without a value")
        tests.append(test)
    return {key: str(value) for key, value in root.items() if key != "testcases"}, tests, str(root.get("error", ""))


def _cell(cell: object) -> float | None:
    if cell == "N/A":
        return None
    try:
        return float(str(cell))
    except ValueError:
        raise unreadable(_TOOL, f"cell {cell!r}", "not a number") from None


def _by_gpu(test: Test) -> dict[str, float]:
    """Each GPU's value; between GPUs its best pair, so that distance in the machine does not count."""
    if len(test.rows) == 1:
        return {f"GPU{place}": cell for place, cell in enumerate(test.rows[0]) if cell is not None}
    best = {f"GPU{place}": [cell for cell in row if cell is not None] for place, row in enumerate(test.rows)}
    return {gpu: max(cells) for gpu, cells in best.items() if cells}


def _facts(about: dict[str, str], tests: list[Test], error: str) -> dict[str, object]:
    facts: dict[str, object] = {"tests": {test.name: test.status for test in tests}}
    measured = [test for test in tests if test.values()]
    bad: dict[str, float] = {}
    for test in measured:
        values = test.values()
        facts |= {test.name: min(values), f"{test.name}_sum": round(sum(values), 2)}
        kind = next((kind for name, kind in _KINDS if test.name.startswith(name)), None)
        if kind and "bidirectional" not in test.name and "latency" not in test.name:
            facts.setdefault(kind, min(values))
            facts.setdefault(f"{kind}_min", min(values))
            facts.setdefault(f"{kind}_max", max(values))
        if "latency" not in test.name and test.unit != "ns":
            each = _by_gpu(test)
            for gpu in below_the_rest(each, _TOLERANCE):
                bad[gpu] = min(each[gpu], bad.get(gpu, each[gpu]))
    if len(measured) == 1:
        facts |= {"min": min(measured[0].values()), "max": max(measured[0].values())}
        facts["gpus"] = max(len(row) for row in measured[0].rows)
    elif measured:
        facts["gpus"] = max(len(row) for test in measured for row in test.rows)
    for key, name in (("Driver Version", "driver"), ("nvbandwidth Version", "version"), ("version", "version")):
        if key in about:
            facts[name] = about[key]
    facts["waived"] = [test.name for test in tests if test.status == "Waived"]
    failed = [test.name for test in tests if test.status in ("Error", "Not Found")]
    facts |= {"bad": bad, "failed": failed}
    if error or failed:
        facts["error"] = "cuda_802" if "SYSTEM_NOT_READY" in error or "SystemNotReady" in error else "failed"
    facts["verdict"] = "fail" if error or failed or bad else "pass" if measured else "not tested"
    return facts


def facts(raw: bytes) -> dict[str, object]:
    """Least (and greatest) bandwidth by direction in GB/s; GPUs that fall behind their peers; tests not run."""
    return _facts(*parse(raw))


def facts_json(raw: bytes) -> dict[str, object]:
    """The same from JSON."""
    return _facts(*parse_json(raw))


FORMATS: tuple[Format, ...] = (
    Format("nvbandwidth -j", shows(r'[ \t{]*"nvbandwidth"[ \t]*:[ \t]*\{'), facts_json),
    Format("nvbandwidth", shows(r"nvbandwidth Version: |Running \w*(?:memcpy|latency|local_copy)\w*\.$"), facts),
)

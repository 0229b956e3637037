"""`dcgmi diag`, text and JSON, of DCGM 2 to 4.

Text is a table of 46 columns whose messages break inside words; DCGM 4 has lower-case names and a row a GPU. JSON has
"DCGM GPU Diagnostic" with gpu_ids as text up to 3.x, "DCGM Diagnostic" with entity_id after. A skipped test is not a
passed one: on GeForce all of them are skipped, exit status 0.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format
from llmhw_provision.probes.reading import json_object, unreadable
from llmhw_provision.probes.screen import screen, shows

QUICK = Command("dcgm-diag-1", ("dcgmi", "diag", "-r", "1", "-j"), 120)
_TOOL = "dcgmi diag"
_ROW = re.compile(r"^\| (.{25}) \| (.{1,46}?)\s*\|$")
_SECTION = re.compile(r"^[|+]-----  (\w+)  -+\+-+[|+]$")
_BORDER = re.compile(r"^\+[-=]+\+[-=]+\+$")
_RESULT = re.compile(r"^(Pass|Fail|Skip|Warn|Not Run)(?: - (?:(All)|GPUs?: ([\d, ]+)))?$")
_ENTITY = re.compile(r"^(GPU|NvSwitch|CPU|ConnectX)\s?(\d+): (Pass|Fail|Skip|Warn|Not Run)$")
_MESSAGE = re.compile(r"^(Error|Warning|Info|EUD Version)(?:: .*)?$")
_SHORT = {"Page Retirement/Row Remap": "row remap"}
_WIDTH = 45


@dataclass
class Test:
    """One test: section, statuses (by GPU number, or "" for all), messages by kind."""

    section: str
    name: str
    statuses: dict[str, str] = field(default_factory=dict)
    messages: list[tuple[str, str]] = field(default_factory=list)


def parse(raw: bytes) -> tuple[dict[str, str], list[Test]]:
    """Metadata and tests of the text form; raises ProbeError when the table has no lower border."""
    about: dict[str, str] = {}
    tests: list[Test] = []
    section, last = "", ""
    text = [line for line in screen(_TOOL, raw) if line.strip()]
    for line in text:
        row, heading = _ROW.match(line), _SECTION.match(line)
        if heading:
            section, last = heading[1], ""
        elif row and row[1].strip() == "Diagnostic" and row[2] == "Result":
            continue
        elif row and section == "Metadata":
            last = row[1].strip() or last
            about[last] = about.get(last, "") + row[2].ljust(_WIDTH if row[1].strip() == "" else 0)
        elif row:
            last = row[1].strip() or last
            _take(tests, section, row[1].strip(), last, row[2], line)
        elif not _BORDER.match(line) and (line.startswith("|") or tests):
            raise unreadable(_TOOL, line)
    if not tests or not _BORDER.match(text[-1]) or "=" in text[-1]:
        raise unreadable(_TOOL, text[-1] if text else "", "no lower border: cut off")
    return {key: value.strip() for key, value in about.items()}, tests


def _take(tests: list[Test], section: str, name: str, last: str, said: str, line: str) -> None:
    if name and not _MESSAGE.match(name):
        tests.append(Test(section, name))
    if not tests:
        raise unreadable(_TOOL, line, "a result without a test")
    test = tests[-1]
    result, entity = _RESULT.match(said.strip()), _ENTITY.match(said.strip())
    kind = _MESSAGE.match(name)
    if kind:
        test.messages.append((kind[1], said))
    elif entity:
        test.statuses[_entity(entity[1], entity[2])] = entity[3]
    elif result and (name or not _MESSAGE.match(last)):
        numbers = re.findall(r"\d+", result[3] or "")
        for number in numbers or [""]:
            test.statuses[number] = result[1]
    elif not name and test.messages and _MESSAGE.match(last):
        label, before = test.messages[-1]
        test.messages[-1] = (label, before.ljust(_WIDTH * (1 + (len(before) - 1) // _WIDTH)) + said)
    elif not name and re.fullmatch(r"[\d, ]+", said) and test.statuses:
        status = list(test.statuses.values())[-1]
        test.statuses |= dict.fromkeys(re.findall(r"\d+", said), status)
    else:
        raise unreadable(_TOOL, line)


def parse_json(raw: bytes) -> tuple[dict[str, str], list[Test]]:
    """The same from `-j`; a line of text before the object is skipped."""
    start = raw.find(b"{")
    root = json_object(_TOOL, raw[max(start, 0) :])
    top = root.get("DCGM GPU Diagnostic", root.get("DCGM Diagnostic"))
    if not isinstance(top, dict):
        raise unreadable(_TOOL, json.dumps(root)[:80], "no diagnostic")
    about = {key: str(value) for key, value in top.items() if isinstance(value, str | int)}
    meta = root.get("metadata") or top.get("metadata")
    about |= {key: str(value) for key, value in meta.items()} if isinstance(meta, dict) else {}
    tests: list[Test] = []
    for category in top.get("test_categories") or ():
        if not isinstance(category, dict):
            raise unreadable(_TOOL, str(category)[:80], "not a category")
        for item in category.get("tests") or ():
            if item is not None:
                tests.append(_json_test(str(category.get("category", "")), item))
    return about, tests


def _json_test(section: str, item: Any) -> Test:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        raise unreadable(_TOOL, str(item)[:80], "not a test")
    test = Test(section, item["name"])
    for result in item.get("results") or ():
        status = result.get("status") if isinstance(result, dict) else None
        if not isinstance(status, str):
            raise unreadable(_TOOL, str(result)[:80], "a result without status")
        ids = str(result.get("entity_id", result.get("gpu_ids", result.get("gpu_id", ""))))
        for number in ids.split(",") or [""]:
            test.statuses[_entity(str(result.get("entity_group", "GPU")), number.strip())] = _status(status)
        for key, kind in (("warnings", "Warning"), ("info", "Info")):
            said = result.get(key) or []
            for message in said if isinstance(said, list) else [said]:
                test.messages.append(
                    (kind, str(message.get("warning", message) if isinstance(message, dict) else message))
                )
    summary = item.get("test_summary")
    if isinstance(summary, dict) and isinstance(summary.get("status"), str):
        told = _status(summary["status"])
        if not test.statuses or (told == "Fail" and "Fail" not in test.statuses.values()):
            test.statuses[""] = told
    return test


def _entity(kind: str, number: str) -> str:
    """A GPU by its number, anything else with its kind."""
    return number if kind == "GPU" or not number else f"{kind}{number}"


def _status(said: str) -> str:
    known = {"pass": "Pass", "fail": "Fail", "skip": "Skip", "skipped": "Skip", "warn": "Warn", "notrun": "Not Run"}
    found = known.get(re.sub(r"[\s_]", "", said.lower()))
    if found is None:
        raise unreadable(_TOOL, f"status {said}")
    return found


def _named(test: Test, wanted: str) -> list[str]:
    name = _SHORT.get(test.name, test.name)
    found = [number for number, status in test.statuses.items() if status == wanted]
    numbered = [number for number in found if number]
    if not numbered and found:
        numbered = list(dict.fromkeys(n for _, text in test.messages for n in re.findall(r"\bGPU (\d+)\b", text)))
    return [f"{name} {f'GPU{one}' if one.isdecimal() else one}" for one in numbered] or ([name] if found else [])


def _facts(about: dict[str, str], tests: list[Test]) -> dict[str, object]:
    fail = [name for test in tests for name in _named(test, "Fail")]
    warn = [name for test in tests for name in _named(test, "Warn")]
    skipped = [test.name for test in tests if test.statuses and set(test.statuses.values()) <= {"Skip", "Not Run"}]
    beyond = [test for test in tests if test.section != "Deployment" and test.name != "software"]
    warnings = [text.strip() for test in tests for kind, text in test.messages if kind in ("Warning", "Error")]
    facts: dict[str, object] = {"fail": fail, "warn": warn, "skipped": skipped, "messages": warnings}
    error = about.get("runtime_error") or about.get("Error")
    if fail or error:
        facts["verdict"] = "fail"
    elif not tests or (beyond and all(test.name in skipped for test in beyond)):
        facts["verdict"] = "not tested"
    else:
        facts["verdict"] = "warn" if warn or warnings else "pass"
    if error:
        facts["error"] = error
    facts["tests"] = {_SHORT.get(test.name, test.name): _worst(test) for test in tests}
    for keys, name in (
        (("DCGM Version", "version"), "dcgm"),
        (("Driver Version Detected", "Driver Version", "driver_version"), "driver"),
    ):
        value = next((about[key] for key in keys if key in about), None)
        if value and re.fullmatch(r"\d+(?:\.\d+)+", value):
            facts[name] = value
    ids = about.get("GPU Device IDs Detected") or about.get("GPU Device IDs")
    if ids:
        facts["gpus"] = [part.strip() for part in ids.split(",") if part.strip()]
    return facts


def _worst(test: Test) -> str:
    order = ("Fail", "Warn", "Not Run", "Skip", "Pass")
    return min(test.statuses.values(), key=order.index, default="Not Run")


def facts(raw: bytes) -> dict[str, object]:
    """Failures as `test GPUn`, skipped tests, messages, and a verdict; all skipped is `not tested`."""
    return _facts(*parse(raw))


def facts_json(raw: bytes) -> dict[str, object]:
    """The same from JSON."""
    return _facts(*parse_json(raw))


FORMATS: tuple[Format, ...] = (
    Format("dcgmi diag -j", shows(r'[ \t{]*"DCGM (?:GPU )?Diagnostic"[ \t]*:'), facts_json),
    Format(
        "dcgmi diag",
        shows(r"\| Diagnostic {16}\| Result|[|+]-----  (?:Metadata|Deployment|Integration|Hardware|Stress)  -"),
        facts,
    ),
)

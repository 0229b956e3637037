"""Storage throughput from `fio --output-format=json`.

fio writes notes before the JSON on standard output. Bandwidth is summed over the jobs it reports. A target under /dev
that is no block device is created as a file in memory: such a run names no disk under disk_util and must not pass.
"""

from __future__ import annotations

import re
from typing import Any

from llmhw_provision.probes.format import Format, holds
from llmhw_provision.probes.reading import (
    exact,
    json_object,
    last_line,
    number,
    plain_lines,
    rows,
    table,
    unreadable,
    whole,
)

_START = re.compile(rb"^\{[ \t\r]*$|^\{\s*\"fio version\"", re.MULTILINE)
_JOB = re.compile(r"^(\S.*): \(groupid=[0-9]+, jobs=[0-9]+\): err=\s*([0-9]+)")
_TOTAL = re.compile(r"^\s*(READ|WRITE|TRIM): bw=\S+ \(([0-9.]+)([kMGT]?B)/s\), ")
_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_DIRECTIONS = ("read", "write", "trim")


def facts(raw: bytes) -> dict[str, object]:
    """Bandwidth in bytes/s and IOPS by direction, summed; jobs, target, whether text preceded the JSON."""
    start = _START.search(raw)
    if not start:
        raise unreadable("fio", raw[:80].decode("utf-8", "replace"), "no JSON")
    document = json_object("fio", raw[start.start() :])
    jobs = rows(document.get("jobs"), "fio", "jobs")
    if not jobs:
        raise unreadable("fio", "jobs []", "no job")
    errors = [job.get("jobname") for job in jobs if whole("fio", job.get("error"), "error") != 0]
    found: dict[str, object] = {
        "rc": 1 if errors else 0,
        "jobs": len(jobs),
        "leading_text": raw[: start.start()].strip() != b"",
        "version": document.get("fio version"),
        "error": bool(errors),
    }
    moved = 0
    for direction in _DIRECTIONS:
        parts = [_rates(job, direction) for job in jobs if direction in job]
        bandwidth = sum(part[0] for part in parts)
        moved += bandwidth
        found[f"{direction}_bw_bytes"] = found[f"sum_{direction}_bw_bytes"] = bandwidth
        found[f"{direction}_iops"] = sum(part[1] for part in parts)
    targets = sorted({name for name in (_target(document, job) for job in jobs) if name})
    found |= {"gb_s": exact(round(moved / 1e9, 6)), "targets": targets}
    return found | {"verdict": _verdict(targets, document, failed=bool(errors))}


def _rates(job: dict[str, Any], direction: str) -> tuple[int, float]:
    part = table(job[direction], "fio", direction)
    if "bw_bytes" in part:
        bandwidth = whole("fio", part["bw_bytes"], "bw_bytes")
    else:  # fio 2: KiB/s only
        bandwidth = int(number("fio", part.get("bw"), "bw") * 1024)
    return bandwidth, number("fio", part.get("iops"), "iops")


def _target(document: dict[str, Any], job: dict[str, Any]) -> str:
    options = {**_options(document.get("global options")), **_options(job.get("job options"))}
    return str(options.get("filename", ""))


def _options(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _verdict(targets: list[str], document: dict[str, Any], *, failed: bool) -> str:
    if failed:
        return "fail"
    if any(target.startswith("/dev/") for target in targets) and not document.get("disk_util"):
        return "must fail: test -b first"
    return "pass"


def text_facts(raw: bytes) -> dict[str, object]:
    """The same from fio's text for people, whose bandwidths have three digits; jobs are those of its groups."""
    text = plain_lines("fio", raw)
    jobs = [match for match in map(_JOB.match, text) if match]
    totals = [match for match in map(_TOTAL.match, text) if match]
    groups = [line for line in text if line.startswith("Run status group ")]
    if not jobs or not totals or len(groups) != len(set(groups)):
        raise unreadable("fio", last_line(raw), "no job, no summary, or several reports")
    found: dict[str, object] = {"jobs": len(jobs), "error": any(match[2] != "0" for match in jobs)}
    found["version"] = next((line.strip() for line in text if re.fullmatch(r"fio-[0-9]\S*", line.strip())), None)
    for direction in _DIRECTIONS:
        parts = [int(float(match[2]) * _UNITS[match[3]]) for match in totals if match[1].lower() == direction]
        found[f"{direction}_bw_bytes"] = found[f"sum_{direction}_bw_bytes"] = sum(parts)
    moved = sum(int(float(match[2]) * _UNITS[match[3]]) for match in totals)
    return found | {
        "gb_s": exact(round(moved / 1e9, 6)),
        "rc": int(bool(found["error"])),
        "verdict": _text_verdict(found, text),
    }


def _text_verdict(found: dict[str, object], text: list[str]) -> str:
    if found["error"]:
        return "fail"
    return "pass" if any(line.startswith("Disk stats (read/write):") for line in text) else "not tested"


FORMATS = (
    Format("fio", holds(rb"^\S[^:\n]*: \(g=[0-9]+\): rw=\w+, "), text_facts),
    Format("fio --output-format=json", holds(rb'^\{\s*"fio version"\s*:'), facts),
)

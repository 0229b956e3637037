"""Storage throughput from `fio --output-format=json`.

fio writes notes before the JSON on standard output. Bandwidth is summed over the jobs it reports. A target under /dev
that is no block device is created as a file in memory: such a run names no disk under disk_util and must not pass.
"""

from __future__ import annotations

import re
from typing import Any

from llmhw_provision.probes.format import Format, holds
from llmhw_provision.probes.reading import exact, json_object, number, rows, table, unreadable, whole

_START = re.compile(rb"^\{\s*$|^\{\s*\"fio version\"", re.MULTILINE)
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


FORMATS = (Format("fio --output-format=json", holds(rb'^\{\s*"fio version"\s*:'), facts),)

"""nccl-tests' JSON report (`-J FILE`, since October 2025). It holds the whole environment: never keep or show it."""

from __future__ import annotations

import math
from typing import Any

from llmhw_provision.probes.format import Format
from llmhw_provision.probes.nccl_tests import Row, Run, run_facts
from llmhw_provision.probes.reading import json_object, number, unreadable
from llmhw_provision.probes.screen import shows

_TOOL = "nccl-tests JSON"


def parse(raw: bytes) -> Run:
    """The run in the report; raises ProbeError when a result lacks what it must have."""
    root = json_object(_TOOL, raw)
    results, config = root.get("results"), root.get("config")
    if not isinstance(results, list) or not isinstance(config, dict):
        raise unreadable(_TOOL, ", ".join(root)[:80], "no results")
    run = Run(columns=["#wrong"], rows=[_row(item) for item in results])
    if not run.rows:
        raise unreadable(_TOOL, "results", "no row")
    step = config.get("step_factor", config.get("step_bytes", 0))
    run.setup = tuple(
        int(value) if isinstance(value, int) else 0
        for value in (
            config.get("nthreads", 1),
            config.get("ngpus", 1),
            config.get("minimum_bytes", 0),
            config.get("maximum_bytes", 0),
            step,
            "step_factor" in config,
        )
    )
    for device in config.get("devices") or ():
        if not isinstance(device, dict) or not isinstance(device.get("rank"), int):
            raise unreadable(_TOOL, str(device)[:80], "not a device")
        run.ranks.append((device["rank"], str(device.get("hostname", "")), str(device.get("device_info", ""))))
    bounds, average = root.get("out_of_bounds"), root.get("average_bus_bandwidth")
    if isinstance(bounds, dict) and isinstance(bounds.get("count"), int):
        run.bounds = (bounds["count"], "FAILED" if bounds["count"] else "OK")
    if isinstance(average, dict) and isinstance(average.get("bandwidth"), int | float):
        run.average = float(average["bandwidth"])
        run.average_said = {"true": "OK", "false": "FAILED"}.get(str(average.get("okay")), "")
    version = root.get("nccl_version")
    if isinstance(version, int) and version >= 10000:
        run.nccl = f"{version // 10000}.{version // 100 % 100}.{version % 100}"
    args = root.get("args")
    if isinstance(args, list) and args:
        run.name = str(args[0]).rpartition("/")[2].removesuffix("_perf").removesuffix("_perf_mpi")
    errors = [item for item in root.get("errors") or () if item]
    run.error = "nccl_failure" if errors else ""
    return run


def _row(item: Any) -> Row:
    if not isinstance(item, dict) or not isinstance(item.get("size"), int) or not isinstance(item.get("count"), int):
        raise unreadable(_TOOL, str(item)[:80], "not a result")
    sides = [item.get("out_of_place"), item.get("in_place")]
    values = [[_bandwidth(side, key) for side in sides] for key in ("alg_bw", "bus_bw")]
    texts = ["N/A" if count is None else f"{count:g}" for count in (_counted(side) for side in sides)]
    return Row(
        item["size"],
        item["count"],
        str(item.get("redop", "")),
        str(item.get("root", "")).strip(),
        (values[0][0], values[0][1]),
        (values[1][0], values[1][1]),
        (texts[0], texts[1]),
    )


def _counted(side: Any) -> float | None:
    """Wrong values of one side; None where they were not counted."""
    if not isinstance(side, dict) or side.get("nwrong") is None:
        return None
    return number(_TOOL, side["nwrong"], "nwrong")


def _bandwidth(side: Any, key: str) -> float | None:
    if side is None:
        return None
    value = side.get(key) if isinstance(side, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise unreadable(_TOOL, f"{key} {value!r}", "not a number")
    return float(value)


def facts(raw: bytes) -> dict[str, object]:
    """The same facts as from the table, without column names."""
    found = run_facts(parse(raw))
    return {key: value for key, value in found.items() if key not in ("columns", "fields_per_row", "prefix")}


FORMATS: tuple[Format, ...] = (
    Format("nccl-tests -J", shows(r'[ \t]*\{"version":\d+,"start_time":|.*"average_bus_bandwidth"\s*:'), facts),
)

"""RDMA bandwidth and latency from perftest (ib_write_bw, ib_read_bw, ib_send_bw and the _lat tools).

Without --report_gbits the column says MB/sec and means MiB/s (2^20). With -D the peak is 0: the average counts.
Server and client may write into one log; tables are found by their heading.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from llmhw_provision.probes.format import Format, holds
from llmhw_provision.probes.reading import exact, json_object, last_line, number, plain_lines, table, unreadable, whole

MIB = 1024**2
_TITLE = re.compile(r"^\s*(?:RDMA_Write|RDMA_Read|Send|Write|Read|Atomic|Raw Ethernet).*(?:BW|Latency) Test\s*$")
_HEADING = re.compile(r"^\s*#bytes\s+(#sl\s+)?#iterations\s+(.*)$")
_FAULT = re.compile(
    r"Couldn't connect to|Unable to (init the socket|find the Infiniband|open file descriptor for socket)|"
    r"Completion with error|Failed status [0-9]+|[Ff]ailed to (modify|create|connect|exchange|open)|"
    r"IB device .* not found|Did not detect devices|Couldn't (allocate|create|get|read|listen|init)|"
    r"Couldn't find|Unable to create|Problems with warm up|unable to establish connection|Connection refused",
    re.MULTILINE,
)
_SIZE = ((1 << 30, "g"), (1 << 20, "m"), (1 << 10, "k"))


@dataclass(frozen=True)
class Row:
    """One message size: peak and average as printed, in `unit` (MB/sec, which is MiB/s; Gb/sec or usec)."""

    size: int
    peak: float
    average: float
    unit: str


@dataclass(frozen=True)
class Test:
    """The tables of one log. `runs` above 1: server and client, or several tests, in one log."""

    rows: tuple[Row, ...]
    runs: int
    complete: bool
    device: str
    link_type: str


def parse(raw: bytes) -> Test:
    """The rows of all tables in order; raises ProbeError for a row that does not fit its heading."""
    text = plain_lines("perftest", raw)
    found: list[Row] = []
    heading = ""
    service_level = closed = False
    for line in text:
        if match := _HEADING.match(line):
            heading = match[2]
            service_level = bool(match[1])
        elif heading and re.match(r"^\s*[0-9]", line):
            found.append(_row(line, heading, service_level=service_level))
            closed = False
        elif re.match(r"^-{20,}\s*$", line):
            closed = True
    about = dict(
        pair
        for line in text
        for pair in re.findall(r"(Device|Link type)\s+: (\S+)", line)
        if _TITLE.match(line) is None
    )
    runs = max(1, sum(_TITLE.match(line) is not None for line in text))
    return Test(tuple(found), runs, bool(found) and closed, about.get("Device", ""), about.get("Link type", ""))


def _row(line: str, heading: str, *, service_level: bool) -> Row:
    units = re.findall(r"\[(MB/sec|MiB/sec|Gb/sec|usec)\]", heading)
    words = line.split()
    if service_level:
        del words[1:2]
    if not units or len(words) < 4:
        raise unreadable("perftest", line)
    values = [number("perftest", word, "column") for word in words[1:]]
    size = whole("perftest", words[0], "#bytes")
    if units[0] == "usec":
        typical = "t_typical" in heading and len(values) > 4
        return Row(size, values[3] if typical else values[1], values[4] if typical else values[1], "usec")
    return Row(size, values[1], values[2], units[0].replace("MiB", "MB"))  # the new name of the same unit


def gbit(row: Row) -> float:
    """Average in Gbit/s; where it is converted, two decimals and never rounded up."""
    return math.floor(row.average * MIB * 8 / 1e7) / 100 if row.unit == "MB/sec" else row.average


def label(size: int) -> str:
    """A message size as perftest's users write it: 64k, 8m."""
    return next((f"{size // step}{letter}" for step, letter in _SIZE if size >= step and size % step == 0), str(size))


def facts(raw: bytes) -> dict[str, object]:
    """Bandwidth at the largest message (gbps, mib_s, peak) and at each size; `interleaved` logs are said to be so."""
    if _FAULT.search(raw.decode("utf-8", "replace")):
        plain_lines("perftest", raw)
        return {"error": True}
    test = parse(raw)
    layout: dict[str, object] = {"interleaved": test.runs > 1}
    if not test.complete and test.runs > 1 and test.rows:
        return layout
    if not test.complete:
        raise unreadable("perftest", last_line(raw), "cut off")
    return {**layout, **_values(test.rows), "device": test.device, "link_type": test.link_type, "error": False}


def _values(found: tuple[Row, ...]) -> dict[str, object]:
    largest = max(found, key=lambda row: row.size)
    values: dict[str, object] = {"size": largest.size, "sizes": sorted({row.size for row in found})}
    if largest.unit == "usec":
        return values | {"lat_us": largest.peak} | {f"lat_us_{label(row.size)}": row.peak for row in found}
    values |= {"gbps": gbit(largest), "peak": largest.peak}
    for row in found:
        values[f"gbps_{label(row.size)}"] = gbit(row)
        if row.unit == "MB/sec":
            values[f"mib_s_{label(row.size)}"] = row.average
    return values | ({"mib_s": largest.average} if largest.unit == "MB/sec" else {})


def json_facts(raw: bytes) -> dict[str, object]:
    """Size, average and peak of the file that --out_json writes; it does not tell the unit of a bandwidth."""
    results = table(json_object("perftest", raw).get("results"), "perftest", "results")
    if "t_avg" in results:
        typical = number("perftest", results.get("t_typical", results["t_avg"]), "t_typical")
        return {"size": whole("perftest", results.get("MsgSize"), "MsgSize"), "lat_us": typical, "error": False}
    values = {key: number("perftest", results.get(key), key) for key in ("BW_peak", "BW_average")}
    size = whole("perftest", results.get("MsgSize"), "MsgSize")
    return {"size": size, "peak": exact(values["BW_peak"]), "average": exact(values["BW_average"]), "error": False}


FORMATS = (
    Format(
        "perftest",
        holds(rb"^[ \t]*(RDMA_Write|RDMA_Read|Send|Write|Read|Atomic|Raw Ethernet).*(BW|Latency) Test"),
        facts,
    ),
    Format("perftest table", holds(rb"^[ \t]*#bytes[ \t]+(#sl[ \t]+)?#iterations[ \t]+(BW|t_)"), facts),
    Format(
        "perftest --out_json",
        holds(rb'\A\s*\{\s*"test_info"[\s\S]*?"MsgSize"\s*:|\A\s*\{\s*"results"\s*:\s*\{\s*"MsgSize"'),
        json_facts,
    ),
    Format(
        "perftest error",
        holds(
            rb"^[ \t]*(Couldn't connect to \S+:[0-9]+|Unable to find the Infiniband|IB device \S+ not found|"
            rb"ethernet_read_keys|Unable to open file descriptor for socket)"
        ),
        facts,
    ),
)

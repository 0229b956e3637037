"""`nvidia-smi --query-gpu=... --format=csv`, and the list of fields that a driver knows (`--help-query-gpu`).

An unknown field fails the whole query, so ask for the list first. Cells like `[N/A]` or `[Unknown Error]` are no
values.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.format import Format
from llmhw_provision.probes.reading import output, unreadable
from llmhw_provision.probes.screen import absent, broken, common, inforom, screen, shows

FIELDS = Command("nvidia-smi-fields", ("nvidia-smi", "--help-query-gpu"), 20)
WANTED = (
    *("index", "name", "uuid", "serial", "pci.bus_id", "driver_version", "vbios_version", "memory.total", "pstate"),
    *("persistence_mode", "mig.mode.current", "ecc.mode.current"),
    *("pcie.link.gen.current", "pcie.link.gen.max", "pcie.link.width.current", "pcie.link.width.max"),
    *("temperature.gpu", "power.draw", "power.limit"),
)
QUERY = Command("nvidia-smi-gpus", ("nvidia-smi", f"--query-gpu={','.join(WANTED)}", "--format=csv"), 60)
COMMANDS = (FIELDS, QUERY)
_TOOL = "nvidia-smi CSV"
_HEAD = re.compile(r"^([a-zA-Z][\w]*(?:\.[\w]+)*)(?: \[([^\]]+)\])?$")
_FIELD = re.compile(r'^"([\w.]+)"(?: or "([\w.]+)")*')
_KNOWN = r"(?:index|name|gpu_name|uuid|gpu_uuid|timestamp|driver_version|count|serial|pid|process_name)"
_KNOWN += r"|(?:pci\.bus_id|gpu_bus_id|pstate|persistence_mode|compute_mode)"
_KNOWN += (
    r"|(?:pcie|memory|utilization|temperature|power|clocks|clocks_event_reasons|clocks_throttle_reasons|ecc)\.[\w.]+"
)
_KNOWN += r"|(?:fabric|remapped_rows|retired_pages|mig)\.[\w.]+"
_ANY = r"[a-zA-Z][\w.]*(?: \[[^\]\n]+\])?"
_FIRST_LINE = re.compile(rf"\s*(?:{_ANY}, )*(?:{_KNOWN})(?: \[[^\]\n]+\])?(?:, {_ANY})*[ \t]*\r?\n".encode())
_NUMBER = re.compile(r"^(-?\d+(?:\.\d+)?)(?: (?:MiB|W|MHz|%|us|C|ms))?$")
_PROCESSES = {"pid", "retired_pages.address"}  # lists that may be empty
_SAME = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id", "gpu_serial": "serial"}


@dataclass(frozen=True)
class Table:
    """Field names without units, and one dict of cells a row, as printed."""

    fields: tuple[str, ...]
    rows: tuple[dict[str, str], ...]


def parse(raw: bytes) -> Table:
    """The rows; raises ProbeError when a row has another number of cells than the heading."""
    text = [line for line in inforom(screen(_TOOL, raw))[0] if line.strip()]
    found = list(csv.reader(text, skipinitialspace=True))
    heads = [_HEAD.match(cell.strip()) for cell in found[0]] if found else []
    if not heads or not all(heads):
        raise unreadable(_TOOL, text[0] if text else "", "no heading")
    names = tuple(match[1] for match in heads if match)
    rows = []
    for cells, line in zip(found[1:], text[1:], strict=False):
        if cells == found[0]:
            raise unreadable(_TOOL, line, "the heading again")
        if len(cells) != len(names):
            raise unreadable(_TOOL, line, f"{len(cells)} cells under {len(names)} headings")
        rows.append(dict(zip(names, (cell.strip() for cell in cells), strict=True)))
    if not rows and not _PROCESSES & set(names):
        raise unreadable(_TOOL, text[0], "no rows")
    return Table(names, tuple(rows))


def number(cell: str) -> float | int | None:
    """The number in a cell, unit cut off; None when the cell holds none."""
    match = _NUMBER.match(cell)
    return None if not match else float(match[1]) if "." in match[1] else int(match[1])


def slow_link(row: dict[str, str]) -> str | None:
    """`gen4 x8` when the PCIe link of a row is below what it could be; None when it is not, or cannot be said.

    Width counts at any time; the generation only with it or at work (P0 to P2): an idle GPU runs at generation 1.
    """
    cells = [
        number(row.get(f"pcie.link.{what}", "")) for what in ("gen.current", "gen.max", "width.current", "width.max")
    ]
    if any(cell is None for cell in cells):
        return None
    gen, gen_max, width, width_max = (int(cell or 0) for cell in cells)
    awake = row["pstate"] in ("P0", "P1", "P2") if "pstate" in row else gen > 1
    if width < width_max or (gen < gen_max and awake):
        return f"gen{gen} x{width}"
    return None


# Cells that tell of a fault: the field, and the values it has then.
_FAULTS = (
    (
        re.compile(r"reasons\.(?:hw_slowdown|hw_thermal_slowdown|hw_power_brake_slowdown|sw_thermal_slowdown)$"),
        r"Active",
    ),
    (re.compile(r"^remapped_rows\.(?:pending|failure)$|^retired_pages\.pending$"), r"Yes|1"),
    (re.compile(r"^ecc\.errors\.uncorrected\..*total$"), r"[1-9][0-9]*"),
    (re.compile(r"^(?:gpu_)?recovery_action$"), r"(?i:.*(?:reset|reboot|drain).*)"),
)


def _unread(name: str, cell: str) -> bool:
    """Whether a cell could not be read by the tool, or says neither yes nor no where the question is that."""
    asked = _FAULTS[0][0].search(name) is not None
    return broken(cell) or (asked and cell not in ("Active", "Not Active") and not absent(cell))


def faults(row: dict[str, str]) -> list[str]:
    """Names of the fields of a row whose value is a fault of the GPU."""
    return [
        name for name, cell in row.items() for field, bad in _FAULTS if field.search(name) and re.fullmatch(bad, cell)
    ]


def recognise(raw: bytes) -> bool:
    """Whether the first line that is not empty is a list of field names, one of which every driver knows."""
    return _FIRST_LINE.match(raw) is not None


def facts(raw: bytes) -> dict[str, object]:
    """Columns, rows, GPUs; slow PCIe links by index; unreadable cells by index; fields that all rows share."""
    found = parse(raw)
    keys = [row.get("index", str(place)) for place, row in enumerate(found.rows)]
    if len(set(keys)) != len(keys):
        keys = [str(place) for place in range(len(found.rows))]
    each = dict(zip(keys, found.rows, strict=True))
    bad = {key: link for key, row in each.items() if (link := slow_link(row))}
    unread = {key: [name for name, cell in row.items() if _unread(name, cell)] for key, row in each.items()}
    unread = {key: names for key, names in unread.items() if names}
    wrong = {key: names for key, row in each.items() if (names := faults(row))}
    facts: dict[str, object] = {
        "columns": len(found.fields),
        "rows": len(found.rows),
        "gpus": keys,
        "bad": bad,
        "unreadable": unread,
        "faults": wrong,
        "verdict": "fail" if bad or unread or wrong else "pass",
    }
    corrupted = inforom(screen(_TOOL, raw))[1]
    if corrupted:
        facts |= {"inforom_corrupted": corrupted, "error": "inforom_corrupted", "verdict": "fail"}
    for name in found.fields:
        cells = {key: _cell(row[name]) for key, row in each.items() if not broken(row[name])}
        if cells:
            facts.setdefault(_SAME.get(name, name), common(dict(cells)))
    for name, key in (("driver_version", "driver"), ("name", "product"), ("memory.total", "memory_total_mib")):
        if name in facts:
            facts[key] = facts[name]
    return facts


def _cell(cell: str) -> object:
    value = number(cell)
    return None if absent(cell) and cell.lower() != "none" else cell if value is None else value


def parse_fields(raw: bytes) -> frozenset[str]:
    """The field names that --query-gpu accepts, both names where a field has two."""
    text = screen("nvidia-smi --help-query-gpu", raw)
    found = {name for line in text if _FIELD.match(line) for name in re.findall(r'"([\w.]+)"', line)}
    if not found or not any(line.startswith("List of valid properties") for line in text):
        raise unreadable("nvidia-smi --help-query-gpu", text[0] if text else "", "no list of properties")
    return frozenset(found)


def facts_fields(raw: bytes) -> dict[str, object]:
    """`has`: all field names."""
    return {"has": parse_fields(raw), "fields": len(parse_fields(raw))}


def gpus(evidence: Evidence) -> Table:
    """The host's GPUs with the fields of QUERY."""
    return parse(output(evidence, QUERY.key))


FORMATS: tuple[Format, ...] = (
    Format(
        "nvidia-smi --help-query-gpu",
        shows(r'List of valid properties to query for the switch "--query-'),
        facts_fields,
    ),
    Format("nvidia-smi --query-gpu", recognise, facts),
)

"""dcgmi beside diag: discovery, health, NVLink state, topology, dmon; and what it says when the host engine is down."""

from __future__ import annotations

import re

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format
from llmhw_provision.probes.reading import json_object, unreadable
from llmhw_provision.probes.screen import absent, common, screen, shows

DISCOVERY = Command("dcgm-discovery", ("dcgmi", "discovery", "-l"), 30)
HEALTH = Command("dcgm-health", ("dcgmi", "health", "-c"), 30)
NVLINK = Command("dcgm-nvlink", ("dcgmi", "nvlink", "--link-status"), 30)
COMMANDS = (DISCOVERY, HEALTH, NVLINK)
# Since 4.6 only active GPUs are listed unless all are asked for, and the count says which.
_COUNT = re.compile(r"^(\d+) (GPUs?|NvSwitch(?:es)?|CPUs?|ConnectX) found(?: \((?:Active|All)\))?\.$")
_ENTITIES = re.compile(r"^\s+(?:Link Entities: (?:N/A|[\d: ]+)|[\d:]+(?: +[\d:]+)*)$")
_CELLS = re.compile(r"^\|(.*)\|(.*)\|$")
_BORDER = re.compile(r"^\+[-=+]+\+$")
_LINKS = re.compile(r"^\s+([UDX_](?: [UDX_])*)$")
_WHOSE = re.compile(r"^\s+(gpuId|physicalId) (\d+):$")
_KEY = re.compile(r"^Key: Up=U, Down=D, Disabled=X")
_WORDS = (
    "one two three four five six seven eight nine ten "
    "eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen"
)
_NUMBERS = {word: count for count, word in enumerate(_WORDS.split(), start=1)}
_ERRORS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "host_engine_down",
        re.compile(r"unable to establish a connection to the specified host|Unable to connect to host engine", re.I),
    ),
    ("unsupported_gpu", re.compile(r"Unable to run diagnostic on unsupported GPU", re.I)),
    ("health_not_enabled", re.compile(r"Health watches not enabled", re.I)),
    ("diag_already_running", re.compile(r"diagnostic.*already running", re.I)),
    ("dcgm_error", re.compile(r"^Error: (?:unable to|could not|cannot)|^Error: Unable to", re.I | re.M)),
)


def facts_discovery(raw: bytes) -> dict[str, object]:
    """GPUs, NVSwitches, CPUs that the host engine sees; the counts must match the rows."""
    counts: dict[str, int] = {}
    gpus: list[dict[str, str]] = []
    kind, text = "", screen("dcgmi discovery", raw)
    for line in text:
        count, cells = _COUNT.match(line.strip()), _CELLS.match(line)
        if count:
            kind = count[2].lower().removesuffix("s").removesuffix("e")
            counts[kind] = int(count[1])
        elif cells and kind == "gpu":
            key, colon, value = cells[2].strip().partition(": ")
            if cells[1].strip().isdecimal():
                gpus.append({})
            if colon and gpus:
                gpus[-1][key] = value
        elif line.strip() and not line.startswith(("|", "+", "Note: Use -a flag")):
            raise unreadable("dcgmi discovery", line)
    whole = all({"Name", "PCI Bus ID", "Device UUID"} <= gpu.keys() for gpu in gpus)
    if "gpu" not in counts or len(gpus) != counts["gpu"] or not whole:
        raise unreadable(
            "dcgmi discovery", text[-1] if text else "", f"{len(gpus)} of {counts.get('gpu')} GPUs: cut off"
        )
    names = {f"GPU{place}": gpu["Name"] for place, gpu in enumerate(gpus)}
    facts: dict[str, object] = {
        "gpus": list(names),
        "name": common(dict(names)),
        "bus_ids": [gpu["PCI Bus ID"] for gpu in gpus],
    }
    hidden = any(line.startswith("Note: Use -a flag") for line in text)
    return facts | {"nvswitches": counts.get("nvswitch"), "cpus": counts.get("cpu"), "inactive_gpus": hidden}


def facts_health(raw: bytes) -> dict[str, object]:
    """Overall health, and each line of an incident as `what: how`."""
    if raw.lstrip().startswith(b"{"):
        body = json_object("dcgmi health", raw).get("body")
        overall = body.get("Overall Health", {}) if isinstance(body, dict) else {}
        state = overall.get("value", "") if isinstance(overall, dict) else ""
        rows = [(str(key), "") for key in body if key != "Overall Health"] if isinstance(body, dict) else []
    else:
        text = screen("dcgmi health", raw)
        rows = [(cells[1].strip(" ->"), cells[2].strip()) for cells in map(_CELLS.match, text) if cells]
        if not _BORDER.match(text[-1]) or "=" in text[-1]:
            raise unreadable("dcgmi health", text[-1], "no lower border: cut off")
        state = next((value for name, value in rows if name == "Overall Health"), "")
        old = re.search(r"Overall Health: (\w+)", "\n".join(text))
        state = state or (old[1] if old else "")
    if state not in ("Healthy", "Warning", "Failure"):
        raise unreadable("dcgmi health", state, "no overall health")
    incidents = [f"{name}: {value}".strip(": ") for name, value in rows if name != "Overall Health" and (name or value)]
    verdict = {"Healthy": "pass", "Warning": "warn", "Failure": "fail"}[state]
    return {"overall_health": state, "overall": state, "incidents": incidents, "verdict": verdict}


def facts_link_status(raw: bytes) -> dict[str, object]:
    """Links up and down by GPU, and of the switches; the key line must close the output."""
    tool = "dcgmi nvlink"
    text = screen(tool, raw)
    links: dict[str, str] = {}
    key = ""
    for line in text:
        whose, states = _WHOSE.match(line), _LINKS.match(line)
        if whose:
            key = ("GPU" if whose[1] == "gpuId" else "NvSwitch") + whose[2]
        elif states and key:
            links[key], key = states[1].replace(" ", ""), ""
        elif not key and _ENTITIES.match(line):
            continue
        elif key or (line.strip() and not re.match(r"^[+|]|^GPUs:$|^NvSwitches:$|^\s+No .* found\.$|^Key: ", line)):
            raise unreadable(tool, line)
    if not any(_KEY.match(line) for line in text) or not links:
        raise unreadable(tool, text[-1] if text else "", "no key line: cut off")
    gpus = {name: states for name, states in links.items() if name.startswith("GPU")}
    down = sum(states.count("D") for states in links.values())
    facts: dict[str, object] = {
        "gpus": list(gpus),
        "down": down,
        "up": sum(states.count("U") for states in gpus.values()),
    }
    facts["links_per_gpu"] = common({name: len(states.replace("_", "")) for name, states in gpus.items()})
    facts["active_per_gpu"] = common({name: states.count("U") for name, states in gpus.items()})
    facts["disabled"] = sum(states.count("X") for states in links.values())
    bad = {name: [place for place, state in enumerate(states) if state == "D"] for name, states in links.items()}
    facts["inactive"] = {name: places for name, places in bad.items() if places}
    return facts | {
        "nvswitches": len(links) - len(gpus),
        "verdict": "fail" if down else "pass" if facts["up"] else "not tested",
    }


def facts_link_errors(raw: bytes) -> dict[str, object]:
    """`dcgmi nvlink -e`: error counters of one GPU by link."""
    text = screen("dcgmi nvlink -e", raw)
    counters: dict[str, dict[str, int]] = {}
    link = ""
    for line in text:
        cells = _CELLS.match(line)
        if cells:
            name, value = cells[1].strip(" ->"), cells[2].strip()
            if re.fullmatch(r"Link \d+", name):
                link = name
            elif link and value.isdecimal():
                counters.setdefault(link, {})[name] = int(value)
            elif value and link:
                raise unreadable("dcgmi nvlink -e", line)
    if not counters or not _BORDER.match(text[-1]) or "=" in text[-1]:
        raise unreadable("dcgmi nvlink -e", text[-1] if text else "", "no counters, or cut off")
    raised = {link: {name: count for name, count in names.items() if count} for link, names in counters.items()}
    raised = {link: names for link, names in raised.items() if names}
    total = sum(count for names in counters.values() for count in names.values())
    return {"links": len(counters), "errors": total, "nonzero": raised, "verdict": "warn" if total else "pass"}


def facts_topo(raw: bytes) -> dict[str, object]:
    """`dcgmi topo`: CPU affinity, path and NVLinks to each other GPU."""
    text = screen("dcgmi topo", raw)
    cpu, peer = "", ""
    paths: dict[str, str] = {}
    links: dict[str, int] = {}
    for cells in (cells for cells in map(_CELLS.match, text) if cells):
        name, value = cells[1].strip(), cells[2].strip()
        if name == "CPU Core Affinity" or (cpu and not name and not peer):
            cpu += value
        elif name.startswith("To GPU "):
            peer = f"GPU{name[7:]}"
            paths[peer] = value
        count = re.match(r"Connected via (\w+) NVLINKs? \(Links?: ", value)
        if peer and count and count[1] in _NUMBERS:
            links[peer] = _NUMBERS[count[1]]
    if not cpu or not _BORDER.match(text[-1]) or "=" in text[-1]:
        raise unreadable("dcgmi topo", text[-1] if text else "", "no affinity, or cut off")
    return {"cpu_affinity": re.sub(r"\s", "", cpu), "paths": paths, "nvlinks": links, "peers": list(paths)}


def facts_dmon(raw: bytes) -> dict[str, object]:
    """`dcgmi dmon`: the last value of each column by entity; N/A is None."""
    columns: list[str] = []
    last: dict[str, dict[str, float | None]] = {}
    rows = 0
    for line in screen("dcgmi dmon", raw):
        words = line.split()
        if line.startswith(("#Entity", "# Entity")):
            columns = line.replace("# Entity", "#Entity").split()[1:]
        elif len(words) >= 2 and words[0] in ("GPU", "GPU-I", "GPU-CI", "Switch", "CPU") and words[1].isdecimal():
            if len(words) - 2 != len(columns) or not columns:
                raise unreadable("dcgmi dmon", line, f"{len(words) - 2} cells under {len(columns)} headings")
            last["".join(words[:2])] = {
                name: _number(cell, line) for name, cell in zip(columns, words[2:], strict=True)
            }
            rows += 1
        elif words and words[0] not in ("ID", "Id"):
            raise unreadable("dcgmi dmon", line)
    if not last:
        raise unreadable("dcgmi dmon", "", "no row")
    return {"columns": columns, "rows": rows, "gpus": [name for name in last if name.startswith("GPU")], "last": last}


def _number(cell: str, line: str) -> float | None:
    if absent(cell):
        return None
    if not re.fullmatch(r"-?\d+(?:\.\d+)?", cell):
        raise unreadable("dcgmi dmon", line)
    return float(cell)


def facts_error(raw: bytes) -> dict[str, object]:
    """What dcgmi says instead of an answer."""
    text = raw.decode("utf-8", "replace")
    name = next((name for name, pattern in _ERRORS if pattern.search(text)), None)
    if name is None:
        raise unreadable("dcgmi", text)
    return {"error": name, "verdict": "not tested" if name == "unsupported_gpu" else "fail"}


FORMATS: tuple[Format, ...] = (
    Format("dcgmi discovery", shows(r"[ \t]*\d+ GPUs? found(?: \((?:Active|All)\))?\.$"), facts_discovery),
    Format(
        "dcgmi health", shows(r"\| (?:Health Monitor Report|Overall Health)|.*\"Health Monitor Report\""), facts_health
    ),
    Format("dcgmi nvlink --link-status", shows(r"\|\s+NvLink Link Status\s+\|"), facts_link_status),
    Format("dcgmi nvlink -e", shows(r"\|\s*NVLINK Error Counts"), facts_link_errors),
    Format("dcgmi topo", shows(r"\|.*Topology Information"), facts_topo),
    Format("dcgmi dmon", shows(r"# ?Entity\s+\w"), facts_dmon),
    Format("dcgmi error", shows(r"Error: (?:[Uu]nable to|Health watches|could not)"), facts_error),
)

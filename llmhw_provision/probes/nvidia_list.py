"""`nvidia-smi -L`, `nvidia-smi --version` and the table that plain `nvidia-smi` draws."""

from __future__ import annotations

import re

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.format import Format
from llmhw_provision.probes.reading import last_line, output, unreadable
from llmhw_provision.probes.screen import absent, broken, common, inforom, screen, shows

LIST = Command("nvidia-smi-list", ("nvidia-smi", "-L"), 60)
VERSION = Command("nvidia-smi-version", ("nvidia-smi", "--version"), 60)
COMMANDS = (LIST, VERSION)
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_GPU = re.compile(rf"^GPU (\d+): (.+) \(UUID: (GPU-{_UUID})\)$")
_LISTED = re.compile(rb"GPU \d*|\s+MIG ")
_MIG = re.compile(r"^\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-\S+)\)$")
_VERSION = re.compile(
    r"^(NVIDIA-SMI|NVML|DRIVER|CUDA|CUDA UMD|KMD)(?: Driver)? [Vv]ersion\s*: "
    r"(\d+(?:\.\d+)+|N/A|Not Found|Deprecated, see \".*\" instead)$"
)
_NAMES = {
    "NVIDIA-SMI": "nvidia_smi",
    "NVML": "nvml",
    "DRIVER": "driver",
    "CUDA": "cuda",
    "CUDA UMD": "cuda",
    "KMD": "kmd",
}
_TITLE = re.compile(
    r"^\| NVIDIA-SMI (\S+)\s+(?:Driver|KMD) Version: (\d+(?:\.\d+)+)(?:\s+CUDA (?:UMD )?Version: (\S+))?\s*\|$"
)
_FIRST = re.compile(
    r"^\|\s+(\d+)\s+(\S.*?)\s+(On|Off|N/A|ERR!|WDDM|TCC|MCDM)\s*\|\s*"
    r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s+(\S+)\s*\|\s*(\S.*?)\s*\|$"
)
_SLICE = re.compile(r"^\|\s+\d+\s+\d+\s+\d+\s+\d+\s+\|\s+\d+MiB / ")
_SECOND = re.compile(
    r"^\|\s*(\S+)\s+(\d+C|N/A|ERR!)\s+(P\d+|N/A|ERR!)\s+(\S+)\s*/\s*(\S+)\s*\|\s*(\S+)\s*/\s*(\S+)\s*\|\s*(\S+)\s+(\S.*?)\s*\|$"
)


def parse_list(raw: bytes) -> tuple[dict[int, str], list[str]]:
    """Name by GPU index, and the profiles of the MIG devices."""
    gpus: dict[int, str] = {}
    slices: list[str] = []
    for line in inforom(screen("nvidia-smi -L", raw))[0]:
        gpu, mig = _GPU.match(line), _MIG.match(line)
        if gpu and int(gpu[1]) == len(gpus):
            gpus[int(gpu[1])] = gpu[2]
        elif mig and gpus:
            slices.append(mig[1])
        elif line.strip():
            raise unreadable("nvidia-smi -L", line)
    if not gpus:
        raise unreadable("nvidia-smi -L", "", "no GPU")
    return gpus, slices


def recognise_list(raw: bytes) -> bool:
    """Whether nothing but GPUs and their MIG devices is listed."""
    listed = [line for line in raw[:65536].splitlines() if line.strip()]
    return bool(listed) and listed[0].startswith(b"GPU ") and all(map(_LISTED.match, listed))


def facts_list(raw: bytes) -> dict[str, object]:
    """GPUs by name and MIG devices."""
    gpus, slices = parse_list(raw)
    names = {f"GPU{index}": name for index, name in gpus.items()}
    return {"gpus": list(names), "name": common(dict(names)), "mig_devices": slices, "mig_profiles": slices}


def facts_version(raw: bytes) -> dict[str, object]:
    """Versions of the tool, NVML, driver and the CUDA that the driver brings."""
    facts: dict[str, object] = {}
    for line in screen("nvidia-smi --version", raw):
        match = _VERSION.match(line)
        if match:
            if not match[2].startswith("Deprecated"):
                facts[_NAMES[match[1]]] = None if absent(match[2]) or match[2] == "Not Found" else match[2]
        elif line.strip():
            raise unreadable("nvidia-smi --version", line)
    if "driver" not in facts and "kmd" not in facts:
        raise unreadable("nvidia-smi --version", "", "no driver version")
    return {"driver": facts.get("kmd"), **facts}


def facts_table(raw: bytes) -> dict[str, object]:
    """Driver, CUDA and one row a GPU; cells that read ERR! are listed, never taken for values."""
    text, corrupted = inforom(screen("nvidia-smi", raw))
    while text and not text[-1]:
        del text[-1]
    title = next((match for match in map(_TITLE.match, text) if match), None)
    if title is None or not text or not text[-1].strip().startswith(("+", "|")):
        raise unreadable("nvidia-smi", last_line(raw), "no title line, or cut off")
    end = next((n for n, line in enumerate(text) if line.startswith("| Processes:")), len(text))
    gpus: dict[str, dict[str, object]] = {}
    errors: dict[str, list[str]] = {}
    rows = [
        (a, _SECOND.match(b))
        for line, b in zip(text[:end], [*text[1:end], ""], strict=True)
        if (a := _FIRST.match(line))
    ]
    for first, second in rows:
        if second is None:
            raise unreadable("nvidia-smi", first[0], "its second line cannot be read")
        cells = dict(zip(("name", "persistence", "bus_id", "display", "ecc"), first.groups()[1:], strict=True))
        cells |= dict(
            zip(
                (
                    "fan",
                    "temperature",
                    "pstate",
                    "power",
                    "power_limit",
                    "memory_used",
                    "memory_total",
                    "utilization",
                    "compute_mode",
                ),
                second.groups(),
                strict=True,
            )
        )
        key = f"GPU{first[1]}"
        errors[key] = [name for name, cell in cells.items() if broken(cell)]
        gpus[key] = {name: None if absent(cell) else cell for name, cell in cells.items() if not broken(cell)}
    if not gpus or list(gpus) != [f"GPU{n}" for n in range(len(gpus))] or not _closed(text):
        raise unreadable("nvidia-smi", text[-1], "GPU rows are missing")
    errors = {key: names for key, names in errors.items() if names}
    slices = [line for line in text[:end] if _SLICE.match(line)]
    facts: dict[str, object] = {
        "driver": title[2],
        "cuda": title[3] if title[3] and not absent(title[3]) and not broken(title[3]) else None,
        "gpus": list(gpus),
    }
    names = {key: row.get("name") for key, row in gpus.items()}
    facts |= {"name": common(dict(names)), "rows": gpus, "error_cells": errors, "mig_devices": slices}
    if errors:
        facts |= {"error": "gpu_error_cells", "err_gpus": list(errors), "verdict": "fail"}
    if corrupted:
        facts |= {"inforom_corrupted": corrupted, "verdict": "fail"}
        facts.setdefault("error", "inforom_corrupted")
    return facts


def _closed(text: list[str]) -> bool:
    """Whether the GPU table ends with its lower border."""
    borders = [n for n, line in enumerate(text) if re.match(r"^\+[-+]+\+$", line)]
    return bool(borders) and borders[-1] > max(n for n, line in enumerate(text) if line.startswith("|"))


def gpus(evidence: Evidence) -> dict[int, str]:
    """The host's GPUs: name by index."""
    return parse_list(output(evidence, LIST.key))[0]


FORMATS: tuple[Format, ...] = (
    Format("nvidia-smi", shows(r"\| NVIDIA-SMI \d"), facts_table),
    Format("nvidia-smi --version", shows(r"NVIDIA-SMI version\s*:"), facts_version),
    Format("nvidia-smi -L", recognise_list, facts_list),
)

"""`nvidia-smi -q`: the indented tree of everything a driver says of each GPU.

Names drift between drivers ("Clocks Throttle Reasons" became "Clocks Event Reasons", "HW Slowdown" moved), so a fact
is looked up under all the names it had; a name that is missing gives no fact.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format
from llmhw_provision.probes.reading import unreadable
from llmhw_provision.probes.screen import absent, broken, common, inforom, screen, shows

COMMAND = Command("nvidia-smi-q", ("nvidia-smi", "-q"), 90)
_TOOL = "nvidia-smi -q"
_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])$")
_PAIR = re.compile(r"^( *)(\S.*?)\s*: ?(.*)$")
_BANNER = re.compile(r"^=+NVSMI LOG=+$")
_ELIDED = "[...]"

Path = tuple[str, ...]
_FACTS: dict[str, tuple[Path, ...]] = {
    "product": (("Product Name",),),
    "persistence": (("Persistence Mode",),),
    "mig_current": (("MIG Mode", "Current"),),
    "mig_pending": (("MIG Mode", "Pending"),),
    "serial": (("Serial Number",),),
    "uuid": (("GPU UUID",),),
    "vbios": (("VBIOS Version",),),
    "gsp_firmware": (("GSP Firmware Version",),),
    "recovery_action": (("GPU Recovery Action",),),
    "pcie_gen_current": (("PCI", "GPU Link Info", "PCIe Generation", "Current"),),
    "pcie_gen_max": (("PCI", "GPU Link Info", "PCIe Generation", "Max"),),
    "pcie_width_current": (("PCI", "GPU Link Info", "Link Width", "Current"),),
    "pcie_width_max": (("PCI", "GPU Link Info", "Link Width", "Max"),),
    "pcie_replays": (("PCI", "Replays Since Reset"), ("PCI", "Replay counter")),
    "pstate": (("Performance State",),),
    "retired_sbe": (("Retired Pages", "Single Bit ECC"),),
    "retired_dbe": (("Retired Pages", "Double Bit ECC"),),
    "retired_pending": (("Retired Pages", "Pending Page Blacklist"), ("Retired Pages", "Pending")),
    "memory_total_mib": (("FB Memory Usage", "Total"),),
    "memory_used_mib": (("FB Memory Usage", "Used"),),
    "bar1_total_mib": (("BAR1 Memory Usage", "Total"),),
    "ecc_mode": (("ECC Mode", "Current"), ("Ecc Mode", "Current")),
    "ecc_pending": (("ECC Mode", "Pending"), ("Ecc Mode", "Pending")),
    "channel_repair_pending": (("ECC Errors", "Channel Repair Pending"),),
    "tpc_repair_pending": (("ECC Errors", "TPC Repair Pending"),),
    "sram_threshold_exceeded": (("ECC Errors", "Aggregate", "SRAM Threshold Exceeded"),),
    "remap_correctable": (("Remapped Rows", "Correctable Error"),),
    "remap_uncorrectable": (("Remapped Rows", "Uncorrectable Error"),),
    "remap_pending": (("Remapped Rows", "Pending"), ("Remapped Rows",)),
    "remap_failure": (("Remapped Rows", "Remapping Failure Occurred"), ("Remapped Rows",)),
    "temperature_c": (("Temperature", "GPU Current Temp"),),
    "memory_temperature_c": (("Temperature", "Memory Current Temp"),),
    "power_draw_w": tuple(
        (head, name)
        for head in ("GPU Power Readings", "Power Readings")
        for name in ("Average Power Draw", "Power Draw", "Instantaneous Power Draw")
    ),
    "power_limit_w": tuple(
        (head, name)
        for head in ("GPU Power Readings", "Power Readings")
        for name in ("Current Power Limit", "Enforced Power Limit", "Power Limit")
    ),
    "fabric_state": (("Fabric", "State"),),
    "fabric_status": (("Fabric", "Status"),),
    "clique_id": (("Fabric", "CliqueId"), ("Fabric", "Clique ID")),
    "cluster_uuid": (("Fabric", "ClusterUUID"), ("Fabric", "Cluster UUID")),
    "fabric_health": (("Fabric", "Health", "Summary"),),
    "fabric_bandwidth": (("Fabric", "Health", "Bandwidth"),),
}
_ECC = ("SRAM Correctable", "SRAM Uncorrectable", "SRAM Uncorrectable Parity", "SRAM Uncorrectable SEC-DED")
_ECC_NAMES = (*_ECC, "DRAM Correctable", "DRAM Uncorrectable")
for _span in ("Volatile", "Aggregate"):
    for _name in _ECC_NAMES:
        _FACTS[f"{_name}_{_span}".lower().replace(" ", "_").replace("-", "_")] = (("ECC Errors", _span, _name),)
_REASONS = ("Clocks Event Reasons", "Clocks Throttle Reasons")
for _fact, _path in {
    "sw_power_cap": ("SW Power Cap",),
    "sw_thermal_slowdown": ("SW Thermal Slowdown",),
    "hw_slowdown": ("HW Slowdown",),
    "hw_thermal_slowdown": ("HW Slowdown", "HW Thermal Slowdown"),
    "hw_power_brake_slowdown": ("HW Slowdown", "HW Power Brake Slowdown"),
}.items():
    _FACTS[_fact] = tuple((_head, *_path) for _head in _REASONS)
_SWITCHES = frozenset(_FACTS) & {"sw_power_cap", "sw_thermal_slowdown", "hw_slowdown", "hw_thermal_slowdown"}
_SWITCHES |= {"hw_power_brake_slowdown"}
_UNIT = re.compile(r"^(-?\d+(?:\.\d+)?)(?: ?(?:MiB|W|C|x|bank\(s\)))?$")
_MEASURED = re.compile(
    r"_(?:w|c|mib)$|^pcie_|^retired_(?:sbe|dbe)$|^remap_(?:un)?correctable$|_(?:volatile|aggregate)$"
)
_VERSIONS = (
    ("Driver Version", "driver"),
    ("KMD Version", "driver"),
    ("CUDA Version", "cuda"),
    ("CUDA UMD Version", "cuda"),
)
_TEXT_FACTS = {"product", "serial", "uuid", "vbios", "gsp_firmware", "clique_id"}
_N_A_IS_NONE = {"remap_pending", "remap_failure"}


@dataclass(frozen=True)
class Query:
    """Values by path: of the driver, and of each GPU by bus id ("" for a piece without a heading)."""

    driver: dict[str, str]
    gpus: dict[str, dict[Path, str]]
    whole: bool
    corrupted: tuple[str, ...] = ()  # GPUs with a damaged infoROM


def parse(raw: bytes) -> Query:
    """The tree; raises ProbeError for unknown lines, a missing GPU or a last GPU that ends before the others did."""
    driver: dict[str, str] = {}
    gpus: dict[str, dict[Path, str]] = {}
    path: list[tuple[int, str]] = []
    elided = False
    text, corrupted = inforom(screen(_TOOL, raw))
    for line in text:
        gpu, pair = _GPU.match(line), _PAIR.match(line)
        if not line.strip() or _BANNER.match(line):
            continue
        if line.strip() == _ELIDED:
            elided = True
        elif gpu:
            if gpu[1] in gpus:
                raise unreadable(_TOOL, line, "the GPU is listed twice")
            gpus[gpu[1]], path = {}, []
        elif pair and not pair[1] and not gpus and not line.startswith("GPU "):
            driver[pair[2]] = pair[3]
        elif line.startswith("    "):
            _keep(gpus.setdefault("", {}) if not gpus else gpus[list(gpus)[-1]], path, line, pair)
        else:
            raise unreadable(_TOOL, line)
    if not gpus:
        raise unreadable(_TOOL, raw.decode("utf-8", "replace")[:80], "no GPU")
    _complete(driver, gpus, elided)
    return Query(driver, gpus, not elided, tuple(corrupted))


def _keep(values: dict[Path, str], path: list[tuple[int, str]], line: str, pair: re.Match[str] | None) -> None:
    indent = len(line) - len(line.lstrip(" "))
    while path and path[-1][0] >= indent:
        path.pop()
    name = pair[2] if pair else line.strip()
    if not pair and not re.fullmatch(r"[A-Za-z][\w .()/+-]*", name):
        raise unreadable(_TOOL, line)
    if pair:
        values.setdefault((*(step for _, step in path), name), pair[3].strip())
    path.append((indent, name))


def _complete(driver: dict[str, str], gpus: dict[str, dict[Path, str]], elided: bool) -> None:
    announced = driver.get("Attached GPUs", "")
    if announced and (not announced.isdecimal() or (not elided and int(announced) != len(gpus))):
        raise unreadable(_TOOL, f"Attached GPUs: {announced}", f"{len(gpus)} listed: cut off")
    if elided or not driver:
        return
    tops = [{path[0] for path in values} for values in gpus.values()]
    full = any("Product Name" in top for top in tops)
    for bus, top in zip(gpus, tops, strict=True):
        if (full and "Processes" not in top) or ("Processes" in tops[0] and "Processes" not in top):
            raise unreadable(_TOOL, f"GPU {bus}", "its part ends early")


def _value(fact: str, said: str) -> object:
    """The value of a fact; raises ProbeError where a number, or whether something is active, is said in other words."""
    if absent(said) and said.lower() != "none":
        return None if fact in _N_A_IS_NONE else "N/A"
    match = _UNIT.match(said)
    if match and fact not in _TEXT_FACTS:
        return float(match[1]) if "." in match[1] else int(match[1])
    if _MEASURED.search(fact) or (fact in _SWITCHES and said not in ("Active", "Not Active")):
        raise unreadable(_TOOL, f"{fact}: {said}")
    return said


def _facts_of(values: dict[Path, str]) -> tuple[dict[str, object], list[str]]:
    facts: dict[str, object] = {}
    unread: list[str] = []
    for fact, paths in _FACTS.items():
        said = next((values[path] for path in paths if path in values), None)
        if said is not None and broken(said):
            unread.append(fact)
        elif said is not None:
            facts[fact] = _value(fact, said)
    reasons = [path[-1] for path, said in values.items() if path[0] in _REASONS and said == "Active"]
    if any(path[0] in _REASONS for path in values):
        facts["clock_reasons"] = reasons
        bad = ("HW Slowdown", "HW Thermal Slowdown", "HW Power Brake Slowdown", "SW Thermal Slowdown")
        facts["slowdown"] = [reason for reason in reasons if reason in bad]
    return facts, unread


def facts(raw: bytes) -> dict[str, object]:
    """Driver, CUDA, number of GPUs, and each fact: one value when all GPUs agree, else the values by bus id."""
    return facts_of_query(parse(raw))


def facts_of_query(found: Query) -> dict[str, object]:
    """The facts in values that were read from any form of the query."""
    facts: dict[str, object] = {"gpus": [bus for bus in found.gpus if bus]}
    for name, key in _VERSIONS:
        said = found.driver.get(name, "").partition(" [Deprecated")[0]
        if re.fullmatch(r"\d+(?:\.\d+)+", said):
            facts[key] = said
    if "Attached GPUs" in found.driver:
        facts["attached_gpus"] = int(found.driver["Attached GPUs"])
    each = {bus: _facts_of(values) for bus, values in found.gpus.items()}
    for fact in dict.fromkeys(name for known, _ in each.values() for name in known):
        facts[fact] = common({bus: known[fact] for bus, (known, _) in each.items() if fact in known})
    if found.corrupted:
        facts |= {"inforom_corrupted": list(found.corrupted), "error": "inforom_corrupted", "verdict": "fail"}
    unread = {bus: names for bus, (_, names) in each.items() if names}
    if unread:
        facts["unreadable"] = unread
    return facts


def by_gpu(raw: bytes) -> dict[str, dict[str, object]]:
    """The facts of each GPU by bus id; what a tool could not read is missing, what a card does not have is `N/A`."""
    return {bus: _facts_of(values)[0] for bus, values in parse(raw).gpus.items()}


FORMATS: tuple[Format, ...] = (
    Format(
        "nvidia-smi -q",
        shows(
            r"=+NVSMI LOG=+|Attached GPUs\s+: |"
            r"    (?:Fabric|Remapped Rows|ECC Errors|Clocks (?:Event|Throttle) Reasons)$|(?:Driver|KMD) Version {5,}: "
        ),
        facts,
    ),
)

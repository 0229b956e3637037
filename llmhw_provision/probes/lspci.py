"""PCI functions as `lspci -vv` (or -nn, plain) lists them: link state, ACS, AER, driver.

"(downgraded)" alone is no fault: a Gen5 switch port with a Gen4 device behind it says so by design, and GPUs idle at
2.5GT/s. So GPUs are judged as endpoints: width at any time, speed only above the idle steps. Source: pciutils 3.7
writes "(ok)" too, 3.8 and later only "(downgraded)" or "(overdriven)".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.format import Format
from llmhw_provision.probes.reading import output, unreadable
from llmhw_provision.probes.screen import screen, shows

COMMAND = Command("lspci", ("lspci", "-vvv"), 30)
_TOOL = "lspci"
_ADDRESS = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_HEAD = re.compile(rf"^({_ADDRESS}) ([^:\[\"]+?)(?: \[([0-9a-f]{{4}})\])?: (.+)$")
_LINK = re.compile(r"^\s+Lnk(Cap|Sta):\s+(.*)$")
_SPEED = re.compile(r"Speed (\d+(?:\.\d+)?GT/s|unknown)(?: \((ok|downgraded|overdriven|strange)\))?")
_WIDTH = re.compile(r"Width x(\d+)(?: \((ok|downgraded|overdriven|strange)\))?")
_IDLE_SPEEDS = ("2.5GT/s", "5GT/s")


@dataclass
class Function:
    """One PCI function: link speed and width as texts (current, possible, remarks), flags by register."""

    address: str
    kind: str
    name: str
    speed: str = ""
    width: str = ""
    speed_max: str = ""
    width_max: str = ""
    remarks: tuple[str, str] = ("", "")
    numa: int | None = None
    driver: str = ""
    denied: bool = False
    acs: list[str] = field(default_factory=list)
    aer: list[str] = field(default_factory=list)
    bars: list[str] = field(default_factory=list)

    @property
    def gpu(self) -> bool:
        """Whether it is an NVIDIA GPU (audio and USB functions of a card are not)."""
        return "NVIDIA" in self.name and self.kind in (
            "3D controller",
            "VGA compatible controller",
            "Display controller",
        )

    @property
    def nvswitch(self) -> bool:
        """Whether it is an NVSwitch: NVIDIA's bridges of class 0680."""
        return "NVIDIA" in self.name and self.kind == "Bridge"


def parse(raw: bytes) -> tuple[Function, ...]:
    """The functions in the output; raises ProbeError for a line that is neither a heading nor a detail of one."""
    found: list[Function] = []
    for line in screen(_TOOL, raw):
        head = _HEAD.match(line)
        if head:
            found.append(Function(head[1], head[2], head[4]))
        elif not line.strip() or line.startswith(("pcilib:", "lspci:")):
            continue
        elif line[:1] in "\t " and found:
            _detail(found[-1], line)
        else:
            raise unreadable(_TOOL, line)
    if not found:
        raise unreadable(_TOOL, "", "no PCI function")
    if len({function.address for function in found}) != len(found):
        raise unreadable(_TOOL, found[0].address, "listed twice")
    for function in found:
        if bool(function.speed) != bool(function.width):
            raise unreadable(_TOOL, f"{function.address} LnkSta {function.speed} {function.width}")
    return tuple(found)


def _detail(function: Function, line: str) -> None:
    link = _LINK.match(line)
    words = line.strip()
    if link:
        speed, width = _SPEED.search(link[2]), _WIDTH.search(link[2])
        if not speed or not width:
            raise unreadable(_TOOL, f"{function.address} {words}")
        if link[1] == "Cap":
            function.speed_max, function.width_max = speed[1], f"x{width[1]}"
        else:
            function.speed, function.width = speed[1], f"x{width[1]}"
            function.remarks = (speed[2] or "", width[2] or "")
    elif words.startswith("Kernel driver in use: "):
        function.driver = words.partition(": ")[2]
    elif words.startswith("NUMA node: ") and words[11:].isdecimal():
        function.numa = int(words[11:])
    elif words.startswith("ACSCtl:"):
        function.acs = re.findall(r"(\w+)\+", words)
    elif words.startswith(("UESta:", "CESta:")):
        function.aer += re.findall(r"(\w+)\+", words)
    elif words.startswith("Region ") and "[size=" in words:
        function.bars.append(words.rpartition("[size=")[2].rstrip("]"))
    elif words == "Capabilities: <access denied>":
        function.denied = True


def judge(functions: tuple[Function, ...]) -> tuple[str, dict[str, str]]:
    """A verdict on the GPUs' links, and `speed width` of those that are below what they can do."""
    bad: dict[str, str] = {}
    idle = False
    gpus = [one for one in functions if one.gpu and one.speed]
    for gpu in gpus:
        narrow = gpu.remarks[1] == "downgraded" or (gpu.width_max and int(gpu.width[1:]) < int(gpu.width_max[1:]))
        slow = gpu.remarks[0] == "downgraded" or (gpu.speed_max and _gts(gpu.speed) < _gts(gpu.speed_max))
        if narrow or (slow and gpu.speed not in _IDLE_SPEEDS):
            bad[gpu.address] = f"{gpu.speed} {gpu.width}"
        idle |= bool(slow) and not narrow and gpu.speed in _IDLE_SPEEDS
    return "fail" if bad else "inconclusive" if idle else "pass" if gpus else "not tested", bad


def _gts(speed: str) -> float:
    return float(speed.removesuffix("GT/s")) if speed.endswith("GT/s") else 0.0


def facts(raw: bytes) -> dict[str, object]:
    """Devices counted by kind, link states counted, GPUs below their link, ACS and AER flags that are set."""
    functions = parse(raw)
    verdict, bad = judge(functions)
    kinds = {
        "gpu": [one.address for one in functions if one.gpu],
        "nvswitch": [one.address for one in functions if one.nvswitch],
        "mlx": [one.address for one in functions if "Mellanox" in one.name],
        "nvme": [one.address for one in functions if one.kind == "Non-Volatile memory controller"],
        "pex": [one.address for one in functions if re.search(r"\bPEX\s?\d", one.name)],
    }
    states: dict[str, int] = {}
    for one in functions:
        if one.speed:
            state = "/".join(remark or "ok" for remark in one.remarks)
            states[state] = states.get(state, 0) + 1
    bridges = [one for one in functions if one.kind == "PCI bridge"]
    facts: dict[str, object] = {
        "functions": len(functions),
        "counts": {kind: len(found) for kind, found in kinds.items()},
        "gpus": kinds["gpu"],
        "nvswitches": kinds["nvswitch"],
        "lnksta": states,
        "acs_redirect": [one.address for one in bridges if {"ReqRedir", "CmpltRedir"} & set(one.acs)],
        "aer": {one.address: one.aer for one in functions if one.aer},
        "drivers": {one.address: one.driver for one in functions if one.gpu and one.driver},
        "access_denied": any(one.denied for one in functions),
    }
    gpus = [one for one in functions if one.gpu and one.speed]
    if gpus:
        facts |= {"bad": bad, "verdict": verdict, "width": gpus[0].width, "speed": gpus[0].speed}
        if verdict == "inconclusive":
            facts |= {"speed_idle": gpus[0].speed, "verdict": "inconclusive: re-read under load"}
    if any(one.denied for one in functions):
        facts["error"] = "access_denied"
        facts["verdict"] = "not tested"
    return facts


def functions(evidence: Evidence) -> tuple[Function, ...]:
    """The host's PCI functions with their links."""
    return parse(output(evidence, COMMAND.key))


FORMATS: tuple[Format, ...] = (
    Format("lspci", shows(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] [A-Z0-9][^:]{2,60}: \S"), facts),
)

"""NVLink of each GPU from `nvidia-smi nvlink`: state (-s), error counters (-e), capabilities (-c), remote ends (-R)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.format import Format
from llmhw_provision.probes.reading import output, unreadable
from llmhw_provision.probes.screen import common, screen, shows

STATUS = Command("nvlink-status", ("nvidia-smi", "nvlink", "-s"), 60)
ERRORS = Command("nvlink-errors", ("nvidia-smi", "nvlink", "-e"), 60)
ERRORS_LATER = Command("nvlink-errors-later", ERRORS.argv, 60)  # counters are judged by what they gained
COMMANDS = (STATUS, ERRORS)
_TOOL = "nvidia-smi nvlink"
_GPU = re.compile(r"^GPU (\d+): (.+?)(?: \(UUID: (\S+)\))?$")
_LINK = re.compile(r"^\s+Link (\d+)(: |, )(.+)$")
_SPEED = re.compile(r"^(\d+(?:\.\d+)?) GB/s$")
_COUNTER = re.compile(
    r"^(.*(?:Errors?|Discards|events|errors|discards|packets|bytes)(?: - \d+)?|Lane \d+|(?:Data|Raw) [TR]x)"
    r": (\d+)(?: KiB)?$",
    re.I,
)
# What counts up on a healthy link: traffic, and what forward error correction has mended (NVLink 5).
_TRAFFIC = re.compile(r"packets|bytes|^(?:Data|Raw) |^FEC Errors|successful", re.I)
_RATE = re.compile(r"^(.*BER): (\S+)$")
_CAPABILITY = re.compile(r"^(.*supported|.*P2P.*|.*SLI.*): (true|false)$")
_REMOTE = re.compile(r"^(?:Remote Device )?([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])(?:: Link (\d+))?$")
_MESSAGE = re.compile(
    r"^\s*(?:NVML: )?(Device does not have or support Nvlink|Nvlink queries are not supported\b.*"
    r"|NVLink (?:is )?not supported\b.*|Unable to retrieve NVLink information as all links are in[Aa]ctive)\.?$",
    re.I,
)
# Links a GPU of this kind lists, used or not (vendor data sheets); fewer means that the output is cut.
_LISTED = (
    (re.compile(r"\b(?:H100|H200|B200|GH200|GB200)\b"), 18),
    (re.compile(r"\bA100\b"), 12),
    (re.compile(r"\bV100-SXM"), 6),
)
# Bridged PCIe cards use three bridges of four links (H100 NVL and PCIe product briefs).
_BRIDGED = re.compile(r"\bH100 (?:NVL|PCIe)\b")
_BRIDGE_LINKS = 12


@dataclass
class Gpu:
    """One GPU: speed in GB/s by link (None: inactive); or a message instead of links; counters by link and name."""

    index: int
    name: str
    links: dict[int, float | None] = field(default_factory=dict)
    message: str = ""
    counters: dict[int, dict[str, int]] = field(default_factory=dict)
    capabilities: dict[int, dict[str, bool]] = field(default_factory=dict)
    remote: dict[int, str] = field(default_factory=dict)

    def listed(self) -> set[int]:
        """The links that the output names, whatever it says of them."""
        return {*self.links, *self.counters, *self.capabilities, *self.remote}

    def active(self) -> int:
        """How many links are up."""
        return sum(speed is not None for speed in self.links.values())


def parse(raw: bytes) -> tuple[Gpu, ...]:
    """The GPUs in the output; raises ProbeError for unknown lines, missing links or a block that ends early."""
    found: list[Gpu] = []
    for line in screen(_TOOL, raw):
        gpu, link, message = _GPU.match(line), _LINK.match(line), _MESSAGE.match(line)
        if not line.strip():
            continue
        if gpu:
            found.append(Gpu(int(gpu[1]), gpu[2]))
        elif message and found:
            found[-1].message = message[1]
        elif link and found:
            _read(found[-1], int(link[1]), link[3], line)
        else:
            raise unreadable(_TOOL, line)
    if not found:
        raise unreadable(_TOOL, "", "no GPU")
    if len({one.index for one in found}) != len(found):
        raise unreadable(_TOOL, f"GPU {found[0].index}", "listed twice")
    most: dict[str, int] = {}
    for one in found:
        most[one.name] = max(len(one.listed()), most.get(one.name, 0))
    for one in found:
        _whole(one, most[one.name])
    return tuple(found)


def _read(gpu: Gpu, link: int, said: str, line: str) -> None:
    speed, counter, rate = _SPEED.match(said), _COUNTER.match(said), _RATE.match(said)
    capability, remote = _CAPABILITY.match(said), _REMOTE.match(said)
    if speed or said.strip("<>").lower() == "inactive":
        if link in gpu.links:
            raise unreadable(_TOOL, line, "the link is listed twice")
        gpu.links[link] = float(speed[1]) if speed else None
    elif counter:
        counters = gpu.counters.setdefault(link, {})
        if counter[1] in counters:
            raise unreadable(_TOOL, line, "the counter is listed twice")
        counters[counter[1]] = int(counter[2])
    elif capability:
        gpu.capabilities.setdefault(link, {})[capability[1]] = capability[2] == "true"
    elif remote:
        gpu.remote[link] = remote[1].lower() + (f" link {remote[2]}" if remote[2] else "")
    elif not rate and not re.search(r": N/A$", said):
        raise unreadable(_TOOL, line)


def _whole(gpu: Gpu, most: int) -> None:
    """Raises ProbeError when links are missing: numbers begin at 0, peers of one kind list `most`."""
    if gpu.message:
        return
    links = gpu.listed()
    if links == set(gpu.remote) and links:
        return  # links without a peer are left out
    if links != set(range(len(links))) or not links:
        raise unreadable(_TOOL, f"GPU {gpu.index}: links {sorted(links)}", "links are missing")
    known = next((count for kind, count in _LISTED if kind.search(gpu.name)), most)
    if len(links) < max(most, known):
        raise unreadable(_TOOL, f"GPU {gpu.index}: {len(links)} of {max(most, known)} links", "cut off")
    if len({tuple(sorted(counters)) for counters in gpu.counters.values()}) > 1:
        raise unreadable(_TOOL, f"GPU {gpu.index}: counters differ from link to link", "cut off")


def facts(raw: bytes) -> dict[str, object]:
    """Links and speed of each GPU, inactive ones by GPU; or the sentence that says why there are none."""
    found = parse(raw)
    names = {f"GPU{gpu.index}": gpu for gpu in found}
    facts: dict[str, object] = {"gpus": list(names), "name": common({key: gpu.name for key, gpu in names.items()})}
    messages = {key: gpu.message for key, gpu in names.items() if gpu.message}
    if len(messages) == len(names):
        return facts | {"links": None, "message": common(dict(messages))}
    facts["links_per_gpu"] = common({key: len(gpu.listed()) for key, gpu in names.items()})
    if any(gpu.links for gpu in found):
        facts |= _status(names)
    if any(gpu.counters for gpu in found):
        facts |= _counters(names)
    if any(gpu.capabilities for gpu in found):
        told = {
            key: all(link.get("P2P is supported", False) for link in gpu.capabilities.values())
            for key, gpu in names.items()
        }
        facts["p2p_supported"] = common(dict(told))
    if any(gpu.remote for gpu in found):
        facts["remote"] = {key: {str(link): end for link, end in gpu.remote.items()} for key, gpu in names.items()}
    return facts


def _status(names: dict[str, Gpu]) -> dict[str, object]:
    inactive = {key: [link for link, speed in gpu.links.items() if speed is None] for key, gpu in names.items()}
    inactive = {key: links for key, links in inactive.items() if links}
    speeds = sorted({speed for gpu in names.values() for speed in gpu.links.values() if speed is not None})
    facts: dict[str, object] = {
        "inactive": inactive,
        "active_per_gpu": common({key: gpu.active() for key, gpu in names.items()}),
        "link_gbps": speeds[0] if len(speeds) == 1 else speeds,
    }
    facts |= {f"{key.lower()}_links_active": gpu.active() for key, gpu in names.items()}
    if all(_BRIDGED.search(gpu.name) for gpu in names.values()):
        good = all(gpu.active() == _BRIDGE_LINKS for gpu in names.values())
        return facts | {
            "verdict_for_h100_nvl_bridge": "pass" if good else "fail",
            "verdict": "pass" if good else "fail",
        }
    return facts | {"verdict": "fail" if inactive else "pass"}


def _counters(names: dict[str, Gpu]) -> dict[str, object]:
    raised = {
        key: {
            str(link): {name: count for name, count in counters.items() if count and not _TRAFFIC.search(name)}
            for link, counters in gpu.counters.items()
        }
        for key, gpu in names.items()
    }
    raised = {key: {link: counts for link, counts in links.items() if counts} for key, links in raised.items()}
    facts: dict[str, object] = {"nonzero": {key: links for key, links in raised.items() if links}}
    totals: dict[str, int] = {}
    for gpu in names.values():
        for counters in gpu.counters.values():
            for name, count in counters.items():
                totals[name] = totals.get(name, 0) + count
    facts |= {name.lower().replace(" ", "_"): count for name, count in totals.items()}
    bad = [name for name in totals if re.search(r"errors?$|failed", name, re.I) and totals[name]]
    return facts | {"errors": sum(totals[name] for name in bad), "totals": totals}


def status(evidence: Evidence) -> tuple[Gpu, ...]:
    """The NVLinks of the host's GPUs."""
    return parse(output(evidence, STATUS.key))


FORMATS: tuple[Format, ...] = (
    Format(
        "nvidia-smi nvlink",
        shows(
            r"[ \t]+Link \d+(?:: |, )"
            r"|(?:Device does not have|Nvlink queries are|[ \t]*NVML: Unable to retrieve N[vV][lL]ink)"
        ),
        facts,
    ),
)

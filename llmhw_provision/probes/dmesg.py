"""Hardware faults in the kernel log: Xid, SXid, GPUs off the bus, PCIe errors (AER), drives and memory.

Sources: NVIDIA's Xid catalogue and Fabric Manager guide (SXid); the kernel's AER messages (drivers/pci/pcie/aer.c).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format, holds, message
from llmhw_provision.probes.reading import plain_lines, unreadable

COMMAND = Command("dmesg", ("dmesg",), 20)

# Xid kinds that call for a reset or for hardware: double-bit ECC, remap failure, NVLink, off the bus, uncontained
# ECC, GSP timeout, recovery action. 13, 31, 43, 45, 94 are mostly the application's; 63 is a remap that waits.
HARDWARE = frozenset({46, 48, 61, 62, 64, 74, 79, 92, 95, 109, 110, 119, 120, 136, 140, 143, 154, 155, 156, 158})

_XID = re.compile(r"NVRM: (?:GPU at )?Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): ([0-9]+)\b")
_SXID = re.compile(r"SXid \(PCI:([0-9a-fA-F:.]+)\): ([0-9]+), (Fatal|Non-fatal|Non-Fatal)?")
_GPU = re.compile(r"NVRM: (?:The NVIDIA )?GPU (?:at PCI:)?([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)")
_AER = re.compile(r"(?<!\S)(\S+): PCIe Bus Error: severity=(Corrected|Uncorrected)[^,]*")
_OTHER = {
    "rm_init_adapter": re.compile(r"RmInitAdapter failed!"),
    "api_mismatch": re.compile(r"NVRM: API mismatch"),
    "no_nvidia_device": re.compile(r"NVRM: No NVIDIA (?:GPU|graphics adapter|devices) (?:found|probed)"),
    "module_rejected": re.compile(
        r"Key was rejected by service|Loading of unsigned module|Loading of module with unavailable key"
        r"|Lockdown: .*unsigned module loading"
    ),
    "machine_check": re.compile(r"\[Hardware Error\]|mce: .*[Mm]achine [Cc]heck"),
    "edac_uncorrected": re.compile(r"EDAC .*: [1-9][0-9]* UE "),
    "nvme_timeout": re.compile(r"nvme\S* .*(?:I/O|timeout).*(?:timeout|aborting|reset controller|disable controller)"),
    "nvme_down": re.compile(r"nvme\S* .*controller is down|nvme\S* .*Removing after probe failure"),
    "io_error": re.compile(r"I/O error, dev |blk_update_request: .*I/O error"),
    "raid0_broken": re.compile(r"md/raid0?:.*(?:cannot|not all|disk failure)|md: .* array has .* missing", re.I),
    "out_of_memory": re.compile(r"Out of memory: Killed process"),
    "pcie_bandwidth": re.compile(r"available PCIe bandwidth, limited by"),
    "peermem": re.compile(r"nvidia_peermem: .*(?:Invalid argument|Unknown symbol|disagrees)"),
}


@dataclass(frozen=True)
class Event:
    """One Xid or SXid: number and PCI address as the log has them; `fatal` only for SXid."""

    number: int
    pci: str
    fatal: bool = False


@dataclass(frozen=True)
class Log:
    """The faults in one kernel log, in order."""

    xids: tuple[Event, ...]
    sxids: tuple[Event, ...]
    fallen: tuple[str, ...]
    corrected: tuple[str, ...]
    uncorrected: tuple[str, ...]
    other: tuple[str, ...]


def parse(raw: bytes) -> Log:
    """The faults in the log; raises ProbeError for an Xid line that cannot be read."""
    xids: list[Event] = []
    sxids: list[Event] = []
    fallen: list[str] = []
    errors: dict[str, list[str]] = {"Corrected": [], "Uncorrected": []}
    other: list[str] = []
    last = "unknown"
    for line in plain_lines("dmesg", raw):
        if " SXid " in line:
            match = _SXID.search(line)
            if match:
                sxids.append(Event(int(match[2]), match[1], match[3] == "Fatal"))
            elif re.search(r"SXid \(", line):
                raise unreadable("dmesg", line)
        elif "NVRM: Xid" in line:
            match = _XID.search(line)
            if not match:
                raise unreadable("dmesg", line)
            xids.append(Event(int(match[2]), match[1]))
            last = match[1]
        elif match := _GPU.search(line):
            last = match[1]
        if "fallen off the bus" in line:
            named = _GPU.search(line)
            fallen.append(named[1] if named else last)
        if match := _AER.search(line):
            errors[match[2]].append(match[1])
        other += [name for name, pattern in _OTHER.items() if pattern.search(line)]
    return Log(
        tuple(xids),
        tuple(sxids),
        tuple(dict.fromkeys(fallen)),
        tuple(errors["Corrected"]),
        tuple(errors["Uncorrected"]),
        tuple(dict.fromkeys(other)),
    )


def facts(raw: bytes) -> dict[str, object]:
    """Kinds of Xid and SXid with the addresses they came from, GPUs off the bus, PCIe errors, other faults."""
    log = parse(raw)
    severe = [event for event in log.xids if event.number in HARDWARE]
    fatal = [event for event in log.sxids if event.fatal]
    found: dict[str, object] = {
        "xids": list(dict.fromkeys(event.number for event in log.xids)),
        "sxids": list(dict.fromkeys(event.number for event in log.sxids)),
        "pci": list(dict.fromkeys(event.pci for event in log.xids + log.sxids)) or list(log.fallen),
        "hardware_xids": list(dict.fromkeys(event.number for event in severe)),
        "fatal": bool(fatal),
        "fallen": bool(log.fallen),
        "fallen_off_bus": list(dict.fromkeys(pci.partition(".")[0] for pci in log.fallen)),
        "aer": list(dict.fromkeys(log.corrected + log.uncorrected)),
        "aer_corrected": len(log.corrected),
        "aer_uncorrected": len(log.uncorrected),
        "errors": list(log.other),
    }
    if severe or fatal or log.fallen or log.uncorrected or log.other:
        return found | {"verdict": "fail"}
    return found | {"verdict": "warn" if log.xids or log.sxids or log.corrected else "pass"}


_REFUSED: dict[str, object] = {"error": True, "rc": 1, "verdict": "not tested"}
# Seconds since the start have eight digits at most (three years); ten digits are a date, as ping -D prints it.
_KERNEL = (
    rb"\A(.*\n){0,3}?(<[0-9]+>)?(\[ *[0-9]{1,8}\.[0-9]+\](\[[ CT0-9]+\])? |"
    rb"\[[A-Z][a-z]{2} [A-Z][a-z]{2} +[0-9]+ [0-9:]{8} [0-9]{4}\] |"
    rb"([A-Z][a-z]{2} +[0-9]+ [0-9:]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,+Z-]+) \S+ kernel: |"
    rb"(kern|daemon|user|syslog) *:\w+ *: (\[|[0-9]{4}-[0-9]{2}-[0-9]{2}T)|[0-9]+,[0-9]+,[0-9]+,[-c+][^;\n]*;)"
)
FORMATS = (
    Format(
        "dmesg refused",
        holds(rb"^dmesg: read kernel buffer failed: Operation not permitted$"),
        message("dmesg", _REFUSED),
    ),
    Format("dmesg", holds(_KERNEL), facts),
    Format("dmesg excerpt", holds(rb"^.*NVRM: Xid \((PCI:)?[0-9a-fA-F:.]+\): [0-9]+|^.*SXid \(PCI:"), facts),
)

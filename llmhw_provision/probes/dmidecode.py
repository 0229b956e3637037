"""The machine's own description (SMBIOS) from `dmidecode`: maker, model, firmware, memory modules."""

from __future__ import annotations

import re

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format, holds, message
from llmhw_provision.probes.reading import plain_lines, unreadable

COMMAND = Command("dmidecode", ("dmidecode",), 20)

_HANDLE = re.compile(r"^Handle 0x[0-9A-Fa-f]+, DMI type ([0-9]+), [0-9]+ bytes$")
_COUNT = re.compile(r"^([0-9]+) structures occupying [0-9]+ bytes\.$")
_PAIR = re.compile(r"^\t([^\t:][^:]*):\s*(.*?)\s*$")
_SIZE = re.compile(r"^([0-9]+) (MB|GB|TB|MiB|GiB|TiB)$")
_MIB = {"M": 1, "G": 1024, "T": 1024**2}
_TOP = {
    0: (("Version", "bios"),),
    1: (("Manufacturer", "maker"), ("Product Name", "product"), ("Serial Number", "serial")),
}
BIOS, SYSTEM, MEMORY, END = 0, 1, 17, 127


def parse(raw: bytes) -> tuple[tuple[int, dict[str, str]], ...]:
    """The structures in order: DMI type and values; raises ProbeError when the table is not whole."""
    found: list[tuple[int, dict[str, str]]] = []
    announced = None
    text = plain_lines("dmidecode", raw)
    if sum(line.startswith("# dmidecode ") for line in text) > 1:
        raise unreadable("dmidecode", text[0], "several tables")
    for line in text:
        if match := _HANDLE.match(line):
            found.append((int(match[1]), {}))
        elif match := _COUNT.match(line):
            announced = int(match[1])
        elif found and (match := _PAIR.match(line)):
            found[-1][1].setdefault(match[1], match[2])
    kinds = {kind for kind, _ in found}
    if announced is not None and {BIOS, SYSTEM} <= kinds and len(kinds) > 4 and END not in kinds:
        raise unreadable("dmidecode", text[-1], "cut off")
    if not found or (not found[-1][1] and found[-1][0] not in (126, END)):
        raise unreadable("dmidecode", text[-1] if text else "", "no structure, or cut off")
    return tuple(found)


def facts(raw: bytes) -> dict[str, object]:
    """Maker, model, firmware; filled memory slots, their size in MiB together, and the speeds they run at."""
    result: dict[str, object] = {}
    modules: list[int] = []
    speeds: set[str] = set()
    slots = 0
    for kind, values in parse(raw):
        for key, name in _TOP.get(kind, ()):
            if key in values:
                result.setdefault(name, values[key])
        if kind == MEMORY:
            slots += 1
            size = _SIZE.match(values.get("Size", ""))
            if size:
                modules.append(int(size[1]) * _MIB[size[2][0]])
                speeds.add(values.get("Configured Memory Speed", values.get("Configured Clock Speed", "")))
            elif values.get("Size") != "No Module Installed":
                raise unreadable("dmidecode", f"memory size {values.get('Size')!r}")
    if slots:
        result |= {"slots": slots, "dimms": len(modules), "memory_mib": sum(modules), "speeds": sorted(speeds)}
    return result


FORMATS = (
    Format("dmidecode", holds(rb"\A# dmidecode [0-9.]+\n(.*\n)*?Handle 0x"), facts),
    Format(
        "dmidecode refused",
        holds(rb"^(/dev/mem: Permission denied|# No SMBIOS nor DMI entry point found, sorry\.)$"),
        message("dmidecode", {"error": True, "rc": 1}),
    ),
)

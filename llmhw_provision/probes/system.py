"""The operating system and its surroundings: os-release, uname, virtualization, firmware, memory."""

from __future__ import annotations

import re
from typing import Literal

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.machine import Os
from llmhw_provision.probes.reading import ProbeError, lines, output, unreadable

OS_RELEASE = Command("os-release", ("cat", "/etc/os-release"), 5)
UNAME = Command("uname", ("uname", "-srm"), 5)
VIRT = Command("virt", ("systemd-detect-virt",), 5)
FIRMWARE = Command("firmware", ("sh", "-c", "if [ -d /sys/firmware/efi ]; then echo uefi; else echo bios; fi"), 5)
MEMINFO = Command("meminfo", ("cat", "/proc/meminfo"), 5)
COMMANDS = (OS_RELEASE, UNAME, VIRT, FIRMWARE, MEMINFO)

_WORD = re.compile(r"^[a-z0-9-]{2,30}$")


def parse_os(release: bytes, uname: bytes) -> Os:
    """The operating system, with the running kernel and its architecture."""
    found: dict[str, str] = {}
    for line in lines("os-release", release):
        if line.strip() and not line.startswith("#"):
            key, equals, value = line.partition("=")
            if not equals:
                raise unreadable("os-release", line)
            found[key] = value.strip().strip("\"'")
    if not found.get("ID"):
        raise unreadable("os-release", next(iter(found), ""), "no ID")
    name, kernel, architecture = parse_uname(uname)
    if name != "Linux":
        raise ProbeError(f"uname says {name!r}; only Linux is supported")
    version = found.get("VERSION_ID", "")
    pretty = found.get("PRETTY_NAME") or f"{found['ID']} {version}".strip()
    return Os(id=found["ID"], version=version, pretty_name=pretty, kernel=kernel, architecture=architecture)


def parse_uname(raw: bytes) -> tuple[str, str, str]:
    """Kernel name, release and architecture of `uname -srm`."""
    found = lines("uname", raw)
    words = found[0].split() if len(found) == 1 else []
    if len(words) != 3:
        raise unreadable("uname", found[0] if found else "")
    return words[0], words[1], words[2]


def os_of(evidence: Evidence) -> Os:
    """The operating system of the host."""
    return parse_os(output(evidence, OS_RELEASE.key), output(evidence, UNAME.key))


def parse_virt(raw: bytes) -> str:
    """What systemd-detect-virt says: none, kvm, qemu, ..."""
    found = lines("systemd-detect-virt", raw)
    if len(found) != 1 or not _WORD.match(found[0]):
        raise unreadable("systemd-detect-virt", found[0] if found else "")
    return found[0]


def virtualization(evidence: Evidence) -> str:
    """`none` on a bare machine. (The tool ends with status 1 there, which is no failure.)"""
    result = evidence.get(VIRT.key)
    if result is None or result.rc not in (0, 1):
        return parse_virt(output(evidence, VIRT.key))
    found = parse_virt(result.stdout)
    if (found == "none") != (result.rc == 1):
        raise unreadable("systemd-detect-virt", found, f"with status {result.rc}")
    return found


def firmware(evidence: Evidence) -> Literal["uefi", "bios"]:
    """Which firmware started the machine."""
    found = lines("firmware", output(evidence, FIRMWARE.key))
    if found == ["uefi"]:
        return "uefi"
    if found == ["bios"]:
        return "bios"
    raise unreadable("firmware", " ".join(found))


def parse_memory(raw: bytes) -> int:
    """Bytes of memory the kernel manages (MemTotal): what is installed less what firmware and kernel keep."""
    for line in lines("/proc/meminfo", raw):
        match = re.match(r"^MemTotal:\s+([0-9]+) kB$", line)
        if match:
            return int(match[1]) * 1024
    raise unreadable("/proc/meminfo", raw.decode("utf-8", "replace")[:60], "no MemTotal in kB")


def memory_of(evidence: Evidence) -> int:
    """Bytes of memory of the host."""
    return parse_memory(output(evidence, MEMINFO.key))

"""What host_tuning is checked by: kernel settings, limits, policy, command line, sleep, ACS, microcode."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.reading import lines, output, pairs, sections, unreadable, whole

_SYSCTL = """for k; do p=/proc/sys/$(echo "$k" | tr . /)
if [ -e "$p" ]; then echo "$k=$(tr '\\t' ' ' < "$p")"; else echo "$k=?"; fi; done; true"""
_LIMITS = """systemctl show --no-pager -p DefaultLimitMEMLOCK,DefaultLimitNOFILE,DefaultLimitNOFILESoft
su -s /bin/sh nobody -c 'echo "memlock=$(ulimit -Hl)"; echo "nofile=$(ulimit -Hn)"; echo "nofile-soft=$(ulimit -Sn)"'"""
_POLICY = """echo "== governor"; cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor 2>/dev/null | sort | uniq -c
echo "== hugepages"; cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null
echo "== command-line"; cat /proc/cmdline"""
# Every PCI bridge on the way from a GPU or an RDMA NIC to the root, with its configuration space.
_ACS = """n=0; for d in /sys/bus/pci/devices/*; do read -r c < "$d/class" && read -r v < "$d/vendor" || continue
case $v:$c in 0x10de:0x03*) n=$((n + 1));; esac; done; echo "gpus $n"
for d in /sys/bus/pci/devices/*; do read -r c < "$d/class" && read -r v < "$d/vendor" || continue
case $v:$c in 0x10de:0x03*|0x15b3:0x02*) b=$(readlink -f "$d")
while b=${b%/*} && [ -e "$b/class" ]; do echo "$b"; done;; esac; done | sort -u |
while read -r b; do echo "${b##*/} $(od -An -v -tx1 "$b/config" | tr -d ' \\n')"; done"""
_CARE = """grep -m1 '^model name' /proc/cpuinfo; grep -m1 '^microcode' /proc/cpuinfo
p=/sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw; [ ! -r $p ] || echo "limit : $(cat $p)"; true"""
LIMITS = Command("limits", ("sh", "-c", _LIMITS), 15)
POLICY = Command("policy", ("sh", "-c", _POLICY), 10)
ACS = Command("acs", ("sh", "-c", _ACS), 30)
CARE = Command("cpu-care", ("sh", "-c", _CARE), 5)

_ACS_ID = 0x0D
_BITS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")


@dataclass(frozen=True)
class Care:
    """Processor, revision of its microcode, long-term power limit in W (None where the kernel does not say)."""

    model: str
    microcode: int
    limit_w: float | None


def sysctl_command(keys: tuple[str, ...]) -> Command:
    """Asks for kernel settings; one that the kernel lacks is a question mark."""
    return Command("sysctl", ("sh", "-c", _SYSCTL, "sh", *keys), 10)


def sleep_command(targets: tuple[str, ...]) -> Command:
    """Asks whether targets can be reached."""
    return Command(
        "sleep", ("sh", "-c", 'for t; do echo "$t=$(systemctl is-enabled "$t")"; done; true', "sh", *targets), 10
    )


def sysctl(evidence: Evidence, key: str) -> str | None:
    """Value of a kernel setting, words one space apart; None where the kernel has none."""
    found = pairs("sysctl", output(evidence, "sysctl"))
    if key not in found:
        raise unreadable("sysctl", key, "not asked for")
    return None if found[key] == "?" else " ".join(found[key].split())


def limits(evidence: Evidence) -> dict[str, str]:
    """Limits of systemd by property, and of a session by name."""
    found = pairs("limits", output(evidence, LIMITS.key))
    for name in ("DefaultLimitMEMLOCK", "DefaultLimitNOFILE", "DefaultLimitNOFILESoft", "memlock", "nofile"):
        if name not in found:
            raise unreadable("limits", ", ".join(found), f"no {name}")
    return found


def governors(evidence: Evidence) -> dict[str, int]:
    """Governor to number of CPUs; empty where the host sets no frequency."""
    found = {}
    for line in _policy(evidence)["governor"]:
        count, _, name = line.strip().partition(" ")
        found[name] = whole("cpufreq", count, "CPUs")
    return found


def hugepages(evidence: Evidence) -> str:
    """The policy of transparent huge pages; empty where the kernel has none."""
    text = " ".join(_policy(evidence)["hugepages"])
    match = re.search(r"\[(\w+)\]", text)
    if text and not match:
        raise unreadable("transparent_hugepage", text)
    return match[1] if match else ""


def command_line(evidence: Evidence) -> tuple[str, ...]:
    """Arguments that the running kernel was started with."""
    return tuple(" ".join(_policy(evidence)["command-line"]).split())


def _policy(evidence: Evidence) -> dict[str, list[str]]:
    found = sections("policy", output(evidence, POLICY.key))
    if set(found) != {"governor", "hugepages", "command-line"}:
        raise unreadable("policy", ", ".join(found), "cut off")
    return found


def sleeping(evidence: Evidence) -> dict[str, str]:
    """State of the targets asked for."""
    return pairs("systemctl", output(evidence, "sleep"))


def parse_acs(config: bytes) -> tuple[str, ...] | None:
    """Control bits that are set in a bridge's configuration space; None where it has no ACS.

    PCI Express base specification, 7.9.3 (extended capability) and 7.7.11 (ACS): id 0x000d, control at offset 6.
    """
    offset, seen = 0x100, set[int]()
    while 0x100 <= offset <= len(config) - 8 and offset not in seen:
        seen.add(offset)
        header = int.from_bytes(config[offset : offset + 4], "little")
        if header & 0xFFFF == _ACS_ID:
            control = int.from_bytes(config[offset + 6 : offset + 8], "little")
            return tuple(name for bit, name in enumerate(_BITS) if control >> bit & 1)
        offset = header >> 20 & 0xFFC
    return None


def acs(evidence: Evidence) -> tuple[int, dict[str, tuple[str, ...]]]:
    """Number of GPUs, and the bridges above GPUs and NICs that have ACS, with the control bits that are set."""
    found = {}
    first, *rest = lines("PCI configuration space", output(evidence, ACS.key), dump=True) or [""]
    if not re.match(r"^gpus [0-9]{1,4}$", first):
        raise unreadable("PCI configuration space", first)
    for line in rest:
        address, _, text = line.partition(" ")
        if not re.match(r"^[0-9a-f:.]+$", address) or len(text) % 2 or not re.match(r"^[0-9a-f]{128,}$", text):
            raise unreadable("PCI configuration space", line)
        bits = parse_acs(bytes.fromhex(text))
        if bits is not None:
            found[address] = bits
    return int(first.split()[1]), found


def care(evidence: Evidence) -> Care:
    """The processor and what protects it."""
    values = {}
    for line in lines("/proc/cpuinfo", output(evidence, CARE.key)):
        key, colon, value = line.partition(":")
        if not colon:
            raise unreadable("/proc/cpuinfo", line)
        values[key.strip()] = value.strip()
    text = values.get("microcode", "0x0")
    if not re.match(r"^0x[0-9a-f]+$", text):
        raise unreadable("/proc/cpuinfo", text, "no microcode revision")
    limit = values.get("limit")
    watts = whole("powercap", limit, "power limit") / 1e6 if limit is not None else None
    return Care(values.get("model name", ""), int(text, 16), watts)

"""Kernels of the host: the running one, the one that boots next, their headers, their nvidia module, their tracks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.reading import closed_sections, output, unreadable

# grubby knows the default of EL; GRUB's first entry is Debian's, unless another one was chosen; else the newest kernel.
NEXT = """next_kernel() {
n=; if command -v grubby >/dev/null; then n=$(grubby --default-kernel 2>/dev/null | sed 's#.*/vmlinuz-##')
elif grep -q 'set default="0"' /boot/grub/grub.cfg 2>/dev/null; then
n=$(grep -m1 -oE '/vmlinuz-[^ ]+' /boot/grub/grub.cfg | sed 's#.*/vmlinuz-##'); fi
[ -n "$n" ] || n=$(ls /boot 2>/dev/null | sed -n 's/^vmlinuz-//p' | grep -v rescue | sort -V | tail -n 1)
[ -n "$n" ] || n=$(uname -r); echo "$n"; }
"""
_ASK = (
    NEXT
    + """all=$( { uname -r; for f in /boot/vmlinuz-*; do n=${f#/boot/vmlinuz-}
[ -d "/lib/modules/$n" ] && echo "$n"; done; } | sort -uV)
echo "== running"; uname -r
echo "== next"; next_kernel
echo "== installed"; echo "$all"
echo "== headers"; for n in $all; do [ -e "/lib/modules/$n/build/Makefile" ] && echo "$n"; done
echo "== offered"; if command -v apt-cache >/dev/null
then for n in $all; do apt-cache policy "linux-headers-$n" 2>/dev/null | grep -q 'Candidate: [^(]' && echo "$n"; done
elif command -v dnf >/dev/null
then for n in $all; do [ -n "$(dnf -q repoquery "kernel-devel-$n" 2>/dev/null)" ] && echo "$n"; done; fi
echo "== modules"; for n in $all; do
for m in nvidia nvidia-current-open nvidia-current; do v=$(modinfo -k "$n" -F version $m 2>/dev/null) && break; done
[ -z "$v" ] || echo "$n|$v|$(modinfo -k "$n" -F license $m 2>/dev/null)|$(modinfo -k "$n" -F signer $m 2>/dev/null)"
done
echo "== metas"
dpkg-query -W -f '${db:Status-Status} ${Package} ${Depends}\\n' 'linux-image-*' 'linux-headers-*' 2>/dev/null \
| sed -n 's/^installed //p' | grep -E ' .*linux-(image|headers|modules)[a-z-]*-[0-9]+\\.[0-9]' | cut -d' ' -f1
echo "== end\""""
)
COMMAND = Command("kernels", ("sh", "-c", _ASK), 60)
_PARTS = ("running", "next", "installed", "headers", "offered", "modules", "metas")
_KERNEL = re.compile(r"^[0-9][\w.+~-]*$")
_OF_ONE_KERNEL = re.compile(r"^linux-(?:image|headers)-(?:unsigned-)?[0-9]")


@dataclass(frozen=True)
class Module:
    """The nvidia module that lies on the disk for a kernel."""

    version: str
    licence: str
    signer: str

    @property
    def open(self) -> bool:
        """Whether it is of the open flavour: its licence names the GPL."""
        return "GPL" in self.licence


@dataclass(frozen=True)
class Kernels:
    """Kernels by name as `uname -r` gives it; `metas` are packages that follow a track of kernels."""

    running: str
    next: str
    installed: tuple[str, ...]
    headers: tuple[str, ...]
    offered: tuple[str, ...]
    modules: dict[str, Module]
    metas: tuple[str, ...]

    @property
    def wanted(self) -> tuple[str, ...]:
        """The kernels that need a module: the running one, the one that boots next, the newest."""
        return tuple(dict.fromkeys((self.running, self.next, max(self.installed, key=_ordered))))

    @property
    def tracks(self) -> tuple[str, ...]:
        """Packages that bring a new kernel with each upgrade, each of its own flavour or series."""
        return tuple(name for name in self.metas if name.startswith("linux-image-"))


def _ordered(kernel: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"[.+~-]", kernel))


def parse(raw: bytes) -> Kernels:
    """The host's kernels; raises ProbeError for a name that is none."""
    tool = "kernels"
    found = closed_sections(tool, raw, _PARTS)
    for name in (*found["running"], *found["next"], *found["installed"]):
        if not _KERNEL.match(name):
            raise unreadable(tool, name, "not a kernel")
    if len(found["running"]) != 1 or len(found["next"]) != 1 or not found["installed"]:
        raise unreadable(tool, " ".join((*found["running"], *found["next"])), "no kernel")
    modules = {}
    for line in found["modules"]:
        kernel, *parts = line.split("|")
        if len(parts) != 3:
            raise unreadable(tool, line)
        modules[kernel] = Module(*parts)
    return Kernels(
        running=found["running"][0],
        next=found["next"][0],
        installed=tuple(found["installed"]),
        headers=tuple(found["headers"]),
        offered=tuple(found["offered"]),
        modules=modules,
        metas=tuple(sorted(name for name in found["metas"] if not _OF_ONE_KERNEL.match(name))),
    )


def kernels(evidence: Evidence) -> Kernels:
    """The host's kernels."""
    return parse(output(evidence, COMMAND.key))

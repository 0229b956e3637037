"""mdadm.conf as the initramfs of the running kernel holds it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.mdadm import ArrayLine, parse_conf
from llmhw_provision.probes.reading import lines, output, unreadable

_FIND = 'k=$(uname -r); for f in "/boot/initrd.img-$k" "/boot/initramfs-$k.img"; do [ -f "$f" ] && break; done'
_DATES = (
    _FIND
    + '; stat -L -c "%Y %n" "$f"'
    + '; for c in /etc/mdadm/mdadm.conf /etc/mdadm.conf; do [ -f $c ] && stat -L -c "%Y %n" $c; done; true'
)
_CONTENT = (
    _FIND
    + """; d=$(mktemp -d) || exit 1; trap 'rm -rf "$d"' EXIT
if command -v unmkinitramfs >/dev/null; then unmkinitramfs "$f" "$d/x" 2>/dev/null || exit 1
  for c in "$d"/x/etc/mdadm/mdadm.conf "$d"/x/main/etc/mdadm/mdadm.conf "$d"/x/*/etc/mdadm.conf; do
    [ -f "$c" ] && echo "== initramfs" && cat "$c" && exit 0; done
elif command -v lsinitrd >/dev/null; then echo "== initramfs"; lsinitrd -f etc/mdadm.conf "$f"; exit 0
else echo "neither unmkinitramfs nor lsinitrd" >&2; exit 1; fi
exit 0"""
)
DATES = Command("initramfs-dates", ("sh", "-c", _DATES), 5)
CONTENT = Command("initramfs-mdadm", ("sh", "-c", _CONTENT), 120)

_LINE = re.compile(r"^([0-9]+) (/\S+)$")


@dataclass(frozen=True)
class Dates:
    """When the initramfs and mdadm.conf were written, in seconds since 1970."""

    initramfs: int
    conf: int | None


def parse_dates(raw: bytes) -> Dates:
    """The dates; the first line is the initramfs."""
    found: list[tuple[int, str]] = []
    for line in lines("stat", raw):
        match = _LINE.match(line)
        if not match:
            raise unreadable("stat", line)
        found.append((int(match[1]), match[2]))
    if not found or not found[0][1].startswith("/boot/"):
        raise unreadable("stat", found[0][1] if found else "", "no initramfs of the running kernel in /boot")
    return Dates(found[0][0], found[1][0] if len(found) > 1 else None)


def dates(evidence: Evidence) -> Dates:
    """The dates on the host."""
    return parse_dates(output(evidence, DATES.key))


def array_lines(evidence: Evidence) -> tuple[ArrayLine, ...]:
    """The ARRAY lines that the host's initramfs will use."""
    return parse_conf(output(evidence, CONTENT.key))

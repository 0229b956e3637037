"""mdadm.conf as the initramfs of the running kernel carries it."""

from __future__ import annotations

import re
from pathlib import Path

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.mdadm import ArrayLine, parse_conf
from llmhw_provision.probes.reading import lines, output, unreadable

_PROGRAM = Path(__file__).with_name("on_host") / "initramfs_member"
_FIND = 'k=$(uname -r); for f in "/boot/initrd.img-$k" "/boot/initramfs-$k.img"; do [ -f "$f" ] && break; done'
_READ = f'{_FIND}; exec python3 -c "$1" "$f" /etc/mdadm/mdadm.conf'
TIMES = Command("boot-times", ("sh", "-c", f'{_FIND}; grep "^btime " /proc/stat; stat -L -c "initramfs %Y" "$f"'), 5)

_TIMES = re.compile(r"^btime ([0-9]+)\ninitramfs ([0-9]+)\n$")


def command() -> Command:
    """Asks for mdadm.conf inside the initramfs of the running kernel."""
    return Command("initramfs", ("sh", "-c", _READ, "sh", _PROGRAM.read_text(encoding="utf-8")), 60)


def parse(raw: bytes) -> tuple[ArrayLine, ...]:
    """The ARRAY lines that the initramfs will use; none when it carries no mdadm.conf."""
    text = lines("initramfs", raw)
    if not text or not text[0].startswith("== /boot/"):
        raise unreadable("initramfs", text[0] if text else "")
    return parse_conf(raw)


def array_lines(evidence: Evidence) -> tuple[ArrayLine, ...]:
    """The ARRAY lines in the host's initramfs."""
    return parse(output(evidence, "initramfs"))


def parse_times(raw: bytes) -> tuple[int, int]:
    """When the host last booted and when its initramfs was built, in seconds since 1970."""
    match = _TIMES.match(raw.decode("utf-8", "replace"))
    if not match:
        raise unreadable("boot-times", raw.decode("utf-8", "replace"))
    return int(match[1]), int(match[2])


def times(evidence: Evidence) -> tuple[int, int]:
    """Last boot of the host, and when its initramfs was built."""
    return parse_times(output(evidence, TIMES.key))

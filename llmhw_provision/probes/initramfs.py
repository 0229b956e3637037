"""mdadm.conf as the initramfs of the running kernel carries it."""

from __future__ import annotations

from pathlib import Path

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.mdadm import ArrayLine, parse_conf
from llmhw_provision.probes.reading import lines, output, unreadable

_PROGRAM = Path(__file__).with_name("on_host") / "initramfs_member"
_FIND = (
    'k=$(uname -r); for f in "/boot/initrd.img-$k" "/boot/initramfs-$k.img"; do [ -f "$f" ] && break; done'
    '; exec python3 -c "$1" "$f" /etc/mdadm/mdadm.conf'
)


def command() -> Command:
    """Asks for mdadm.conf inside the initramfs of the running kernel."""
    return Command("initramfs", ("sh", "-c", _FIND, "sh", _PROGRAM.read_text(encoding="utf-8")), 60)


def parse(raw: bytes) -> tuple[ArrayLine, ...]:
    """The ARRAY lines that the initramfs will use; none when it carries no mdadm.conf."""
    text = lines("initramfs", raw)
    if not text or not text[0].startswith("== /boot/"):
        raise unreadable("initramfs", text[0] if text else "")
    return parse_conf(raw)


def array_lines(evidence: Evidence) -> tuple[ArrayLine, ...]:
    """The ARRAY lines in the host's initramfs."""
    return parse(output(evidence, "initramfs"))

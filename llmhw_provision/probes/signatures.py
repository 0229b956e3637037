"""What is really written on each disk and partition, from `wipefs` (reads the device, not udev's memory)."""

from __future__ import annotations

from dataclasses import dataclass

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.reading import json_object, output, sections, unreadable

UNREADABLE = "unreadable"
_LOOP = """for s in /sys/class/block/*; do n=${s##*/}
case $n in loop*|ram*|zram*|sr*|fd*|md*|dm-*) continue;; esac
[ "$(cat "$s/size")" = 0 ] && continue
echo "== $n"; wipefs --no-act --json "/dev/$n" || echo "!! $?"; done"""
COMMAND = Command("signatures", ("sh", "-c", _LOOP), 60)


@dataclass(frozen=True)
class Signature:
    """One signature, as libblkid names it."""

    type: str
    uuid: str = ""
    label: str = ""


def parse(raw: bytes) -> dict[str, tuple[Signature, ...]]:
    """Signatures by kernel name. A device that cannot be read counts as holding something, never as empty."""
    return {name: _device(name, text) for name, text in sections("wipefs", raw).items()}


def _device(name: str, text: list[str]) -> tuple[Signature, ...]:
    if any(line.startswith("!! ") for line in text):
        return (Signature(UNREADABLE),)
    if not text:
        return ()
    entries = json_object("wipefs", "\n".join(text).encode()).get("signatures")
    if not isinstance(entries, list):
        raise unreadable("wipefs", f"{name}: {text[0]}", "no 'signatures' list")
    found: list[Signature] = []
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
            raise unreadable("wipefs", f"{name}: {entry}")
        signature = Signature(entry["type"], entry.get("uuid") or "", entry.get("label") or "")
        if signature not in found:  # gpt is written twice, at both ends
            found.append(signature)
    kinds = {signature.type for signature in found}
    return tuple(signature for signature in found if not (signature.type == "PMBR" and "gpt" in kinds))


def signatures(evidence: Evidence) -> dict[str, tuple[Signature, ...]]:
    """Signatures of the host's disks and partitions."""
    return parse(output(evidence, COMMAND.key))

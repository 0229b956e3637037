"""The disks: every planned one is there by serial, and those that must not be touched are as they were."""

from __future__ import annotations

from llmhw_provision.checks.model import Check, Outcome, failed, passed
from llmhw_provision.checks.views import disk_by_serial, loses, volume_names
from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import ExpectedDisk, HostPlan
from llmhw_provision.probes import signatures
from llmhw_provision.probes.lsblk import Block
from llmhw_provision.units import disk as disk_text


def _all(host: HostPlan) -> tuple[str, ...]:
    return tuple(disk.serial for disk in host.disks if disk.serial)


def _untouched(host: HostPlan) -> tuple[str, ...]:
    return tuple(disk.serial for disk in host.disks if disk.serial and disk.purpose in ("system", "kept"))


def _expected(host: HostPlan, serial: str) -> ExpectedDisk:
    return next(disk for disk in host.disks if disk.serial == serial)


def present(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """The disk with this serial is there and has its size."""
    wanted = _expected(host, subject)
    expected = f"{wanted.model} {subject}, {disk_text(wanted.size_bytes)} ({wanted.purpose})"
    block = disk_by_serial(evidence, subject)
    if block is None:
        lost = loses(host, subject)
        return failed(f"no disk with serial {subject}" + (f": {lost}" if lost else ""), expected)
    if block.size_bytes != wanted.size_bytes:
        return failed(f"{block.model} {subject}, {disk_text(block.size_bytes)} ({block.size_bytes} B)", expected)
    return passed(f"/dev/{block.name}, {disk_text(block.size_bytes)}", expected)


def untouched(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """The disk still holds what it held, and none of our volumes lies on it."""
    wanted = _expected(host, subject)
    block = disk_by_serial(evidence, subject)
    if block is None:
        return failed(f"no disk with serial {subject}", "there, as it was")
    ours = [item.label for item in block.walk() if item.label.rpartition(":")[2] in volume_names(host)]
    if ours:
        return failed(f"carries {ours[0]!r}", "no volume of the plan", "taken")
    if wanted.purpose == "system":
        mounts = block.all_mounts()
        return passed(f"carries {', '.join(mounts)}", "the system") if mounts else failed("not in use", "the system")
    held = {signature.uuid for signature in wanted.signatures if signature.uuid}
    seen = _uuids(evidence, block)
    gone = sorted(held - seen)
    if gone:
        return failed(f"gone: {', '.join(gone)}", f"holds {', '.join(sorted(held))}")
    return passed(f"holds {', '.join(sorted(held))}" if held else "as it was", wanted.reason)


def _uuids(evidence: Evidence, disk: Block) -> set[str]:
    written = signatures.signatures(evidence)
    blocks = tuple(disk.walk())
    found = {signature.uuid for block in blocks for signature in written.get(block.name, ())}
    return found | {block.uuid for block in blocks} | {block.ptuuid for block in blocks}


CHECKS = (
    Check("disk-present", "disks", ("before", "quick"), "critical", "storage-replace-drive", "lsblk", _all, present),
    Check("disk-untouched", "disks", ("quick",), "critical", "disk-changed", "signatures", _untouched, untouched),
)

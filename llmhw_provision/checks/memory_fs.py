"""The memory file systems."""

from __future__ import annotations

import re

from llmhw_provision.checks.model import Check, Outcome, failed, passed
from llmhw_provision.checks.views import mounted_at, tmpfs_mounts
from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.plan.roles import TmpfsMount
from llmhw_provision.probes import folders, mounts, systemd
from llmhw_provision.probes.reading import unreadable
from llmhw_provision.units import MIB, memory

_SIZE = re.compile(r"^([0-9]+)([kmg]?)$")
_FACTOR = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


def _paths(host: HostPlan) -> tuple[str, ...]:
    return tuple(item.path for item in tmpfs_mounts(host))


def _planned(host: HostPlan, path: str) -> TmpfsMount:
    return next(item for item in tmpfs_mounts(host) if item.path == path)


def mounted(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """A tmpfs of the planned size: not larger, for it takes memory from every job; not smaller, for its data."""
    item = _planned(host, subject)
    expected = f"tmpfs of {memory(item.size_mib * MIB)}, {','.join(item.options)}"
    entry = mounts.at(mounts.mounted(evidence), subject)
    if entry is None:
        return failed("not mounted", expected, "absent")
    if entry.type != "tmpfs":
        return failed(f"{entry.type} is mounted there", expected)
    size = _bytes(entry.option("size"))
    if size is None:
        return failed("a tmpfs without limit of its own (half of memory)", expected)
    lacking = [option for option in item.options if option not in entry.options]
    found = f"tmpfs of {memory(size)}" + (f", lacks {', '.join(lacking)}" if lacking else "")
    return passed(found, expected) if size == item.size_mib * MIB and not lacking else failed(found, expected)


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    match = _SIZE.match(text)
    if not match:
        raise unreadable("findmnt", f"size={text}", "not a size")
    return int(match[1]) * _FACTOR[match[2]]


def mode(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """Mode of its root folder."""
    wanted = int(_planned(host, subject).mode, 8)
    mounted_at(evidence, subject)
    found = folders.folders(evidence).get(subject)
    if found is None:
        return failed("not there", f"{wanted:04o}")
    outcome = passed if found.mode == wanted else failed
    return outcome(f"{found.mode:04o}", f"{wanted:04o}")


def unit(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The mount unit is enabled: the file system is there, empty, after the next boot."""
    found = systemd.mount_unit(evidence, subject).properties
    state = found.get("UnitFileState") or found["LoadState"]
    if found.get("NeedDaemonReload") == "yes":
        return failed(f"{state}, but systemd has not read the changed unit file", "enabled")
    return passed(state, "enabled") if state == "enabled" else failed(state, "enabled")


CHECKS = (
    Check("tmpfs-mounted", "tmpfs", ("quick",), "major", "tmpfs", "findmnt", _paths, mounted),
    Check("tmpfs-mode", "tmpfs", ("quick",), "minor", "tmpfs", "folders", _paths, mode),
    Check("tmpfs-unit", "tmpfs", ("quick",), "major", "tmpfs", "mount-unit:{mount}", _paths, unit),
)

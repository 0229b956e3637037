"""The arrays: there under their name, of the planned shape, complete by serial, and found again at boot."""

from __future__ import annotations

from llmhw_provision.checks.model import Check, Outcome, compared, failed, passed, warned
from llmhw_provision.checks.views import (
    NotThere,
    array,
    array_names,
    loses,
    running_array,
    serials,
    stripe_names,
    volume,
)
from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import initramfs, lsblk, mdadm
from llmhw_provision.probes.reading import ProbeError

_RUNNING = ("clean", "active", "active-idle", "write-pending")


def named(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """An array of that name runs. Its kernel name (md127 or another) does not matter."""
    expected = f"array {subject!r} running"
    found = array(evidence, subject)
    stats = {stat.name: stat for stat in mdadm.mdstat(evidence)}
    if found is None:
        idle = ", ".join(f"{s.name} ({', '.join(s.members)})" for s in stats.values() if not s.active)
        return failed(
            "no array of that name" + (f"; inactive: {idle}" if idle else ""), expected, "inactive" if idle else ""
        )
    kernel, _ = found
    if kernel not in stats or not stats[kernel].active:
        return failed(f"{kernel} is inactive", expected, "inactive")
    return passed(f"{kernel} active", expected)


def level(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """RAID level as planned."""
    return compared(running_array(evidence, subject)[1].level, volume(host, subject).level)


def chunk(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """Chunk as planned."""
    kernel, _ = running_array(evidence, subject)
    size = mdadm.kernel(evidence).get(kernel, {}).get("chunk_size", "")
    if not size.isdigit():
        raise ProbeError(f"md-sysfs: no chunk_size of {kernel}")
    return compared(f"{int(size) // 1024} KiB", f"{volume(host, subject).chunk_kib} KiB")


def members(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """Every member is there by serial; a missing or foreign drive is named, with what is lost."""
    wanted = serials(host, volume(host, subject))
    expected = f"{len(wanted)} members: {', '.join(wanted)}"
    devices = lsblk.blocks(evidence)
    found = array(evidence, subject)
    if found is not None:
        names = found[1].members
    else:
        stats = [stat for stat in mdadm.mdstat(evidence) if not stat.active]
        names = stats[0].members if len(stats) == 1 else ()
    faulty = {name for stat in mdadm.mdstat(evidence) for name in stat.faulty}
    seen = {lsblk.serial_of(devices, name) or name for name in names if name not in faulty}
    missing = [serial for serial in wanted if serial not in seen]
    foreign = sorted(seen - set(wanted))
    if missing or foreign:
        parts = [f"{len(seen)} of {len(wanted)}"]
        parts += [f"missing {', '.join(missing)}: {loses(host, missing[0])}"] if missing else []
        parts += [f"not in the plan: {', '.join(foreign)}"] if foreign else []
        return failed("; ".join(parts), expected)
    return passed(f"{len(seen)} members", expected)


def state(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The kernel calls the array clean; a mirror that is being filled works, and is a warning."""
    kernel, _ = running_array(evidence, subject)
    values = mdadm.kernel(evidence).get(kernel, {})
    current = values.get("array_state", "")
    if not current:
        raise ProbeError(f"md-sysfs: no array_state of {kernel}")
    if current not in _RUNNING:
        return failed(current, "clean")
    action = values.get("sync_action", "idle")
    if values.get("degraded", "0") not in ("0", ""):
        if action == "recover":
            return warned(f"{current}, rebuilding", "clean", "filling")
        return failed(f"{current}, {values['degraded']} member missing", "clean")
    if action not in ("idle", "check"):
        return warned(f"{current}, {action} running", "clean", "filling")
    return passed(current, "clean")


def conf_line(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """mdadm.conf names the array by UUID exactly once; else it comes up as md127 or not at all."""
    return _once(mdadm.array_lines(evidence), _uuid(evidence, subject), subject)


def initramfs_line(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The initramfs of the running kernel names the array by UUID exactly once."""
    return _once(initramfs.array_lines(evidence), _uuid(evidence, subject), subject)


def came_back(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The machine has booted with the initramfs it has now: only that shows that the arrays come back."""
    booted, built = initramfs.times(evidence)
    expected = "booted since the initramfs was built"
    if built > booted:
        return warned(f"initramfs built {built - booted} s after the last boot", expected)
    return passed(f"booted {booted - built} s after it was built", expected)


def _has_arrays(host: HostPlan) -> tuple[str, ...]:
    return ("",) if array_names(host) else ()


def _uuid(evidence: Evidence, name: str) -> str:
    found = array(evidence, name)
    if found is None:
        raise NotThere(f"array {name!r} is not there")
    return found[1].uuid


def _once(lines: tuple[mdadm.ArrayLine, ...], uuid: str, name: str) -> Outcome:
    expected = f"ARRAY /dev/md/{name} UUID={uuid}, once"
    mine = [line for line in lines if line.uuid == uuid]
    if len(mine) != 1:
        return failed(f"{len(mine)} lines with that UUID", expected)
    if mine[0].device not in (f"/dev/md/{name}", name, ""):
        return failed(f"ARRAY {mine[0].device or '(no device)'} UUID={uuid}", expected)
    same = [line for line in lines if line.device == mine[0].device and line.uuid != uuid]
    if same:
        return failed(f"another line for {mine[0].device}: UUID={same[0].uuid or 'none'}", expected)
    return passed(f"ARRAY {mine[0].device} UUID={uuid}", expected)


_REPLACE, _BOOT = "storage-replace-drive", "array-at-boot"
CHECKS = (
    Check("array-name", "array", ("quick",), "critical", _REPLACE, "mdstat", array_names, named),
    Check("array-level", "array", ("quick",), "critical", "array-shape", "mdadm-detail", array_names, level),
    Check("array-chunk", "array", ("quick",), "major", "array-shape", "md-sysfs", stripe_names, chunk),
    Check("array-members", "array", ("quick",), "critical", _REPLACE, "mdadm-detail", array_names, members),
    Check("array-state", "array", ("quick",), "critical", _REPLACE, "md-sysfs", array_names, state),
    Check("array-conf", "array", ("quick",), "major", _BOOT, "mdadm-conf", array_names, conf_line),
    Check("array-came-back", "array", ("quick",), "major", _BOOT, "boot-times", _has_arrays, came_back),
    Check("array-boot", "array", ("quick",), "major", _BOOT, "initramfs", array_names, initramfs_line),
)

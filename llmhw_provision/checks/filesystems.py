"""File systems and folders: the right one, of the right shape, mounted so that a missing drive harms nothing else."""

from __future__ import annotations

from llmhw_provision.checks.model import Check, Outcome, compared, failed, passed
from llmhw_provision.checks.views import (
    NotThere,
    block,
    kernel_name,
    mounted_at,
    running_array,
    stripe_names,
    volume,
    volume_names,
    volumes,
)
from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import folders, mounts, systemd, trim, xfs
from llmhw_provision.probes.folders import Folder
from llmhw_provision.units import KIB

_EXT4_BLOCK_KIB = 4  # the block size that the role makes it with; stripe= counts in blocks
# Read by systemd, never by the kernel: they cannot be seen in the options of the mount.
_NOT_KERNEL = ("nofail", "defaults", "auto", "noauto", "_netdev")


def mounted(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """The volume's own device is mounted where planned, with the planned options."""
    item = volume(host, subject)
    wanted = [option for option in item.mount_options if option not in _NOT_KERNEL and not option.startswith("x-")]
    expected = f"{subject} on {item.mount}, {item.filesystem}, {','.join(wanted)}"
    entry = mounts.at(mounts.mounted(evidence), item.mount)
    if entry is None:
        return failed(f"nothing is mounted on {item.mount}", expected)
    device = kernel_name(evidence, item)
    if entry.source not in (f"/dev/{device}", f"/dev/md/{item.name}") or not device:
        return failed(f"{entry.source} is mounted on {item.mount}", expected)
    lacking = [option for option in wanted if option not in entry.options]
    if entry.type != item.filesystem or lacking:
        return failed(f"{entry.type}, lacks {', '.join(lacking) or 'nothing'}", expected, "options")
    return passed(f"{entry.source}, {','.join(entry.options)}", expected)


def identity(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """The UUID on the device, of the mount and in the mount unit are one and the same."""
    item = volume(host, subject)
    entry = mounted_at(evidence, item.mount)
    device = block(evidence, kernel_name(evidence, item))
    unit = systemd.mount_unit(evidence, item.mount).file_what.removeprefix("/dev/disk/by-uuid/")
    seen = {"device": device.uuid if device else "", "mount": entry.uuid, "unit": unit}
    text = ", ".join(f"{name} {value or 'none'}" for name, value in seen.items())
    if len(set(seen.values())) == 1 and seen["unit"]:
        return passed(seen["unit"], "one UUID")
    return failed(text, "one UUID on device, mount and unit")


def geometry(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """The file system knows the stripe of the array below it: XFS unit and width, ext4 the width."""
    item = volume(host, subject)
    entry = mounted_at(evidence, item.mount)
    if item.filesystem == "ext4":
        stripe = next((option for option in entry.options if option.startswith("stripe=")), "stripe=0")
        return compared(stripe, f"stripe={item.chunk_kib // _EXT4_BLOCK_KIB * len(item.members)}")
    found = xfs.geometry(evidence, item.mount)
    return compared(
        f"su={found.stripe_unit_bytes // KIB} KiB sw={found.stripe_disks}",
        f"su={item.chunk_kib} KiB sw={len(item.members)}",
    )


def bare(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """Under the mount lies an empty folder that nobody can write to: a missing drive cannot fill the root disk."""
    found = folders.bare(evidence, volume(host, subject).mount)
    expected = "empty and immutable"
    if found.entries:
        return failed(f"holds {', '.join(found.entries)}", expected, "filled")
    return passed(expected, expected) if found.immutable else failed("empty, but can be written to", expected)


def unit(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """The mount unit is enabled; boot waits the planned time for the device and goes on without it."""
    item = volume(host, subject)
    found = systemd.mount_unit(evidence, item.mount)
    expected = f"enabled, boot goes on without it after {item.device_timeout_s} s"
    if not found.file_what:
        return failed("no unit file in /etc/systemd/system", expected)
    wrong = _enabled(found)
    if "local-fs.target" in found.properties.get("RequiredBy", "").split():
        wrong.append("boot stops without it (RequiredBy=local-fs.target)")
    if found.timeout_s != item.device_timeout_s:
        wait = "for ever" if found.timeout_s is None else f"{found.timeout_s:g} s"
        wrong.append(f"boot waits {wait}")
    return failed("; ".join(wrong), expected) if wrong else passed(expected, expected)


def _enabled(found: systemd.MountUnit) -> list[str]:
    state = found.properties.get("UnitFileState", "")
    wrong = [] if state == "enabled" else [f"unit is {state or found.properties.get('LoadState', 'unknown')}"]
    if found.properties.get("NeedDaemonReload") == "yes":
        wrong.append("systemd has not read the changed unit file")
    return wrong


def root_folder(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """Owner and mode of the mounted root folder."""
    item = volume(host, subject)
    mounted_at(evidence, item.mount)
    return _folder(folders.folders(evidence).get(item.mount), item.owner, item.group, item.mode)


def directory(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """A planned folder is there with owner and mode."""
    config = host.roles.nvme_raid0
    item = next(entry for entry in (config.directories if config else ()) if entry.path == subject)
    return _folder(folders.folders(evidence).get(item.path), item.owner, item.group, item.mode)


def _folder(found: Folder | None, owner: str, group: str, mode: str) -> Outcome:
    expected = _owned(owner, group, int(mode, 8))
    if found is None:
        return failed("not there", expected)
    if found.kind != "directory":
        return failed(f"a {found.kind}", expected)
    return compared(_owned(found.owner, found.group, found.mode), expected)


def _owned(owner: str, group: str, mode: int) -> str:
    return f"{owner}:{group} {mode:04o}"


def read_ahead(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """Read-ahead of the volume's device as planned."""
    item = volume(host, subject)
    device = kernel_name(evidence, item) if item.level == "single" else running_array(evidence, item.name)[0]
    found = folders.read_ahead(evidence).get(device)
    if found is None:
        raise NotThere(f"{subject} has no device")
    return compared(f"{found} KiB", f"{item.read_ahead_kib} KiB")


def trimmed(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """Freed blocks of the volume are given back: fstrim.service itself reads /etc/fstab only."""
    item = volume(host, subject)
    found = trim.trim(evidence)
    expected = f"fstrim.service runs fstrim on {item.mount}"
    device = kernel_name(evidence, item)
    if device and device not in found.devices:
        return passed(f"{device} takes no discards", "nothing to trim")
    if any("/usr/sbin/fstrim" in words and words[-1] == item.mount for words in found.runs):
        return passed(expected, expected)
    return failed("; ".join(" ".join(words) for words in found.runs) or "it runs nothing", expected)


def _trimmed_names(host: HostPlan) -> tuple[str, ...]:
    return tuple(item.name for item in volumes(host) if item.trim == "weekly")


def _directories(host: HostPlan) -> tuple[str, ...]:
    return tuple(item.path for item in host.roles.nvme_raid0.directories) if host.roles.nvme_raid0 else ()


_MOUNT, _SHAPE = "storage-mount", "array-shape"
CHECKS = (
    Check("fs-mounted", "filesystem", ("quick",), "critical", _MOUNT, "findmnt", volume_names, mounted),
    Check("fs-uuid", "filesystem", ("quick",), "major", _MOUNT, "mount-unit:{mount}", volume_names, identity),
    Check("fs-geometry", "filesystem", ("quick",), "minor", _SHAPE, "xfs:{mount}", stripe_names, geometry),
    Check("fs-bare", "filesystem", ("quick",), "major", _MOUNT, "bare:{mount}", volume_names, bare),
    Check("fs-unit", "filesystem", ("quick",), "major", _MOUNT, "mount-unit:{mount}", volume_names, unit),
    Check("fs-folder", "filesystem", ("quick",), "minor", _MOUNT, "folders", volume_names, root_folder),
    Check("fs-directory", "filesystem", ("quick",), "minor", _MOUNT, "folders", _directories, directory),
    Check("fs-read-ahead", "filesystem", ("quick",), "minor", _SHAPE, "read-ahead", volume_names, read_ahead),
    Check("fs-trim", "filesystem", ("quick",), "minor", "host-units", "trim", _trimmed_names, trimmed),
)

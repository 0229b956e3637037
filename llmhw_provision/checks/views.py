"""Questions that several checks ask of the evidence: which device, which disks, which serials."""

from __future__ import annotations

from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.plan.roles import TmpfsMount, Volume
from llmhw_provision.probes import by_id, lsblk, mdadm, mounts
from llmhw_provision.probes.lsblk import Block
from llmhw_provision.probes.mounts import Mounted
from llmhw_provision.probes.reading import ProbeError


class NotThere(ProbeError):
    """What the question is about is not there; another check has said so, this one cannot be answered."""


def volumes(host: HostPlan) -> tuple[Volume, ...]:
    """The planned volumes."""
    return host.roles.nvme_raid0.volumes if host.roles.nvme_raid0 else ()


def volume(host: HostPlan, name: str) -> Volume:
    """The planned volume `name`."""
    return next(item for item in volumes(host) if item.name == name)


def volume_names(host: HostPlan) -> tuple[str, ...]:
    """Names of all planned volumes."""
    return tuple(item.name for item in volumes(host))


def array_names(host: HostPlan) -> tuple[str, ...]:
    """Names of the planned volumes that are arrays."""
    return tuple(item.name for item in volumes(host) if item.level != "single")


def stripe_names(host: HostPlan) -> tuple[str, ...]:
    """Names of the planned volumes that stripe."""
    return tuple(item.name for item in volumes(host) if item.level == "raid0")


def whole_host(host: HostPlan) -> tuple[str, ...]:  # noqa: ARG001 - every host has itself
    """One subject: the host itself."""
    return ("",)


def tmpfs_mounts(host: HostPlan) -> tuple[TmpfsMount, ...]:
    """The planned memory file systems."""
    return host.roles.tmpfs.mounts if host.roles.tmpfs else ()


def serials(host: HostPlan, item: Volume) -> tuple[str, ...]:
    """Serials of the disks that make up a volume, in array order."""
    known = {disk.by_id: disk.serial for disk in host.disks}
    return tuple(known.get(name, name.removeprefix(by_id.FOLDER + "/")) for name in item.members)


def array(evidence: Evidence, name: str) -> tuple[str, mdadm.Detail] | None:
    """Kernel name and details of the assembled array that carries `name` in its metadata; None when there is none."""
    found = mdadm.details(evidence)
    return next(((kernel, detail) for kernel, detail in sorted(found.items()) if detail.name == name), None)


def running_array(evidence: Evidence, name: str) -> tuple[str, mdadm.Detail]:
    """Kernel name and details of the running array `name`; raises NotThere, since nothing can be said of it else."""
    found = array(evidence, name)
    if found is None or not _runs(evidence, found[0]):
        raise NotThere(f"array {name!r} does not run")
    return found


def _runs(evidence: Evidence, kernel: str) -> bool:
    return any(stat.active for stat in mdadm.mdstat(evidence) if stat.name == kernel)


def mounted_at(evidence: Evidence, path: str) -> Mounted:
    """What is mounted on `path`; raises NotThere."""
    entry = mounts.at(mounts.mounted(evidence), path)
    if entry is None:
        raise NotThere(f"nothing is mounted on {path}")
    return entry


def kernel_name(evidence: Evidence, item: Volume) -> str:
    """Kernel name of the device the volume's file system lies on; empty when it is not there."""
    if item.level != "single":
        found = array(evidence, item.name)
        return found[0] if found and _runs(evidence, found[0]) else ""
    wanted = item.members[0].removeprefix(by_id.FOLDER + "/")
    links = by_id.links(evidence)
    return next((device for device, names in links.items() if wanted in names), "")


def block(evidence: Evidence, name: str) -> Block | None:
    """The block device with kernel name `name`."""
    return next((item for top in lsblk.blocks(evidence) for item in top.walk() if item.name == name), None)


def disk_by_serial(evidence: Evidence, serial: str) -> Block | None:
    """The whole disk that reports `serial`."""
    return next((item for item in lsblk.blocks(evidence) if item.type == "disk" and item.serial == serial), None)


def loses(host: HostPlan, serial: str) -> str:
    """In words, what is lost with the disk `serial`; empty when the plan puts nothing on it."""
    for item in volumes(host):
        if serial in serials(host, item):
            if item.level == "raid1":
                return f"{item.mount} runs without its mirror"
            return f"everything on {item.mount} is lost"
    return ""

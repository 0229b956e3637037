"""From evidence to a Machine: what this host is and what lies on its disks."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from llmhw_provision.catalogue.loader import gpu_by_pci
from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.machine import Array, Content, Disk, Gpus, Machine, Mount, PciDevice
from llmhw_provision.probes import by_id, lsblk, lscpu, mdadm, mounts, pci, signatures, system
from llmhw_provision.probes.lsblk import Block
from llmhw_provision.probes.signatures import Signature

COMMANDS: tuple[Command, ...] = (
    *system.COMMANDS,
    lscpu.COMMAND,
    lsblk.COMMAND,
    signatures.COMMAND,
    by_id.COMMAND,
    *mdadm.COMMANDS,
    *mounts.COMMANDS,
    *pci.COMMANDS,
)

ContentKind = Literal["partition-table", "filesystem", "raid-member", "lvm", "crypto", "swap", "zfs", "ceph", "other"]

_KINDS: dict[str, ContentKind] = {
    "crypto_LUKS": "crypto",
    "BitLocker": "crypto",
    "swap": "swap",
    "swsuspend": "swap",
    "zfs_member": "zfs",
}
_SYSTEM_MOUNTS = {"/", "/boot", "/boot/efi", "/efi", "/usr", "/var", "[SWAP]"}
_NOT_DISKS = ("loop", "ram", "zram", "sr", "fd")
_TABLES = {"gpt", "dos", "PMBR", "sgi", "sun", "mac", "bsd", "atari"}
_FILESYSTEMS = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "exfat", "ntfs", "f2fs", "iso9660", "udf", "jfs", "reiserfs"}
    | {"nilfs2", "squashfs", "bcachefs", "gfs2", "ocfs2", "hfs", "hfsplus", "minix", "ufs", "erofs"}
)
_VIRTUAL = frozenset(
    {"autofs", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs", "fusectl"}
    | {"hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "ramfs", "rpc_pipefs", "securityfs", "sysfs", "tmpfs"}
    | {"tracefs", "binfmt_misc", "overlay", "squashfs"}
)
_REMOTE = ("nfs", "cifs", "smb", "lustre", "beegfs", "ceph", "glusterfs", "gpfs", "fuse", "9p", "virtiofs")


def observe(evidence: Evidence) -> Machine:
    """The machine that `evidence` was read on; raises ProbeError when any part of it cannot be read."""
    devices = lsblk.blocks(evidence)
    functions = pci.devices(evidence)
    return Machine(
        schema=1,
        origin="observed",
        name=evidence.host,
        virtualization=system.virtualization(evidence),
        os=system.os_of(evidence),
        boot=system.firmware(evidence),
        cpu=lscpu.cpu_of(evidence),
        memory_bytes=system.memory_of(evidence),
        disks=_disks(devices, signatures.signatures(evidence), by_id.links(evidence)),
        arrays=_arrays(evidence, devices),
        mounts=_mounts(evidence),
        pci=functions,
        nics=pci.interfaces(evidence),
        gpus=_gpus(functions),
    )


def _disks(
    devices: tuple[Block, ...], found: dict[str, tuple[Signature, ...]], links: dict[str, tuple[str, ...]]
) -> tuple[Disk, ...]:
    disks = []
    for block in devices:
        if block.type != "disk" or block.size_bytes == 0 or block.name.rstrip("0123456789").startswith(_NOT_DISKS):
            continue
        disks.append(
            Disk(
                by_id=by_id.canonical(links.get(block.name, ())),
                kernel_name=block.name,
                serial=block.serial,
                model=block.model,
                size_bytes=block.size_bytes,
                logical_sector=block.logical_sector,
                transport=block.transport or ("virtio" if block.name.startswith("vd") else "unknown"),
                rotational=block.rotational,
                removable=block.removable or block.transport == "usb",
                system=any(mount in _SYSTEM_MOUNTS for mount in block.all_mounts()),
                contents=_contents(block, found),
            )
        )
    return tuple(sorted(disks, key=lambda disk: (disk.by_id == "", disk.by_id, disk.kernel_name)))


def _contents(disk: Block, found: dict[str, tuple[Signature, ...]]) -> tuple[Content, ...]:
    """Everything on the disk and its partitions; what was read from the device first, then what only udev knows."""
    contents: list[Content] = []
    parts = [child for child in disk.children if child.type == "part"]
    for block in (disk, *sorted(parts, key=lambda part: (len(part.name), part.name))):
        where = "disk" if block is disk else f"partition {block.name.removeprefix(disk.name).removeprefix('p')}"
        seen = list(found.get(block.name, ()))
        if block.name not in found:  # listed by lsblk, yet wipefs never looked: never call that empty
            seen.append(Signature(signatures.UNREADABLE))
        known = {signature.type for signature in seen}
        if block is disk and block.pttype and block.pttype not in known:
            seen.append(Signature(block.pttype, block.ptuuid))
        if block.fstype and block.fstype not in known:
            seen.append(Signature(block.fstype, block.uuid, block.label))
        contents += [_content(where, block, signature) for signature in seen]
        if not seen and (block.mounts or _holders(block)):
            contents.append(_content(where, block, Signature("in use")))
    return tuple(contents)


def _content(where: str, block: Block, signature: Signature) -> Content:
    table = signature.type in _TABLES
    return Content(
        where=where,
        kind=_kind(signature.type),
        type=signature.type,
        uuid=signature.uuid or (block.ptuuid if table else ""),
        label=signature.label,
        mounts=() if table else block.all_mounts(),
        holders=() if table else _holders(block),
    )


def _holders(block: Block) -> tuple[str, ...]:
    return tuple(sorted(child.name for child in block.children if child.type != "part"))


def _kind(name: str) -> ContentKind:
    if name in _TABLES:
        return "partition-table"
    if name in _FILESYSTEMS:
        return "filesystem"
    if name.endswith("raid_member"):
        return "raid-member"
    if name in _KINDS:
        return _KINDS[name]
    return "lvm" if name.startswith("LVM") else "ceph" if name.startswith("ceph") else "other"


def _arrays(evidence: Evidence, devices: tuple[Block, ...]) -> tuple[Array, ...]:
    """The arrays that are assembled and running; a member without a serial goes by its kernel name."""
    details, attributes = mdadm.details(evidence), mdadm.kernel(evidence)
    md = {block.name: block for disk in devices for block in disk.walk() if block.type.startswith("raid")}
    arrays = []
    for stat in mdadm.mdstat(evidence):
        detail = details.get(stat.name)
        if not stat.active or detail is None:
            continue
        block = md.get(stat.name)
        arrays.append(
            Array(
                name=detail.name or stat.name,
                device=f"/dev/md/{detail.name}" if detail.name else f"/dev/{stat.name}",
                level=detail.level or stat.level,
                uuid=detail.uuid,
                chunk_bytes=int(attributes.get(stat.name, {}).get("chunk_size", "0")),
                members=tuple(lsblk.serial_of(devices, name) or name for name in detail.members),
                raid_devices=detail.raid_devices,
                filesystem=block.fstype if block else "",
                filesystem_uuid=block.uuid if block else "",
                mounts=block.all_mounts() if block else (),
            )
        )
    return tuple(sorted(arrays, key=lambda array: (array.name, array.uuid)))


def _mounts(evidence: Evidence) -> tuple[Mount, ...]:
    room = mounts.room(evidence)
    found = {
        entry.path: entry
        for entry in mounts.mounted(evidence)
        if entry.type not in _VIRTUAL and (room.get(entry.path, (0, 0))[0] or entry.type.startswith(_REMOTE))
    }
    return tuple(
        Mount(path=path, source=entry.source, type=entry.type, size_bytes=size, free_bytes=free)
        for path, entry in sorted(found.items())
        for size, free in (room.get(path, (0, 0)),)
    )


def _gpus(functions: tuple[PciDevice, ...]) -> tuple[Gpus, ...]:
    """NVIDIA GPUs by kind: catalogue name where the PCI id is known, else the id."""
    kinds = Counter(
        gpu_by_pci(pci_id) or pci_id
        for device in functions
        if device.vendor_id == "10de" and device.class_id in ("0300", "0302")
        for pci_id in (f"{device.vendor_id}:{device.device_id}",)
    )
    return tuple(Gpus(kind=kind, count=count) for kind, count in sorted(kinds.items()))

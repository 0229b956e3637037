"""Reads disks and arrays from the kernel and from the devices themselves; changes nothing.

Signatures are probed on the devices (wipefs), never taken from udev's records, which may be old. Exclusive opens
are for reading only: they tell whether the kernel uses a device and have no effect on it.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Sequence
from typing import Callable

from .facts import Array, Disk, Filesystem, Machine, Signature, Stranger, Superblock, Volume
from .filesystems import HEAD_BYTES, filesystem
from .formats import MD_BYTES, MD_OFFSET, array_name, md_superblock, mountinfo, names_disk, wipefs
from .health import health

Run = Callable[[list[str]], tuple[int, str, str]]
SYS = "/sys/class/block/"


def machine(volumes: Sequence[Volume], run: Run, *, mdadm_conf: str, rule: str, state: str) -> Machine:
    """The present state of every disk that `volumes` name, and of all arrays."""
    links = {link: _resolve(link) for volume in volumes for link in volume.members}
    devices = {device for device in links.values() if device}
    uses = _Uses()
    arrays = ["/dev/" + name for name in sorted(os.listdir("/sys/block")) if os.path.isdir(SYS + name + "/md")]
    targets = sorted({part for device in devices for part in [device, *_partitions(device)]} | set(arrays))
    signatures, errors = _signatures(targets, run)
    return Machine(
        disks={link: _disk(link, device, signatures, errors, uses) for link, device in links.items()},
        arrays=tuple(_array(device, signatures, uses) for device in arrays),
        mdadm_conf=_text(mdadm_conf),
        rule=_text(rule),
        page_kib=os.sysconf("SC_PAGE_SIZE") // 1024,
        strangers=_strangers(devices, uses),
        creating=_creating(volumes, state),
        fresh_uuid=uuid.uuid4().hex,
    )


def _creating(volumes: Sequence[Volume], state: str) -> dict[str, str]:
    texts = {volume.name: _text(f"{state}/{volume.name}") for volume in volumes}
    return {name: text.strip() for name, text in texts.items() if text is not None}


def _strangers(planned: set[str], uses: _Uses) -> tuple[Stranger, ...]:
    """The NVMe drives that nobody has named and that nothing is mounted from, by their name with the serial number."""
    found = {}
    folder = "/dev/disk/by-id/"
    for name in sorted(os.listdir(folder) if os.path.isdir(folder) else []):
        device = _resolve(folder + name) or ""
        system = SYS + os.path.basename(device)
        if not os.path.basename(device).startswith("nvme") or device in planned or device in found:
            continue
        if os.path.exists(system + "/partition") or uses.mounts(device):
            continue
        if names_disk(name, serial=_serial(system), wwid=""):
            found[device] = Stranger(folder + name, int(_text(system + "/size") or 0) * 512)
    return tuple(found.values())


class _Uses:
    """Which mount points and swap areas rest on a device, through partitions, md and device-mapper."""

    def __init__(self) -> None:
        self._mounts: dict[str, list[str]] = {}
        self._swaps: set[str] = set()
        for number, point, source in mountinfo(_text("/proc/self/mountinfo") or ""):
            name = os.path.basename(os.path.realpath("/sys/dev/block/" + number))
            if not os.path.exists(SYS + name):  # btrfs and the like mount under numbers of their own
                name = os.path.basename(os.path.realpath(source)) if source.startswith("/dev/") else ""
            for base in _bases(name):
                self._mounts.setdefault(base, []).append(point)
        for line in (_text("/proc/swaps") or "").splitlines()[1:]:
            self._swaps.update(_bases(os.path.basename(os.path.realpath(line.split()[0]))))

    def mounts(self, device: str) -> tuple[str, ...]:
        return tuple(sorted(set(self._mounts.get(os.path.basename(device), []))))

    def swap(self, device: str) -> bool:
        return os.path.basename(device) in self._swaps


def _bases(name: str) -> set[str]:
    """The device itself and everything it lies on."""
    if not name or not os.path.exists(SYS + name):
        return set()
    found = {name}
    real = os.path.realpath(SYS + name)
    if os.path.exists(real + "/partition"):
        found |= _bases(os.path.basename(os.path.dirname(real)))
    if os.path.isdir(real + "/slaves"):
        for slave in os.listdir(real + "/slaves"):
            found |= _bases(slave)
    return found


def _resolve(link: str) -> str | None:
    device = os.path.realpath(link)
    return device if device != link and os.path.exists(SYS + os.path.basename(device)) else None


def _disk(
    link: str, device: str | None, signatures: dict[str, list[Signature]], errors: dict[str, str], uses: _Uses
) -> Disk:
    if device is None:
        return Disk(link=link)
    system = SYS + os.path.basename(device)
    partitions = _partitions(device)
    every = [device, *partitions]
    superblock, outer, inner = _superblocks(device)
    return Disk(
        link=link,
        device=device,
        whole=not os.path.exists(system + "/partition") and not os.listdir(system + "/slaves"),
        serial=_serial(system),
        wwid=_text(system + "/wwid", system + "/device/wwid") or "",
        size=int(_text(system + "/size") or 0) * 512,
        sector=int(_text(system + "/queue/logical_block_size") or 0),
        read_only=_text(system + "/ro") == "1",
        partitions=partitions,
        signatures=tuple(signature for part in every for signature in signatures.get(part, [])),
        mounts=uses.mounts(device),
        swap=uses.swap(device),
        holders=tuple(holder for part in every for holder in _holders(part)),
        exclusive=_exclusive(device),
        unreadable=" ".join(errors[part] for part in every if part in errors),
        superblock=superblock,
        filesystem=outer,
        inner=inner,
        read_ahead_kib=_number(system + "/queue/read_ahead_kb"),
        health=health(device),
        trim=bool(_number(system + "/queue/discard_max_bytes")),
    )


def _array(device: str, signatures: dict[str, list[Signature]], uses: _Uses) -> Array:
    system = SYS + os.path.basename(device)
    members = tuple(
        "/dev/" + os.path.basename(os.path.realpath(system + "/md/" + entry + "/block"))
        for entry in sorted(os.listdir(system + "/md"))
        if entry.startswith("dev-")
    )
    blocks = [block for block in (_superblocks(member)[0] for member in members) if block]
    links = os.listdir("/dev/md") if os.path.isdir("/dev/md") else []
    mark = "/run/mdadm/creating-" + os.path.basename(device)
    return Array(
        device=device,
        state=_text(system + "/md/array_state") or "unknown",
        level=_text(system + "/md/level") or (blocks[0].level if blocks else ""),
        chunk_kib=(_number(system + "/md/chunk_size") or 0) // 1024,
        members=members,
        uuid=blocks[0].uuid if blocks else "",
        name=array_name(blocks[0].name) if blocks else "",
        links=tuple("/dev/md/" + link for link in sorted(links) if os.path.realpath("/dev/md/" + link) == device),
        signatures=tuple(signatures.get(device, [])),
        mounts=uses.mounts(device),
        holders=tuple(_holders(device)),
        exclusive=_exclusive(device),
        filesystem=_superblocks(device)[1],
        read_ahead_kib=_number(system + "/queue/read_ahead_kb"),
        creation_mark=mark if os.path.exists(mark) else "",
    )


def _partitions(device: str) -> tuple[str, ...]:
    system = SYS + os.path.basename(device)
    names = sorted(name for name in os.listdir(system) if os.path.exists(system + "/" + name + "/partition"))
    return tuple("/dev/" + name for name in names)


def _holders(device: str) -> list[str]:
    """What the kernel has built on the device, with the name people know it by."""
    folder = SYS + os.path.basename(device) + "/holders"
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    mapped = ((name, _text(SYS + name + "/dm/name")) for name in names)
    return [name + (f" ({known})" if known else "") for name, known in mapped]


def _serial(system: str) -> str:
    """The serial number as the disk reports it: NVMe, virtio, SCSI and SATA."""
    plain = _text(system + "/device/serial", system + "/serial")
    if plain:
        return plain
    try:
        with open(system + "/device/vpd_pg80", "rb") as page:
            return page.read()[4:].decode("ascii", "replace").strip("\0 ")
    except OSError:
        return ""


def _signatures(devices: list[str], run: Run) -> tuple[dict[str, list[Signature]], dict[str, str]]:
    """The signatures by device, and what went wrong by device."""
    found: dict[str, list[Signature]] = {}
    errors: dict[str, str] = {}
    tables: dict[str, str] = {}
    probe = ["wipefs", "--no-act", "--json", "--output", "DEVICE,OFFSET,TYPE,USAGE,UUID,LABEL"]
    rc, out, err = run([*probe, *devices]) if devices else (0, "", "")
    texts = [out]
    if rc != 0:  # one unreadable device must not hide the others
        texts = []
        for device in devices:
            rc, out, err = run([*probe, device])
            if rc == 0:
                texts.append(out)
            elif int(_text(SYS + os.path.basename(device) + "/size") or 0):  # an array not running has no size
                errors[device] = err.strip() or f"wipefs failed on {device}"
    for text in texts:
        for signature in wipefs(text, {}):
            if signature.usage == "partition-table":
                tables[signature.device] = _table_uuid(signature.device, run)
        for signature in wipefs(text, tables):
            found.setdefault(signature.device, []).append(signature)
    return found, errors


def _table_uuid(device: str, run: Run) -> str:
    _, out, _ = run(["blkid", "--probe", "--match-tag", "PTUUID", "--output", "value", device])
    return out.strip()


def _superblocks(device: str) -> tuple[Superblock | None, Filesystem | None, Filesystem | None]:
    """The md superblock, the file system at the start of the device, the one at the start of the array's share."""
    try:
        handle = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None, None, None
    try:
        block = md_superblock(os.pread(handle, MD_BYTES, MD_OFFSET))
        inner = filesystem(os.pread(handle, HEAD_BYTES, block.data_offset)) if block else None
        return block, filesystem(os.pread(handle, HEAD_BYTES, 0)), inner
    except OSError:
        return None, None, None
    finally:
        os.close(handle)


def _exclusive(device: str) -> bool:
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _number(path: str) -> int | None:
    text = _text(path)
    return int(text) if text and re.match(r"^\d+$", text) else None


def _text(*paths: str) -> str | None:
    """The first readable of the files; blanks at the ends are cut from what the kernel says in /sys."""
    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read().strip() if path.startswith("/sys/") else file.read()
        except OSError:
            continue
    return None

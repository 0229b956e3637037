"""Parsers: md superblock, wipefs, mountinfo, names of disks. Bytes or text in, values out."""

from __future__ import annotations

import json
import re
import struct

from .facts import Signature, Superblock

_MD_MAGIC = 0xA92B4EFC
_LEVELS = {0: "raid0", 1: "raid1", 4: "raid4", 5: "raid5", 6: "raid6", 10: "raid10", -1: "linear"}
MD_OFFSET = 4096  # version 1.2 lies 4 KiB into the device
MD_BYTES = 4096


def md_superblock(raw: bytes) -> Superblock | None:
    """The superblock in the 4096 bytes at `MD_OFFSET`, or None when it is none or damaged.

    Layout: include/uapi/linux/raid/md_p.h, struct mdp_superblock_1. Read here, not through mdadm, because the
    decision must be possible before mdadm is installed.
    """
    if len(raw) < 256 or struct.unpack_from("<II", raw)[0:2] != (_MD_MAGIC, 1):
        return None
    slots = struct.unpack_from("<I", raw, 220)[0]
    if 256 + 2 * slots > len(raw) or _md_checksum(raw, slots) != struct.unpack_from("<I", raw, 216)[0]:
        return None
    level, _, _, chunk, devices = struct.unpack_from("<iIQII", raw, 72)
    number = struct.unpack_from("<I", raw, 160)[0]
    role = struct.unpack_from("<H", raw, 256 + 2 * number)[0] if number < slots else 0xFFFF
    return Superblock(
        uuid=raw[16:32].hex(),
        name=raw[32:64].split(b"\0")[0].decode("utf-8", "replace"),
        level=_LEVELS.get(level, "level %d" % level),
        chunk_kib=chunk // 2,
        devices=devices,
        role=role if role < 0xFFFE else None,
        data_offset=struct.unpack_from("<Q", raw, 128)[0] * 512,
    )


def _md_checksum(raw: bytes, slots: int) -> int:
    size = 256 + 2 * slots
    words = bytearray(raw[:size])
    words[216:220] = b"\0\0\0\0"
    total: int = sum(struct.unpack_from("<%dI" % (size // 4), words))
    if size % 4 == 2:
        total += struct.unpack_from("<H", words, size - 2)[0]
    return ((total & 0xFFFFFFFF) + (total >> 32)) & 0xFFFFFFFF


def array_name(name: str) -> str:
    """`scratch` out of `any:scratch`: the name without the host that made it."""
    return name.split(":", 1)[-1]


def mdadm_uuid(uuid: str) -> str:
    """32 hex digits the way mdadm writes them, in four groups of eight."""
    return ":".join(uuid[start : start + 8] for start in range(0, 32, 8))


def plain_uuid(uuid: str) -> str:
    """A UUID without its punctuation, in lower case: blkid and mdadm group the digits differently."""
    return re.sub(r"[-:]", "", uuid).lower()


def wipefs(text: str, table_uuids: dict[str, str]) -> tuple[Signature, ...]:
    """The signatures in the output of `wipefs --json`, copies of one signature merged.

    wipefs reports no UUID for partition tables: `table_uuids` has them by device.
    """
    found: list[Signature] = []
    entries = json.loads(text)["signatures"] if text.strip() else []
    tables = {entry["device"] for entry in entries if entry["type"] == "gpt"}
    for entry in entries:
        device = "/dev/" + entry["device"].replace("/dev/", "", 1)
        if entry["type"] == "PMBR" and entry["device"] in tables:  # the protective part of that GPT
            continue
        usage = entry.get("usage") or "other"
        uuid = entry.get("uuid") or (table_uuids.get(device, "") if usage == "partition-table" else "")
        signature = Signature(device, entry["type"], usage, uuid, entry.get("label") or "")
        if signature not in found:
            found.append(signature)
    return tuple(found)


def mountinfo(text: str) -> tuple[tuple[str, str, str], ...]:
    """(major:minor, mount point, source) of every mount in the text of /proc/self/mountinfo."""
    found = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        found.append((fields[2], unescape(fields[4]), unescape(after.split()[1])))
    return tuple(found)


def unescape(text: str) -> str:
    """The kernel writes blanks and backslashes in paths as octal escapes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def names_disk(link: str, *, serial: str, wwid: str) -> bool:
    """Whether a by-id link's name contains what the disk itself reports: its serial number or its world-wide id."""
    name = link.rsplit("/", 1)[-1]
    kind, _, rest = name.partition("-")
    if wwid and rest == _udev(wwid):
        return True
    number = wwid.rsplit(".", 1)[-1].lower()
    if len(number) >= 16 and (kind, rest.lower()) in (("wwn", "0x" + number), ("scsi", "3" + number)):
        return True
    own = _udev(serial)
    if not own:
        return False
    return rest == own or re.search("[_-]" + re.escape(own) + r"(_\d+)?$", rest) is not None


def _udev(text: str) -> str:
    """A value as udev writes it into a link: blanks and unusual characters become underscores."""
    return re.sub(r"[^A-Za-z0-9#+.:=@_-]", "_", re.sub(r"\s+", "_", text.strip()))


def disk_size(size: int) -> str:
    """Bytes as drives are sold, in powers of 1000."""
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if size >= factor:
            return f"{size / factor:.2f} {unit}"
    return "%d bytes" % size

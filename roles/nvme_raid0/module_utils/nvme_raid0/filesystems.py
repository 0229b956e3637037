"""Superblocks of XFS and ext4: bytes in, values out.

Read here, not through blkid, because the content of an array must be known before the array runs.
"""

from __future__ import annotations

import struct

from .facts import Filesystem

HEAD_BYTES = 4096  # holds both kinds: XFS lies at 0, ext4 at 1024
_EXT4_OFFSET = 1024
_EXT4_MAGIC = 0xEF53
_EXT4_EXTENTS = 0x40  # incompat; ext2 and ext3 have not got it
_EXT4_QUOTA, _EXT4_PROJECT = 0x100, 0x2000  # ro_compat


def filesystem(raw: bytes) -> Filesystem | None:
    """The XFS or ext4 whose first `HEAD_BYTES` bytes are `raw`, or None."""
    return _xfs(raw) or _ext4(raw[_EXT4_OFFSET:])


def _xfs(raw: bytes) -> Filesystem | None:
    """Layout: fs/xfs/libxfs/xfs_format.h, struct xfs_dsb."""
    if len(raw) < 512 or raw[:4] != b"XFSB":
        return None
    block = struct.unpack_from(">I", raw, 4)[0]
    unit, width = struct.unpack_from(">II", raw, 184)
    return Filesystem(
        uuid=_uuid(raw[32:48]),
        label=_text(raw[108:120]),
        unit_kib=unit * block // 1024,
        width_kib=width * block // 1024,
        type="xfs",
        unfinished=raw[126] == 1 and _xfs_checksum_holds(raw),
    )


def _xfs_checksum_holds(raw: bytes) -> bool:
    """Whether the superblock is as mkfs wrote it: a flipped bit must not pass for a mkfs that was cut off."""
    size = struct.unpack_from(">H", raw, 102)[0]
    if not 512 <= size <= len(raw):
        return False
    stored = struct.unpack_from("<I", raw, 224)[0]
    return crc32c(raw[:224] + bytes(4) + raw[228:size]) == stored


def crc32c(raw: bytes) -> int:
    """CRC-32C (Castagnoli), as XFS seals its blocks with it; RFC 3720, appendix B.4."""
    crc = 0xFFFFFFFF
    for byte in raw:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _ext4(raw: bytes) -> Filesystem | None:
    """Layout: Documentation/filesystems/ext4/super.rst."""
    if len(raw) < 1024 or struct.unpack_from("<H", raw, 56)[0] != _EXT4_MAGIC:
        return None
    incompatible, read_only_compatible = struct.unpack_from("<II", raw, 96)
    if not incompatible & _EXT4_EXTENTS:
        return None
    block = 1 << struct.unpack_from("<I", raw, 24)[0]
    wanted = _EXT4_QUOTA | _EXT4_PROJECT
    return Filesystem(
        uuid=_uuid(raw[104:120]),
        label=_text(raw[120:136]),
        unit_kib=struct.unpack_from("<H", raw, 356)[0] * block,
        width_kib=struct.unpack_from("<I", raw, 368)[0] * block,
        type="ext4",
        project_quota=read_only_compatible & wanted == wanted,
    )


def _uuid(raw: bytes) -> str:
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _text(raw: bytes) -> str:
    return raw.split(b"\0")[0].decode("utf-8", "replace")

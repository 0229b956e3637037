"""Health of an NVMe drive, asked from the drive itself: no program has to be installed for it."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct

from .facts import Health

_ADMIN_COMMAND = 0xC0484E41  # NVME_IOCTL_ADMIN_CMD, include/uapi/linux/nvme_ioctl.h
_GET_LOG_PAGE = 0x02
_HEALTH_LOG, _HEALTH_BYTES = 0x02, 512
_ALL_NAMESPACES = 0xFFFFFFFF
_TIMEOUT_MS = 5000
# NVM Express Base Specification, log page 02h (SMART / Health Information), byte 0
_WARNINGS = (
    "spare capacity is below its threshold",
    "temperature is over or under its threshold",
    "reliability is degraded by media or internal errors",
    "the media has become read-only",
    "the backup of the volatile memory has failed",
    "the persistent memory region has become read-only",
)


def health(device: str) -> Health | None:
    """What the drive says of itself, or None when it is no NVMe drive or does not answer."""
    if not os.path.basename(device).startswith("nvme"):
        return None
    page = (ctypes.c_ubyte * _HEALTH_BYTES)()
    words = (_HEALTH_BYTES // 4 - 1) << 16 | _HEALTH_LOG
    command = struct.pack(
        "<BBHIIIQQIIIIIIIIII",
        *(_GET_LOG_PAGE, 0, 0, _ALL_NAMESPACES, 0, 0, 0, ctypes.addressof(page), 0, _HEALTH_BYTES),
        *(words, 0, 0, 0, 0, 0, _TIMEOUT_MS, 0),
    )
    try:
        handle = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = fcntl.ioctl(handle, _ADMIN_COMMAND, bytearray(command))
    except OSError:
        return None
    finally:
        os.close(handle)
    return parse(bytes(page)) if status == 0 else None


def parse(page: bytes) -> Health:
    """Warnings in words and the used share of the drive's rated endurance in percent (it may exceed 100)."""
    warnings = tuple(text for bit, text in enumerate(_WARNINGS) if page[0] >> bit & 1)
    return Health(warnings=warnings, used_percent=page[5])

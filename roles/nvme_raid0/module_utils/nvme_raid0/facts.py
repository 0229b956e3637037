"""What the module is asked for, and what it found on the machine: plain values, no reading and no deciding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Volume:
    """One block device with an XFS, as the plan wants it."""

    name: str
    level: str
    members: tuple[str, ...]
    chunk_kib: int
    mount: str
    read_ahead_kib: int

    @property
    def label(self) -> str:
        """The file system label; XFS holds 12 characters."""
        return self.name[:12]

    @property
    def link(self) -> str:
        """The path that names the block device for people."""
        return self.members[0] if self.level == "single" else "/dev/md/" + self.name


@dataclass(frozen=True)
class Consent:
    """The user's word that one signature on one disk may be erased."""

    device: str
    serial: str
    type: str
    uuid: str


@dataclass(frozen=True)
class Signature:
    """One thing that wipefs recognises on a device."""

    device: str
    type: str
    usage: str
    uuid: str
    label: str


@dataclass(frozen=True)
class Superblock:
    """The version 1.2 md superblock of one member; the array's content starts `data_offset` bytes into the disk."""

    uuid: str
    name: str
    level: str
    chunk_kib: int
    devices: int
    role: int | None
    data_offset: int = 0


@dataclass(frozen=True)
class Filesystem:
    """The XFS on a device; stripe unit and width in KiB, 0 when it has none."""

    uuid: str
    label: str
    unit_kib: int
    width_kib: int


@dataclass(frozen=True)
class Disk:
    """One disk behind a by-id link; `device` is None when the link leads nowhere.

    `inner` is the XFS that begins where the disk's share of an array begins: what the array holds, known without
    starting it.
    """

    link: str
    device: str | None = None
    whole: bool = True
    serial: str = ""
    wwid: str = ""
    size: int = 0
    sector: int = 0
    read_only: bool = False
    partitions: tuple[str, ...] = ()
    signatures: tuple[Signature, ...] = ()
    mounts: tuple[str, ...] = ()
    swap: bool = False
    holders: tuple[str, ...] = ()
    exclusive: bool = True
    unreadable: str = ""
    superblock: Superblock | None = None
    filesystem: Filesystem | None = None
    inner: Filesystem | None = None
    read_ahead_kib: int | None = None


@dataclass(frozen=True)
class Array:
    """One array the kernel knows, running or not."""

    device: str
    state: str
    level: str
    chunk_kib: int
    members: tuple[str, ...]
    uuid: str
    name: str
    links: tuple[str, ...] = ()
    signatures: tuple[Signature, ...] = ()
    mounts: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    exclusive: bool = True
    filesystem: Filesystem | None = None
    read_ahead_kib: int | None = None

    @property
    def running(self) -> bool:
        return self.state not in ("clear", "inactive")


@dataclass(frozen=True)
class Machine:
    """Everything that decisions rest on, read in one go."""

    disks: Mapping[str, Disk]
    arrays: tuple[Array, ...]
    mdadm_conf: str | None
    rule: str | None
    page_kib: int = 4

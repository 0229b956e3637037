"""What the module is asked for, and what it found on the machine: plain values, no reading and no deciding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Volume:
    """One block device with a file system, as the plan wants it."""

    name: str
    level: str
    members: tuple[str, ...]
    chunk_kib: int
    mount: str
    read_ahead_kib: int
    filesystem: str = "xfs"
    project_quota: bool = False
    ephemeral: bool = False
    trim: str = "weekly"

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
    """The XFS or ext4 on a device; stripe unit and width in KiB, 0 when it has none.

    `unfinished` means that mkfs was cut off, so that nobody can have stored anything in it.
    """

    uuid: str
    label: str
    unit_kib: int
    width_kib: int
    type: str = "xfs"
    unfinished: bool = False
    project_quota: bool = True


@dataclass(frozen=True)
class Health:
    """What a drive says of itself: critical warnings in words, percent of its rated endurance that is used."""

    warnings: tuple[str, ...]
    used_percent: int


@dataclass(frozen=True)
class Stranger:
    """A whole disk with a lasting name that the plan does not name."""

    link: str
    size: int


@dataclass(frozen=True)
class Disk:
    """One disk behind a by-id link; `device` is None when the link leads nowhere.

    `inner` is the file system that begins where the disk's share of an array begins: what the array holds, known
    without starting it. `trim`: the kernel passes discards on.
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
    health: Health | None = None
    trim: bool = False


@dataclass(frozen=True)
class Array:
    """One array the kernel knows, running or not.

    `creation_mark` is the file by which mdadm tells udev that it is still at work on the array; one that a killed
    mdadm has left behind keeps systemd from ever mounting it.
    """

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
    creation_mark: str = ""

    @property
    def running(self) -> bool:
        return self.state not in ("clear", "inactive")


@dataclass(frozen=True)
class Machine:
    """Everything that decisions rest on, read in one go.

    `creating` has the UUID of each array whose creation was begun, by name: its members hold nothing yet.
    `fresh_uuid` is what the next array to be created may be called.
    """

    disks: Mapping[str, Disk]
    arrays: tuple[Array, ...]
    mdadm_conf: str | None
    rule: str | None
    page_kib: int = 4
    strangers: tuple[Stranger, ...] = ()
    creating: Mapping[str, str] = field(default_factory=dict)
    fresh_uuid: str = ""

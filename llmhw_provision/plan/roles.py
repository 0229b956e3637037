"""The interface of every role: one model per role is the truth of its `<role>_config`.

`meta/argument_specs.yml` and the table in the role's README are generated from these models.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from llmhw_provision.documents import Record
from llmhw_provision.plan.roles_base import HostTuningConfig, SiteBaseConfig
from llmhw_provision.plan.roles_driver import NvidiaDriverConfig
from llmhw_provision.plan.roles_gpu import CudaConfig, NcclConfig, PackageSourcesConfig
from llmhw_provision.plan.roles_python import PythonEnvConfig

ById = Annotated[str, StringConstraints(pattern=r"^/dev/disk/by-id/[A-Za-z0-9_.:+=-]+$")]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,26}$")]
Path = Annotated[str, StringConstraints(pattern=r"^(/[A-Za-z0-9_.-]+)+$")]
Mode = Annotated[str, StringConstraints(pattern=r"^[0-7]{4}$")]
Level = Literal["raid0", "raid1", "single"]


class Volume(Record):
    """One block device with a file system: a RAID0 or RAID1 array, or a single disk."""

    name: Name = Field(description="array name (/dev/md/NAME); its first 12 characters are the label")
    level: Level = Field(description="single: the file system lies on the disk itself")
    members: tuple[ById, ...] = Field(min_length=1, description="disks by /dev/disk/by-id, in array order")
    chunk_kib: int = Field(ge=4, description="KiB per disk before the next one takes over; ignored unless raid0")
    filesystem: Literal["xfs", "ext4"] = Field(description="file system")
    mount: Path = Field(description="mount point; the bare folder underneath is made immutable")
    mount_options: tuple[str, ...] = Field(
        description="mount options; nofail must be among them; prjquota: project quotas"
    )
    device_timeout_s: int = Field(ge=1, le=600, description="seconds that boot waits for the device")
    read_ahead_kib: int = Field(ge=0, description="KiB of read-ahead of the block device")
    trim: Literal["weekly", "never"] = Field(description="weekly: fstrim.timer tells the disks which blocks are free")
    ephemeral: bool = Field(description="make the array again when mdadm.conf records it but its disks are blank")
    owner: str = Field(description="owner of the mounted root folder")
    group: str = Field(description="group of the mounted root folder")
    mode: Mode = Field(description="mode of the mounted root folder")


class Directory(Record):
    """A folder on an existing mount, where no disk is to spare."""

    path: Path = Field(description="folder to make")
    owner: str = Field(description="owner")
    group: str = Field(description="group")
    mode: Mode = Field(description="mode")


class Wipe(Record):
    """Consent to erase one signature found on one disk."""

    device: ById = Field(description="disk by /dev/disk/by-id")
    serial: str = Field(description="serial number that the disk must report")
    type: str = Field(description="type of the signature that may be erased, as blkid names it")
    uuid: str = Field(description="UUID of that signature; the consent is void for any other")


class NvmeRaid0Config(Record):
    """Role nvme_raid0: scratch and project storage on local disks."""

    volumes: tuple[Volume, ...] = Field(description="volumes to create or to adopt")
    directories: tuple[Directory, ...] = Field(description="folders on existing mounts")
    wipe: tuple[Wipe, ...] = Field(description="consents to erase, from site.yaml")
    max_wear_percent: int = Field(
        ge=1, le=255, description="percent of rated endurance; a drive that has used more is not written to"
    )


class TmpfsMount(Record):
    """One memory file system."""

    path: Path = Field(description="mount point")
    size_mib: int = Field(ge=1, description="MiB it may grow to; counts against the host's memory")
    mode: Mode = Field(description="mode of the root folder")
    options: tuple[str, ...] = Field(description="further mount options; nosuid and nodev are always set")


class TmpfsConfig(Record):
    """Role tmpfs: the hot set in memory."""

    mounts: tuple[TmpfsMount, ...] = Field(description="file systems to mount")


class InitramfsConfig(Record):
    """Role initramfs: at most one rebuild per run, after every role has left its reasons."""

    kernels: Literal["all", "running"] = Field(description="kernels whose initramfs is rebuilt")
    prove_by_boot: bool = Field(
        description="leave a reason for a reboot as long as the system runs from an older image than it would boot now"
    )


ROLES: dict[str, type[Record]] = {
    "site_base": SiteBaseConfig,
    "host_tuning": HostTuningConfig,
    "nvme_raid0": NvmeRaid0Config,
    "tmpfs": TmpfsConfig,
    "package_sources": PackageSourcesConfig,
    "nvidia_driver": NvidiaDriverConfig,
    "cuda": CudaConfig,
    "nccl": NcclConfig,
    "python_env": PythonEnvConfig,
    "initramfs": InitramfsConfig,
}

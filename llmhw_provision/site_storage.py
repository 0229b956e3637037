"""The storage part of site.yaml: overrides of what the planner would choose, and consents to erase."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field

from llmhw_provision.documents import Record
from llmhw_provision.site_text import ArrayName, DataPath, HostName, Serial, matching
from llmhw_provision.workload import MemorySize

FileSystem = Literal["xfs", "ext4"]


class Consent(Record):
    """Permission to erase one signature on one disk of one host. Void once that signature is gone."""

    host: HostName
    serial: Serial
    type: str = Field(min_length=1, max_length=40, description="type found by discover, for example ext4 or gpt")
    uuid: str = Field(min_length=1, max_length=64, description="UUID found by discover")


class Scratch(Record):
    """Fast disks without redundancy; what lies there can be lost at any time."""

    name: ArrayName = "scratch"
    mount: DataPath = "/scratch"
    disks: tuple[Serial, ...] | None = Field(default=None, description="serials; default: all empty equal NVMe drives")
    chunk: MemorySize | None = Field(default=None, description="RAID0 chunk; default 512 KiB")
    filesystem: FileSystem = "xfs"
    project_quota: bool = Field(default=False, description="limits per folder (prjquota)")
    ephemeral: bool = Field(
        default=False, description="make the array again when its disks come back blank, as cloud instances' do"
    )


class Project(Record):
    """Persistent storage for code, results and the checkpoints worth keeping."""

    path: DataPath = "/srv/project"
    disks: tuple[Serial, ...] = Field(
        default=(),
        max_length=2,
        description="none: a folder on an existing mount; one: single; two: mirrored",
    )
    filesystem: FileSystem = "xfs"
    project_quota: bool = Field(default=False, description="limits per folder (prjquota)")


class Tmpfs(Record):
    """Memory file system for the hot set."""

    mount: DataPath = "/mnt/hot"
    size: MemorySize | None = Field(default=None, description="overrides the workload's hot set")
    beyond_tenth: bool = Field(default=False, description="allow more than 10 % of the host's memory")


class Shared(Record):
    """A file system that every host of the site mounts."""

    type: Literal["nfs4", "lustre"] = "nfs4"
    source: Annotated[str, matching(re.compile(r"^[A-Za-z0-9][A-Za-z0-9.@:/_-]{0,250}$"), "192.0.2.40:/export")]
    mount: DataPath = "/shared"
    options: tuple[Annotated[str, matching(re.compile(r"^[a-z_]+(=[A-Za-z0-9._-]+)?$"), "hard")], ...] = (
        "hard",
        "noatime",
        "nofail",
        "_netdev",
    )


class Storage(Record):
    """Overrides of what the planner would choose."""

    scratch: Scratch = Scratch()
    project: Project = Project()
    tmpfs: Tmpfs = Tmpfs()
    shared: Shared | None = Field(default=None, description="storage of all hosts; project may lie on it")
    wipe: tuple[Consent, ...] = ()
    trim: Literal["weekly", "never"] = Field(default="weekly", description="weekly: by fstrim.timer")
    max_wear_percent: int = Field(
        default=90, ge=1, le=255, description="drives that have used more of their rated endurance are refused"
    )

"""Storage of one host: system is never touched, project persists, scratch is fast and can be lost."""

from __future__ import annotations

from dataclasses import dataclass

from llmhw_provision.errors import DoesNotFit, InputError
from llmhw_provision.machine import Disk, Machine, Mount
from llmhw_provision.plan.disks import DiskChoice, choose_disks
from llmhw_provision.plan.model import ExpectedDisk, Note, Purpose, Signature
from llmhw_provision.plan.roles import Directory, Level, NvmeRaid0Config, TmpfsConfig, TmpfsMount, Volume
from llmhw_provision.site_storage import Project, Scratch, Storage
from llmhw_provision.sizing.need import Need
from llmhw_provision.sizing.storage import FREE_SOURCE, tmpfs_bytes, tmpfs_limit
from llmhw_provision.sizing.terms import Term
from llmhw_provision.units import KIB, MIB, disk, memory

CHUNK_KIB = 512
DEVICE_TIMEOUT_S = 30
_READ_AHEAD_MIN_KIB, _READ_AHEAD_MAX_KIB = 4096, 16384
_OPTIONS: dict[str, tuple[str, ...]] = {"xfs": ("noatime", "nofail", "logbsize=256k"), "ext4": ("noatime", "nofail")}
_SHARED = "1777"  # like /tmp: everyone may write, nobody may delete another's files


@dataclass(frozen=True)
class StoragePlan:
    """What the storage roles are given for one host, and why."""

    nvme_raid0: NvmeRaid0Config
    tmpfs: TmpfsConfig | None
    disks: tuple[ExpectedDisk, ...]
    creates: tuple[str, ...]
    erases: tuple[str, ...]
    notes: tuple[Note, ...]


def plan_storage(host: str, machine: Machine, storage: Storage, need: Need) -> StoragePlan:
    """Storage of `host`; raises InputError for disks that cannot be used, DoesNotFit when scratch is too small."""
    choice = choose_disks(host, machine, storage)
    volumes: list[Volume] = []
    directories: list[Directory] = []
    creates: list[str] = []
    notes: list[Note] = []
    for part in (_scratch(host, storage, choice, need), _project(host, machine, storage, choice, need)):
        volumes += part.volumes
        directories += part.directories
        creates += part.creates
        notes += part.notes
    tmpfs, tmpfs_notes = _tmpfs(host, machine, storage, need)
    if tmpfs is not None:
        mount = tmpfs.mounts[0]
        creates.append(f"tmpfs of {memory(mount.size_mib * MIB)} at {mount.path}")
    notes += tmpfs_notes
    notes += [Note(host=host, rule="consent to erase is void", choice=text, source="site.yaml") for text in choice.void]
    return StoragePlan(
        nvme_raid0=NvmeRaid0Config(
            volumes=tuple(volumes),
            directories=tuple(directories),
            wipe=choice.wipe,
            max_wear_percent=storage.max_wear_percent,
        ),
        tmpfs=tmpfs,
        disks=_expected(machine, choice),
        creates=tuple(creates),
        erases=choice.erases,
        notes=tuple(notes),
    )


def plan_head(machine: Machine, storage: Storage) -> StoragePlan:
    """Storage of a host on which no job runs: its disks are kept as they are."""
    kept = tuple((item, "no job runs on this host") for item in machine.disks if not item.system)
    system = tuple(item for item in machine.disks if item.system)
    choice = DiskChoice(system, (), (), kept, (), (), (), None)
    return StoragePlan(
        nvme_raid0=NvmeRaid0Config(volumes=(), directories=(), wipe=(), max_wear_percent=storage.max_wear_percent),
        tmpfs=None,
        disks=_expected(machine, choice),
        creates=(),
        erases=(),
        notes=(),
    )


@dataclass(frozen=True)
class _Part:
    volumes: tuple[Volume, ...] = ()
    directories: tuple[Directory, ...] = ()
    creates: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


def _scratch(host: str, storage: Storage, choice: DiskChoice, need: Need) -> _Part:
    wanted, project = storage.scratch, storage.project.path
    if not choice.scratch:
        text = f"folder {wanted.mount} on the system disk: no empty NVMe drive is to spare, so there is no array"
        note = Note(host=host, rule="scratch without a drive of its own", choice=text, source="site storage rules")
        return _Part(directories=(_directory(wanted.mount),), creates=(f"folder {wanted.mount}",), notes=(note,))
    level: Level = "raid0" if len(choice.scratch) > 1 else "single"
    # an array that exists keeps its chunk; one that site.yaml wants otherwise is described and refused by the module
    found = choice.adopted.chunk_bytes if choice.adopted is not None and level == "raid0" else 0
    chunk = (wanted.chunk or found or CHUNK_KIB * KIB) // KIB
    volume = _volume(wanted.name, level, choice.scratch, chunk, wanted.mount, storage=storage, like=wanted)
    capacity = sum(item.size_bytes for item in choice.scratch)
    _require_capacity(host, capacity, len(choice.scratch), need)
    loss = (
        f"one dead drive of {len(choice.scratch)} loses everything on {wanted.mount} ({disk(capacity)}):"
        if level == "raid0"
        else f"the drive's death loses everything on {wanted.mount} ({disk(capacity)}):"
    )
    notes = (
        Note(
            host=host,
            rule="scratch takes all empty equal NVMe drives"
            if wanted.disks is None
            else "scratch disks from site.yaml",
            choice=f"{level} over {len(choice.scratch)} × {disk(choice.scratch[0].size_bytes)}, chunk {chunk} KiB",
            inputs=(f"needs {disk(need.storage.scratch_bytes)}", *_inputs(need.storage.scratch)),
            source=FREE_SOURCE,
        ),
        Note(
            host=host,
            rule="RAID0 has no redundancy" if level == "raid0" else "a single drive has no redundancy",
            choice=f"{loss} checkpoints worth keeping must be copied to {project}",
            source="md(4), section RAID0",
        ),
    )
    return _Part(volumes=(volume,), creates=(_creates(volume, choice),), notes=notes)


def _require_capacity(host: str, capacity: int, count: int, need: Need) -> None:
    wanted = need.storage.scratch_bytes
    if wanted > capacity:
        parts = " + ".join(f"{term.name} {disk(term.size)}" for term in need.storage.scratch)
        raise DoesNotFit(
            f"{host}: scratch needs {disk(wanted)} ({parts}, a fifth free); {count} drives hold {disk(capacity)}",
            "keep fewer checkpoints (checkpoints.keep), or add drives",
        )


def _project(host: str, machine: Machine, storage: Storage, choice: DiskChoice, need: Need) -> _Part:
    path, wanted = storage.project.path, need.storage.project_bytes
    if choice.project:
        level: Level = "raid1" if len(choice.project) == 2 else "single"
        capacity = min(item.size_bytes for item in choice.project)
        if wanted > capacity:
            raise DoesNotFit(
                f"{host}: project needs {disk(wanted)}; its disks hold {disk(capacity)}", "name larger disks"
            )
        volume = _volume("project", level, choice.project, CHUNK_KIB, path, storage=storage, like=storage.project)
        kept = "survives one dead drive" if level == "raid1" else "is lost with its only drive: back it up elsewhere"
        note = Note(host=host, rule="project disks from site.yaml", choice=f"{level}; {kept}", source="site.yaml")
        return _Part(volumes=(volume,), creates=(_creates(volume, choice),), notes=(note,))
    shared = storage.shared
    if shared and (path == shared.mount or path.startswith(shared.mount + "/")):
        note = Note(
            host=host,
            rule="project lies on the storage that all hosts share",
            choice=f"{path} on {shared.source}; its room is not checked",
            inputs=_inputs(need.storage.project),
            source="storage.shared in site.yaml",
        )
        return _Part(notes=(note,))
    mount = _mount_of(machine, path)
    where = f"on the existing mount {mount.path} ({disk(mount.free_bytes)} free)" if mount else "on the system disk"
    verdict = f"; too small for {disk(wanted)} needed" if mount and wanted > mount.free_bytes else ""
    note = Note(
        host=host,
        rule="project lies on an existing mount unless site.yaml names disks",
        choice=f"folder {path} {where}{verdict}",
        inputs=_inputs(need.storage.project),
        source="site storage rules",
    )
    return _Part(directories=(_directory(path),), creates=(f"folder {path}",), notes=(note,))


def _mount_of(machine: Machine, path: str) -> Mount | None:
    inside = [item for item in machine.mounts if path == item.path or path.startswith(item.path.rstrip("/") + "/")]
    return max(inside, key=lambda item: len(item.path), default=None)


def _tmpfs(host: str, machine: Machine, storage: Storage, need: Need) -> tuple[TmpfsConfig | None, tuple[Note, ...]]:
    hot = storage.tmpfs.size or need.hot
    if not hot:
        note = Note(
            host=host, rule="tmpfs holds a stated hot set", choice="none: no hot set is stated", source="workload.yaml"
        )
        return None, (note,)
    term = tmpfs_bytes(need.hot) if not storage.tmpfs.size else Term("tmpfs", hot, f"{memory(hot)} stated", "site.yaml")
    limit = tmpfs_limit(machine.memory_bytes)
    if term.size > limit and not storage.tmpfs.beyond_tenth:
        raise InputError(
            f"{host}: tmpfs of {memory(term.size)} is more than {memory(limit)}, a tenth of the host's memory",
            "state a smaller hot set, or allow it with storage.tmpfs.beyond_tenth: true in site.yaml",
        )
    config = TmpfsConfig(
        mounts=(
            TmpfsMount(path=storage.tmpfs.mount, size_mib=term.size // MIB, mode=_SHARED, options=("nosuid", "nodev")),
        )
    )
    note = Note(
        host=host,
        rule="tmpfs takes at most a tenth of memory: it counts against every job",
        choice=f"{memory(term.size)} at {storage.tmpfs.mount}, limit {memory(limit)}",
        inputs=(f"{term.name}: {term.formula}",),
        source=term.source,
    )
    return config, (note,)


def _volume(
    name: str,
    level: Level,
    disks: tuple[Disk, ...],
    chunk: int,
    mount: str,
    *,
    storage: Storage,
    like: Scratch | Project,
) -> Volume:
    read_ahead = 2 * chunk * len(disks) if level == "raid0" else _READ_AHEAD_MIN_KIB
    return Volume(
        name=name,
        level=level,
        members=tuple(item.by_id for item in disks),
        chunk_kib=chunk,
        filesystem=like.filesystem,
        mount=mount,
        mount_options=(*_OPTIONS[like.filesystem], *(("prjquota",) if like.project_quota else ())),
        device_timeout_s=DEVICE_TIMEOUT_S,
        read_ahead_kib=min(max(read_ahead, _READ_AHEAD_MIN_KIB), _READ_AHEAD_MAX_KIB),
        trim=storage.trim,
        ephemeral=isinstance(like, Scratch) and like.ephemeral,
        owner="root",
        group="root",
        mode=_SHARED,
    )


def _directory(path: str) -> Directory:
    return Directory(path=path, owner="root", group="root", mode=_SHARED)


def _creates(volume: Volume, choice: DiskChoice) -> str:
    disks = choice.project if volume.name == "project" and choice.project else choice.scratch
    serials = ", ".join(item.serial for item in disks)
    if choice.adopted is not None and choice.adopted.name == volume.name:
        return f"nothing on the array {volume.name!r}, which exists and is used as it is (serials {serials})"
    what = (
        f"{volume.level} array /dev/md/{volume.name} over {len(disks)} disks"
        if len(disks) > 1
        else "file system on a disk"
    )
    kind = {"xfs": "XFS"}.get(volume.filesystem, volume.filesystem)
    return f"{what} (serials {serials}), {kind}, mounted at {volume.mount}"


def _inputs(terms: tuple[Term, ...]) -> tuple[str, ...]:
    return tuple(f"{term.name} {disk(term.size)}: {term.formula}" for term in terms)


def _signatures(item: Disk) -> tuple[Signature, ...]:
    return tuple(Signature(type=content.type, uuid=content.uuid) for content in item.contents)


def _expected(machine: Machine, choice: DiskChoice) -> tuple[ExpectedDisk, ...]:
    purposes: dict[str, tuple[Purpose, str]] = {
        item.serial: ("system", "carries the operating system: never touched") for item in choice.system
    }
    purposes |= {item.serial: ("project", "chosen in site.yaml") for item in choice.project}
    purposes |= {item.serial: ("scratch", "part of scratch") for item in choice.scratch}
    purposes |= {item.serial: ("kept", reason) for item, reason in choice.kept}
    return tuple(
        ExpectedDisk(
            serial=item.serial,
            by_id=item.by_id,
            model=item.model,
            size_bytes=item.size_bytes,
            purpose=purposes[item.serial][0],
            reason=purposes[item.serial][1],
            signatures=_signatures(item) if purposes[item.serial][0] in ("system", "kept") else (),
        )
        for item in machine.disks
    )

"""Mount units: their names, texts, and what is left to do for one mount. Text and values in, values out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

UNITS = "/etc/systemd/system"
HEAD = "# Written by llmhw-provision; changes are overwritten.\n"
_FLAGS = {"ro", "rw", "nosuid", "nodev", "noexec", "noatime", "relatime", "nodiratime"}
_FACTORS = {"k": 1, "m": 1024, "g": 1024 * 1024}


@dataclass(frozen=True)
class Mount:
    """One file system as the plan wants it; `source` is None while the device does not exist yet."""

    path: str
    type: str
    source: str | None
    options: tuple[str, ...]
    device_timeout_s: int | None = None
    owner: str | None = None
    group: str | None = None
    mode: str | None = None

    @property
    def unit(self) -> str:
        return escape(self.path) + ".mount"

    @property
    def unit_path(self) -> str:
        return f"{UNITS}/{self.unit}"

    @property
    def wants_path(self) -> str:
        return f"{UNITS}/local-fs.target.wants/{self.unit}"

    @property
    def timeout_path(self) -> str | None:
        """The drop-in that says how long boot waits for the device; None where there is no device."""
        if self.source is None or self.device_timeout_s is None:
            return None
        return f"{UNITS}/{escape(self.source)}.device.d/50-llmhw-timeout.conf"


@dataclass(frozen=True)
class Mounted:
    """What is mounted: `number` is major:minor of the file system."""

    number: str
    type: str
    source: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class Bare:
    """The folder under the mount; `immutable` is None where the file system below has no such flag."""

    exists: bool
    entries: tuple[str, ...] = ()
    immutable: bool | None = False
    folder: bool = True


@dataclass(frozen=True)
class State:
    """What a machine has of one mount."""

    files: Mapping[str, str] = field(default_factory=dict)  # path to text, of the files we keep
    enabled: bool = False
    stale: bool = False  # systemd has not read the unit again since it was written
    mounted: Mounted | None = None
    source_number: str | None = None
    bare: Bare = field(default_factory=lambda: Bare(exists=False))
    fstab: bool = False
    root: tuple[str, str, str] = ("root", "root", "0755")  # owner, group, mode of the mounted root


def escape(path: str) -> str:
    """A path as systemd-escape --path writes it into a unit name."""
    parts = [part for part in path.split("/") if part]
    if not parts:
        return "-"
    return "-".join(
        "".join(_escape(letter, first=not index and not place) for index, letter in enumerate(part))
        for place, part in enumerate(parts)
    )


def _escape(letter: str, *, first: bool) -> str:
    if re.match(r"[A-Za-z0-9:_]", letter) or (letter == "." and not first):
        return letter
    return "".join(f"\\x{byte:02x}" for byte in letter.encode())


def files(mount: Mount) -> dict[str, str]:
    """The files of one mount: path to text. Without a known source there is nothing to write yet."""
    if mount.source is None:
        return {}
    wanted = {
        mount.unit_path: HEAD
        + f"[Unit]\nDescription={mount.type} at {mount.path}\n\n"
        + f"[Mount]\nWhat={_percent(mount.source)}\nWhere={_percent(mount.path)}\nType={mount.type}\n"
        + f"Options={_percent(','.join(mount.options))}\n"
        # A journal to replay may take minutes; killing mount halfway gains nothing.
        + ("TimeoutSec=600\n" if mount.type != "tmpfs" else "")
        # Wanted, not required: a missing drive delays the mount, it does not stop the boot.
        + "\n[Install]\nWantedBy=local-fs.target\n"
    }
    if mount.timeout_path:
        wanted[mount.timeout_path] = HEAD + f"[Unit]\nJobRunningTimeoutSec={mount.device_timeout_s}\n"
    return wanted


def _percent(text: str) -> str:
    return text.replace("%", "%%")


def refusals(mount: Mount, state: State) -> list[str]:
    """Why the mount may not be made."""
    found = []
    if not state.bare.folder:
        found.append(f"{mount.path} is not a folder")
    if state.bare.entries:
        listed = ", ".join(state.bare.entries[:3]) + (", ..." if len(state.bare.entries) > 3 else "")
        text = f"{mount.path}: the folder under the mount already holds files ({listed}), which the mount would hide"
        found.append(text)
    if state.fstab:
        found.append(f"{mount.path} is a mount of /etc/fstab")
    there = state.mounted
    if there and mount.source is None:
        found.append(f"{mount.path} is already the mount point of {there.source}")
    elif there and (there.type != mount.type or (mount.type != "tmpfs" and there.number != state.source_number)):
        found.append(f"{mount.path} is the mount point of {there.source} ({there.type}); expected {mount.source}")
    return found


def actions(mount: Mount, state: State) -> list[tuple[str, str]]:
    """What is left to do, in order: (kind, sentence)."""
    found = []
    if not state.bare.exists:
        found.append(("folder", f"make the mount point {mount.path}"))
    if state.bare.immutable is False:
        found.append(("immutable", f"make the folder under {mount.path} immutable"))
    wanted = files(mount)
    if mount.source is None or any(state.files.get(path) != text for path, text in wanted.items()):
        found.append(("unit", f"write {mount.unit_path}"))
    if state.stale and not any(kind == "unit" for kind, _ in found):
        found.append(("reload", f"let systemd read {mount.unit} again"))
    if not state.enabled:
        found.append(("enable", f"enable {mount.unit}"))
    if not state.mounted:
        found.append(("start", f"mount {mount.path}"))
    else:
        different = [option for option in mount.options if not _has(state.mounted, option)]
        if "prjquota" in different:
            found.append(("again", f"unmount {mount.path} and mount it with prjquota, which a remount does not take"))
        elif different:
            found.append(("remount", f"remount {mount.path} with {', '.join(different)}"))
    owner, group, mode = state.root if state.mounted else ("root", "root", _fresh_mode(mount))
    wanted_root = (mount.owner or owner, mount.group or group, mount.mode or mode)
    if wanted_root != (owner, group, mode):
        found.append(("root", f"give {mount.path} to {wanted_root[0]}:{wanted_root[1]} with mode {wanted_root[2]}"))
    return found


def _fresh_mode(mount: Mount) -> str:
    modes = [option[5:] for option in mount.options if option.startswith("mode=")]
    return modes[0].zfill(4) if modes else "1777" if mount.type == "tmpfs" else "0755"


def _has(mounted: Mounted, option: str) -> bool:
    """Whether an option is in force; options that the kernel does not show in its own words count as such."""
    key, _, value = option.partition("=")
    if key == "size":
        shown = [kib(there[5:]) for there in mounted.options if there.startswith("size=")]
        return shown == [kib(value)]
    if key in ("huge", "nr_inodes") and mounted.type == "tmpfs":
        return option in mounted.options or (option == "huge=never" and "huge" not in " ".join(mounted.options))
    return key not in (*_FLAGS, "prjquota") or option in mounted.options


def kib(size: str) -> int | None:
    """`64M` in KiB, as tmpfs understands it; None for percentages and the like."""
    match = re.match(r"^(\d+)([kmg])?$", size.lower())
    if not match:
        return None
    number, unit = int(match.group(1)), match.group(2)
    return number * _FACTORS[unit] if unit else number // 1024


def mounted_at(text: str, path: str) -> Mounted | None:
    """The topmost mount at `path` in the text of /proc/self/mountinfo."""
    found = None
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, rest = before.split(), after.split()
        if _unescape(fields[4]) == path:
            options = tuple(dict.fromkeys([*fields[5].split(","), *rest[2].split(",")]))
            found = Mounted(number=fields[2], type=rest[0], source=_unescape(rest[1]), options=options)
    return found


def in_fstab(text: str, path: str) -> bool:
    """Whether the text of /etc/fstab mounts something at `path`."""
    lines = (line.split() for line in text.splitlines() if not line.lstrip().startswith("#"))
    return any(len(fields) > 1 and _unescape(fields[1]).rstrip("/") == path for fields in lines)


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)

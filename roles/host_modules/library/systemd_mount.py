#!/usr/bin/python
"""Keeps mounts as systemd units: unit, device timeout, immutable mount point, mounted, right options and owner."""

from __future__ import annotations

DOCUMENTATION = """
module: systemd_mount
short_description: file systems mounted by systemd units
description:
  - For each mount one unit in /etc/systemd/system, wanted by local-fs.target, so that a missing drive never stops
    the boot. The folder under the mount is immutable, so that a missing mount never fills the root disk.
  - Refuses a mount point that holds files, is in /etc/fstab or carries something else. Other mounts are not touched.
  - In check mode nothing is changed; C(actions) lists what would be done, in the same words.
options:
  type: {description: file system type of the mounts that do not say theirs, type: str}
  also: {description: further units to enable and start, type: list, elements: str, default: []}
  drop_ins: {description: 'further files: text by path, null where there must be none', type: dict, default: {}}
  mounts:
    description: the mounts; those without a source wait for a device that an earlier task will make (check mode).
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: mount point, type: path, required: true}
      type: {description: file system type, type: str}
      source: {description: device by a lasting name; not for tmpfs, type: str}
      options: {description: mount options, type: list, elements: str, default: []}
      size_mib: {description: MiB a tmpfs may grow to, type: int}
      device_timeout_s: {description: seconds that boot waits for the device, type: int}
      owner: {description: owner of the mounted root folder, type: str}
      group: {description: group of the mounted root folder, type: str}
      mode: {description: mode of the mounted root folder, type: str}
author: llmhw-provision
"""

EXAMPLES = """
- name: Mount the hot set
  systemd_mount:
    type: tmpfs
    mounts: [{path: /run/hot, size_mib: 1024, mode: "1777"}]
"""

RETURN = """
actions: {description: what was done or would be done, type: list, elements: str, returned: success}
"""

import grp
import os
import pwd
import stat
from collections.abc import Sequence
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.host_modules import bare_folder, mount_unit
from ansible.module_utils.host_modules.mount_unit import Mount, State

_MOUNT = {
    "path": {"type": "path", "required": True},
    "type": {"type": "str"},
    "source": {"type": "str"},
    "options": {"type": "list", "elements": "str", "default": []},
    "size_mib": {"type": "int"},
    "device_timeout_s": {"type": "int"},
    "owner": {"type": "str"},
    "group": {"type": "str"},
    "mode": {"type": "str"},
}


class Keeper:
    """The mounts of one call: reads, acts, and reads again."""

    def __init__(self, module: AnsibleModule) -> None:
        self._module = module
        self.mounts = [self._mount(raw) for raw in module.params["mounts"]]
        self.also: list[tuple[str, str]] = []
        self.drop_ins: dict[str, str | None] = {}
        self.masked: list[str] = []

    def _mount(self, raw: dict[str, Any]) -> Mount:
        kind = raw["type"] or self._module.params["type"]
        source, options = raw["source"], list(raw["options"])
        if kind == "tmpfs":
            source = "tmpfs"
            options = self._tmpfs_options(raw, options)
        keys = ("device_timeout_s", "owner", "group", "mode")
        path = os.path.normpath(raw["path"])
        return Mount(path=path, type=kind, source=source, options=tuple(options), **{key: raw[key] for key in keys})

    def _tmpfs_options(self, raw: dict[str, Any], options: list[str]) -> list[str]:
        found = [f"size={raw['size_mib']}M"] if raw["size_mib"] else []
        found += [f"mode={raw['mode']}"] if raw["mode"] else []
        found += [flag for flag in ("nosuid", "nodev") if flag not in options and flag[2:] not in options]
        for option in options:
            if option.startswith("huge=") and not os.path.exists("/sys/kernel/mm/transparent_hugepage/shmem_enabled"):
                self._module.warn(f"{raw['path']}: {option} is left out, this kernel has no transparent huge pages")
            else:
                found.append(option)
        return found

    def states(self) -> list[State]:
        units = self._units()
        self.also = [
            (kind, unit)
            for unit in self._module.params["also"]
            if not _masked(units[unit])
            for kind, done in (("enable", {"enabled", "static"}), ("start", {"active"}))
            if done.isdisjoint((units[unit].get("UnitFileState"), units[unit].get("ActiveState")))
        ]
        self.masked = [unit for unit in self._module.params["also"] if _masked(units[unit])]
        wanted: dict[str, str | None] = self._module.params["drop_ins"]
        self.drop_ins = {path: text for path, text in wanted.items() if _read(path) != text}
        stale = [unit for unit, shown in units.items() if shown.get("NeedDaemonReload") == "yes"]
        return [self._state(mount, stale) for mount in self.mounts]

    def others(self) -> list[str]:
        """What is left to do besides the mounts, in words."""
        files = [f"{'remove' if text is None else 'write'} {path}" for path, text in self.drop_ins.items()]
        return files + [f"{kind} {unit}" for kind, unit in self.also]

    def _state(self, mount: Mount, stale: Sequence[str]) -> State:
        mounted = mount_unit.mounted_at(_read("/proc/self/mountinfo") or "", mount.path)
        texts = {path: _read(path) for path in mount_unit.files(mount)}
        root = State.root
        if mounted:
            there = os.stat(mount.path)
            root = (_user(there.st_uid), _group(there.st_gid), f"{stat.S_IMODE(there.st_mode):04o}")
        return State(
            files={path: text for path, text in texts.items() if text is not None},
            enabled=os.path.realpath(mount.wants_path) == mount.unit_path,
            stale=mount.unit in stale,
            mounted=mounted,
            source_number=_number(mount.source),
            bare=bare_folder.look(mount.path),
            fstab=mount_unit.in_fstab(_read("/etc/fstab") or "", mount.path),
            root=root,
        )

    def _units(self) -> dict[str, dict[str, str]]:
        """What systemd knows of the units that exist, by their names."""
        names = [mount.unit for mount in self.mounts if os.path.exists(mount.unit_path)]
        names += self._module.params["also"]
        if not names:
            return {}
        out = self._run(["systemctl", "show", "--property=NeedDaemonReload,UnitFileState,ActiveState", *names])
        blocks = [dict(line.split("=", 1) for line in block.splitlines()) for block in out.strip().split("\n\n")]
        return dict(zip(names, blocks))

    def act(self, todo: Sequence[tuple[Mount, str]]) -> None:
        """Files of all mounts first, so that systemd reads them again only once."""
        kinds = {kind for _, kind in todo}
        for mount, kind in todo:
            if kind == "folder":
                bare_folder.make(mount.path)
            elif kind == "unit":
                for path, text in mount_unit.files(mount).items():
                    _write(path, text)
        for path, text in self.drop_ins.items():
            _write(path, text) if text is not None else os.unlink(path)
        for mount, kind in todo:
            if kind in ("folder", "immutable") and bare_folder.look(mount.path).immutable is False:
                bare_folder.make_immutable(mount.path)
        if kinds & {"unit", "reload"} or self.drop_ins:
            self._run(["systemctl", "daemon-reload"])
        for kind, command in (("enable", "enable"), ("start", "start"), ("remount", "reload"), ("again", "restart")):
            units = [mount.unit for mount, wanted in todo if wanted == kind]
            units += [unit for wanted, unit in self.also if wanted == kind]
            if units:
                self._run(["systemctl", command, *units])
        for mount in {mount for mount, kind in todo if kind in ("root", "start", "again")}:
            self._root(mount)

    def _root(self, mount: Mount) -> None:
        try:
            uid = pwd.getpwnam(mount.owner).pw_uid if mount.owner else -1
            gid = grp.getgrnam(mount.group).gr_gid if mount.group else -1
        except KeyError as error:
            self._module.fail_json(msg=f"{mount.path}: {error.args[0]!s}")
        os.chown(mount.path, uid, gid)
        if mount.mode is not None:
            os.chmod(mount.path, int(mount.mode, 8))

    def _run(self, command: list[str]) -> str:
        rc, out, err = self._module.run_command(command, environ_update={"LC_ALL": "C"})
        if rc != 0:
            units = [f"--unit={mount.unit}" for mount in self.mounts]
            log = self._module.run_command(["journalctl", "--no-pager", "--lines=5", "--output=cat", *units])
            self._module.fail_json(msg=f"{' '.join(command)}: {(err or out).strip()}\n{log[1].strip()}")
        return str(out)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "type": {"type": "str"},
            "also": {"type": "list", "elements": "str", "default": []},
            "drop_ins": {"type": "dict", "default": {}},
            "mounts": {"type": "list", "elements": "dict", "required": True, "options": _MOUNT},
        },
        supports_check_mode=True,
    )
    keeper = Keeper(module)
    states = keeper.states()
    refused = [text for mount, state in zip(keeper.mounts, states) for text in mount_unit.refusals(mount, state)]
    if refused:
        module.fail_json(msg="\n".join([*refused, "hint: nothing was changed."]), refusals=refused)
    todo = [
        (mount, *action) for mount, state in zip(keeper.mounts, states) for action in mount_unit.actions(mount, state)
    ]
    actions = [text for _, _, text in todo] + keeper.others()
    if actions and not module.check_mode:
        missing = [mount.path for mount in keeper.mounts if mount.source is None]
        if missing:
            module.fail_json(msg=f"no device for {', '.join(missing)}")
        keeper.act([(mount, kind) for mount, kind, _ in todo])
        states = keeper.states()
        left = [text for mount, state in zip(keeper.mounts, states) for _, text in mount_unit.actions(mount, state)]
        left += keeper.others()
        if left:
            module.fail_json(msg=f"done, yet without effect: {'; '.join(left)}")
    for unit in keeper.masked:
        module.warn(f"{unit} is masked on this host and is left so: systemctl unmask {unit}, then run this again")
    for mount, state in zip(keeper.mounts, states):
        if state.bare.exists and state.bare.immutable is None:
            module.warn(f"{mount.path}: the file system below knows no immutable flag; the mount point stays writable")
    module.exit_json(changed=bool(actions), actions=actions)


def _masked(shown: dict[str, str]) -> bool:
    return shown.get("UnitFileState", "").startswith("masked")


def _number(source: str | None) -> str | None:
    """major:minor of a device node."""
    try:
        number = os.stat(source).st_rdev if source else 0
    except OSError:
        return None
    return f"{os.major(number)}:{os.minor(number)}"


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    temporary = path + ".llmhw-new"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(temporary, 0o644)
    os.rename(temporary, path)


if __name__ == "__main__":
    main()

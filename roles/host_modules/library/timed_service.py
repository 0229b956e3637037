#!/usr/bin/python
"""Keeps a small service that a timer runs: its files, its units, and that it can run at all."""

from __future__ import annotations

DOCUMENTATION = """
module: timed_service
short_description: a service of our own that a timer runs
description:
  - Writes the files, lets systemd read the units, enables and starts the timer. After a change the service runs once,
    so that a unit that cannot work is noticed now.
  - With C(state=absent) stops both units and removes every file and the folders that are empty then.
  - In check mode nothing is changed; C(actions) lists what would be done, in the same words.
options:
  name: {description: name of both units (NAME.service and NAME.timer), type: str, required: true}
  state: {description: there or not, type: str, choices: [present, absent], default: present}
  files:
    description: the service's files, both units in /etc/systemd/system among them. For absent only the paths count.
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: where, type: path, required: true}
      text: {description: content, type: str, required: true}
      mode: {description: mode, type: str, default: "0644"}
  leftovers: {description: files that the service itself writes, type: list, elements: path, default: []}
  folders: {description: folders to remove with the last file in them, type: list, elements: path, default: []}
  exit_status: {description: how the service ends when it works, type: list, elements: int, default: [0]}
author: llmhw-provision
"""

EXAMPLES = """
- name: Watch the volumes
  timed_service:
    name: llmhw-volume-watch
    files:
      - {path: /etc/systemd/system/llmhw-volume-watch.timer, text: "..."}
      - {path: /etc/systemd/system/llmhw-volume-watch.service, text: "..."}
"""

RETURN = """
actions: {description: what was done or would be done, type: list, elements: str, returned: success}
"""

import os
import stat
from typing import Any

from ansible.module_utils.basic import AnsibleModule

_UNITS = "/etc/systemd/system/"
_SHOWN = "--property=LoadState,UnitFileState,ActiveState,NeedDaemonReload,Result,ExecMainStatus"


class Keeper:
    """The service of one call."""

    def __init__(self, module: AnsibleModule) -> None:
        self._module = module
        self._files: list[dict[str, Any]] = module.params["files"]
        self._timer = module.params["name"] + ".timer"
        self._service = module.params["name"] + ".service"

    def todo(self) -> list[tuple[str, str]]:
        """What is left to do, in order: (kind, path or unit)."""
        shown = self._show()
        if self._module.params["state"] == "absent":
            paths = [file["path"] for file in self._files] + self._module.params["leftovers"]
            left = [path for path in paths if os.path.lexists(path)]
            left += [path for path in self._module.params["folders"] if _holds_only(path, left)]
            known = [unit for unit, values in shown.items() if values["LoadState"] != "not-found"]
            return [("stop", unit) for unit in known] + [("remove", path) for path in left]
        found = [("write", file["path"]) for file in self._files if not _as_wanted(file)]
        units = any(path.startswith(_UNITS) for _, path in found)
        found += [
            ("reload", unit) for unit, values in shown.items() if not units and values["NeedDaemonReload"] == "yes"
        ]
        timer = shown[self._timer]
        found += [("enable", self._timer)] if timer["UnitFileState"] != "enabled" else []
        found += [("start", self._timer)] if timer["ActiveState"] != "active" else []
        return found

    def act(self, todo: list[tuple[str, str]]) -> None:
        stopped = [unit for kind, unit in todo if kind == "stop"]
        if stopped:
            self._run("systemctl", "disable", "--now", self._timer, may_fail=True)  # its file may be gone already
            self._run("systemctl", "stop", *stopped)
            self._run("systemctl", "reset-failed", *stopped, may_fail=True)
        for kind, path in todo:
            if kind == "write":
                _write(next(file for file in self._files if file["path"] == path))
            elif kind == "remove":
                _remove(path)
        if stopped or any(kind == "reload" or path.startswith(_UNITS) for kind, path in todo):
            self._run("systemctl", "daemon-reload")
        for command in ("enable", "start"):
            for unit in [unit for kind, unit in todo if kind == command]:
                self._run("systemctl", command, unit)
        if self._module.params["state"] == "present":
            self._try()

    def _try(self) -> None:
        """One run now. What it finds is not our matter; that it can look, is."""
        self._run("systemctl", "start", self._service, may_fail=True)
        shown = self._show()[self._service]
        ended = int(shown["ExecMainStatus"] or 0)
        if shown["Result"] not in ("success", "exit-code") or ended not in self._module.params["exit_status"]:
            log = self._run("journalctl", "--no-pager", "--lines=5", "--output=cat", "--unit=" + self._service)
            why = f"{shown['Result']}, exit status {ended}"
            self._module.fail_json(msg=f"{self._service} does not work: {why}\n{log.strip()}")

    def _show(self) -> dict[str, dict[str, str]]:
        """What systemd knows of both units."""
        units = [self._timer, self._service]
        blocks = self._run("systemctl", "show", _SHOWN, *units).strip().split("\n\n")
        empty = dict.fromkeys(_SHOWN.partition("=")[2].split(","), "")
        return {
            unit: {**empty, **dict(line.split("=", 1) for line in block.splitlines())}
            for unit, block in zip(units, blocks)
        }

    def _run(self, *command: str, may_fail: bool = False) -> str:
        rc, out, err = self._module.run_command(list(command), environ_update={"LC_ALL": "C"})
        if rc != 0 and not may_fail:
            self._module.fail_json(msg=f"{' '.join(command)}: {(err or out).strip()}")
        return str(out)


def main() -> None:
    file = {
        "path": {"type": "path", "required": True},
        # Not secret: no_log keeps whole programs out of the target's journal.
        "text": {"type": "str", "required": True, "no_log": True},
        "mode": {"type": "str", "default": "0644"},
    }
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "files": {"type": "list", "elements": "dict", "required": True, "options": file},
            "leftovers": {"type": "list", "elements": "path", "default": []},
            "folders": {"type": "list", "elements": "path", "default": []},
            "exit_status": {"type": "list", "elements": "int", "default": [0]},
        },
        supports_check_mode=True,
    )
    keeper = Keeper(module)
    todo = keeper.todo()
    actions = [f"{kind} {what}" for kind, what in todo]
    if todo and not module.check_mode:
        keeper.act(todo)
        left = keeper.todo()
        if left:
            module.fail_json(msg="done, yet without effect: " + "; ".join(f"{kind} {what}" for kind, what in left))
    module.exit_json(changed=bool(actions), actions=actions)


def _as_wanted(file: dict[str, Any]) -> bool:
    try:
        there = os.lstat(file["path"])
        with open(file["path"], encoding="utf-8") as text:
            same = text.read() == file["text"]
    except (OSError, UnicodeDecodeError):
        return False
    return (
        same
        and stat.S_ISREG(there.st_mode)
        and (there.st_uid, there.st_gid, stat.S_IMODE(there.st_mode))
        == (
            0,
            0,
            int(file["mode"], 8),
        )
    )


def _holds_only(path: str, paths: list[str]) -> bool:
    return os.path.isdir(path) and {os.path.join(path, name) for name in os.listdir(path)} <= set(paths)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        os.rmdir(path)
    else:
        os.unlink(path)


def _write(file: dict[str, Any]) -> None:
    path = file["path"]
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    temporary = path + ".llmhw-new"
    with open(temporary, "w", encoding="utf-8") as text:
        text.write(file["text"])
        text.flush()
        os.fsync(text.fileno())
    os.chown(temporary, 0, 0)
    os.chmod(temporary, int(file["mode"], 8))
    os.rename(temporary, path)


if __name__ == "__main__":
    main()

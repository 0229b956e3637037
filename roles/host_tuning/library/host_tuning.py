#!/usr/bin/python
"""Kernel settings, limits, CPU and memory policy, command line, no sleep: files, and what is in force now."""

from __future__ import annotations

DOCUMENTATION = """
module: host_tuning
short_description: a host tuned for its profile, now and after each boot
description:
  - Writes whole files of its own (sysctl.d, limits.d, system.conf.d, a boot unit, a GRUB drop-in) and puts in force
    what the running kernel and systemd have otherwise. What this host does not have, or may not set (a container),
    is left alone and told in C(notes).
  - Adds to the kernel command line, and keeps the menu entry that was there before until the machine has run with the
    new one. Leaves the reason for a reboot in /run/llmhw/reboot-required.d, computed from /proc/cmdline.
  - In check mode nothing is changed; C(actions) lists what would be done, in the same words.
options:
  config: {description: the role's configuration, type: dict, required: true}
  paths: {description: names that this system uses, type: dict, required: true}
author: llmhw-provision
"""

RETURN = """
actions: {description: what was done or would be done, type: list, elements: str, returned: success}
notes: {description: what was left alone and why, type: list, elements: str, returned: success}
missing: {description: packages that are not installed, type: list, elements: str, returned: success}
"""

import glob
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.host_modules import initramfs
from ansible.module_utils.host_modules.files import File, differing, mode_of, put, read
from ansible.module_utils.host_tuning import boot, render

BLS, BLS_KEPT = "/boot/loader/entries", "/boot/loader/entries/llmhw-before.conf"


class Tuning:
    """One host: what is left to do, and doing it."""

    def __init__(self, module: AnsibleModule) -> None:
        self._module = module
        self.config: dict[str, Any] = module.params["config"]
        self.paths: dict[str, Any] = module.params["paths"]
        self.notes: list[str] = []
        self.missing: list[str] = []
        self._boots = self._boot_kind()
        tuned = module.run_command(["systemctl", "is-active", "--quiet", "tuned.service"])[0] == 0
        self._tuned = bool(tuned and self.config["governor"] != render.AS_FOUND)
        if self._tuned:
            self.config = {**self.config, "governor": render.AS_FOUND}

    def _boot_kind(self) -> str:
        """`grub`, `grubby`, or nothing where no boot loader of this host is ours to configure."""
        if self.paths["boot"] == "grub":
            there = self._module.get_bin_path("update-grub") and os.path.exists(self.paths["grub_cfg"])
        else:
            there = self._module.get_bin_path("grubby") and glob.glob(f"{BLS}/*.conf")
        return str(self.paths["boot"]) if there else ""

    def todo(self) -> list[tuple[str, str, Any]]:
        """What is left to do: (kind, sentence, object)."""
        self.notes, self.missing = [], []
        drop_in = self.paths["grub_drop_in"] if self._boots == "grub" else ""
        found: list[tuple[str, str, Any]] = []
        found += [("file", text, file) for file, text in differing(self._files(drop_in))]
        found += [*self._sysctl(), *self._manager(), *self._policy(), *self._acs(), *self._boot()]
        return found

    def _files(self, drop_in: str) -> list[File]:
        files = render.files(self.config, drop_in)
        masked = {f"{render.UNITS}/{target}" for target in self.config["mask"]}
        for path in glob.glob(f"{render.UNITS}/*.target"):  # masked by an earlier plan
            if os.path.basename(path) in _SLEEP and path not in masked and os.path.realpath(path) == "/dev/null":
                files.append(File(path, None))
        return files

    def _sysctl(self) -> list[tuple[str, str, Any]]:
        found: list[tuple[str, str, Any]] = []
        for key, value in sorted(self.config["sysctl"].items()):
            path = "/proc/sys/" + (key if "/" in key else key.replace(".", "/"))
            if not os.path.exists(path):
                self.notes.append(f"{key}: this kernel has no such setting")
            elif read(path).split() != value.split():
                if os.access(path, os.W_OK):
                    found.append(("sysctl", f"set {key} to {value}", (path, value)))
                else:
                    self.notes.append(f"{key}: belongs to the host of this container")
        return found

    def _manager(self) -> list[tuple[str, str, Any]]:
        limits = self.config["limits"]
        memlock = limits.get("memlock_kib")
        wanted = {
            "DefaultLimitMEMLOCK": "infinity" if memlock is None else str(memlock * 1024),
            "DefaultLimitNOFILE": str(limits["nofile_hard"]),
            "DefaultLimitNOFILESoft": str(limits["nofile_soft"]),
        }
        out = self._out(["systemctl", "show", f"--property={','.join(wanted)}"])
        shown = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
        return [] if shown == wanted else [("manager", "let systemd read its limits again", None)]

    def _policy(self) -> list[tuple[str, str, Any]]:
        found: list[tuple[str, str, Any]] = []
        governor, hugepages = (None if self.config[key] == render.AS_FOUND else self.config[key] for key in _POLICY)
        governors = [path for path in sorted(glob.glob(render.GOVERNORS)) if os.access(path, os.W_OK)]
        if self._tuned:
            self.notes.append("governor: tuned runs on this host and decides; never two of them")
        elif governor and not governors:
            self.notes.append("governor: this host sets no CPU frequency (virtual machine, or left to the firmware)")
        elif governor:
            available = read(governors[0].replace("scaling_governor", "scaling_available_governors")).split()
            if available and governor not in available:
                self._module.fail_json(msg=f"no governor {governor}; this host has {', '.join(available)}")
            other = [path for path in governors if read(path).strip() != governor]
            text = f"set the governor of {len(other)} CPUs to {governor}"
            found += [("write", text, [(path, governor) for path in other])] if other else []
        if hugepages and f"[{hugepages}]" not in read(render.HUGEPAGES):
            if os.access(render.HUGEPAGES, os.W_OK):
                found.append(("write", f"set huge pages to {hugepages}", [(render.HUGEPAGES, hugepages)]))
            else:
                self.notes.append("huge pages: this kernel has none, or they belong to the host of this container")
        return found

    def _acs(self) -> list[tuple[str, str, Any]]:
        if self.config["acs"] != "clear":
            return []
        if self._module.get_bin_path("setpci") is None:
            self.missing.append(self.paths["setpci"])
        shown = self._out(
            ["systemctl", "show", "--property=ActiveState,ConditionResult", render.ACS_UNIT], may_fail=True
        )
        if "ActiveState=active" in shown:
            return []
        if os.path.exists(f"{render.UNITS}/{render.ACS_UNIT}") and self._virtual():
            self.notes.append("ACS: never cleared in a virtual machine, whose isolation it may be")
            return []
        return [("acs", "clear ACS above GPUs and NICs", None)]

    def _virtual(self) -> bool:
        return self._module.run_command(["systemd-detect-virt", "--quiet"])[0] == 0

    def _boot(self) -> list[tuple[str, str, Any]]:
        wanted = self.config["command_line"]
        if not self._boots:
            if wanted:
                self.notes.append("command line: this host has no boot loader of its own; nothing was done")
            return []
        running = boot.lacking(wanted, read("/proc/cmdline"))
        return self._grub(wanted, running) if self._boots == "grub" else self._grubby(wanted, running)

    def _grub(self, wanted: list[str], running: list[str]) -> list[tuple[str, str, Any]]:
        entry = boot.default_entry(read(self.paths["grub_cfg"])) or ""
        lines = boot.command_lines(entry)
        custom = read(self.paths["grub_custom"])
        kept = boot.BEGIN in custom
        found: list[tuple[str, str, Any]] = []
        if wanted and (not lines or any(boot.lacking(wanted, line) for line in lines)):
            if not entry:
                self._module.fail_json(msg=f"{self.paths['grub_cfg']} has no menu entry that could be kept")
            if not kept:
                found.append(("custom", _KEEP, boot.with_kept(custom, boot.kept_entry(entry))))
            found.append(("grub", f"add {' '.join(wanted)} to the kernel command line", None))
            return found
        if kept and not running:
            found.append(("custom", _DROP, boot.with_kept(custom, None)))
        if not wanted and os.path.exists(self.paths["grub_drop_in"]):
            found.append(("grub", "take our arguments off the kernel command line", None))
        return found

    def _grubby(self, wanted: list[str], running: list[str]) -> list[tuple[str, str, Any]]:
        info = self._out(["grubby", "--info=DEFAULT"])
        missing = boot.lacking(wanted, boot.grubby_field(info, "args"))
        if missing:
            entry = read(f"{BLS}/{boot.grubby_field(info, 'id')}.conf")
            if not entry:
                self._module.fail_json(msg=f"{BLS} has no entry of the default kernel that could be kept")
            kept = [] if os.path.exists(BLS_KEPT) else [File(BLS_KEPT, boot.kept_bls(entry))]
            text = f"add {' '.join(missing)} to the kernel command line"
            return [*(("file", _KEEP, file) for file in kept), ("grubby", text, missing)]
        if os.path.exists(BLS_KEPT) and not running:
            return [("file", _DROP, File(BLS_KEPT, None))]
        return []

    def act(self, todo: list[tuple[str, str, Any]]) -> None:
        kinds = {kind for kind, _, _ in todo}
        for kind, _, what in todo:
            if kind == "custom":  # before the entry it keeps is written anew
                put(File(self.paths["grub_custom"], what or None, mode_of(self.paths["grub_custom"], 0o600)))
        for kind, _, what in todo:
            if kind == "file":
                put(what)
            elif kind == "sysctl":
                _write(*what)
            elif kind == "write":
                for path, value in what:
                    _write(path, value)
            elif kind == "grubby":
                self._out(["grubby", "--update-kernel=DEFAULT", f"--args={' '.join(what)}"])
        if kinds & {"manager", "file"}:
            self._out(["systemctl", "daemon-reexec" if "manager" in kinds else "daemon-reload"])
        if "grub" in kinds:
            self._out(["update-grub"])
        if "acs" in kinds and self._module.get_bin_path("setpci") is not None:
            self._out(["systemctl", "start", render.ACS_UNIT])

    def want_reboot(self) -> None:
        """A reason as long as the machine runs without what it would boot with."""
        path = os.path.join(initramfs.REBOOT_REASONS, "host_tuning")
        missing = boot.lacking(self.config["command_line"], read("/proc/cmdline")) if self._boots else []
        if missing:
            initramfs.want_reboot("host_tuning", f"the kernel runs without {' '.join(missing)}")
        elif os.path.exists(path):
            os.unlink(path)

    def _out(self, command: list[str], *, may_fail: bool = False) -> str:
        rc, out, err = self._module.run_command(command, environ_update={"LC_ALL": "C"})
        if rc != 0 and not may_fail:
            self._module.fail_json(msg=f"{' '.join(command)} failed: {(err or out).strip()[-600:]}")
        return str(out)


_KEEP = "keep the boot entry from before"
_DROP = "drop the boot entry from before: this boot has shown that the new one works"
_POLICY = ("governor", "hugepages")
_SLEEP = ("sleep.target", "suspend.target", "hibernate.target", "hybrid-sleep.target", "suspend-then-hibernate.target")


def _write(path: str, value: str) -> None:
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(value + "\n")


def main() -> None:
    module = AnsibleModule(
        argument_spec={"config": {"type": "dict", "required": True}, "paths": {"type": "dict", "required": True}},
        supports_check_mode=True,
    )
    tuning = Tuning(module)
    todo = tuning.todo()
    if todo and not module.check_mode:
        tuning.act(todo)
        left = [text for kind, text, _ in tuning.todo() if not (kind == "acs" and tuning.missing)]
        if left:
            module.fail_json(msg=f"done, yet without effect: {'; '.join(left)}")
    if not module.check_mode:
        tuning.want_reboot()
    for note in tuning.notes:
        module.warn(note)
    actions = [text for _, text, _ in todo]
    module.exit_json(changed=bool(todo), actions=actions, notes=tuning.notes, missing=tuning.missing)


if __name__ == "__main__":
    main()

#!/usr/bin/python
"""Makes or adopts RAID0, RAID1 and single-disk volumes; the only place of llmhw-provision that writes to disks."""

from __future__ import annotations

DOCUMENTATION = """
module: nvme_raid0
short_description: volumes with a file system on local disks
description:
  - Creates arrays over empty disks, or uses the existing array of that name if it has exactly the planned disks.
  - Refuses, with every reason for every disk, what is not provably empty. In that case nothing is changed.
  - In check mode nothing is changed; C(actions) lists what would be done, in the same words.
options:
  volumes:
    description: see the role's README; the keys of a volume are those of nvme_raid0_config.volumes.
    type: list
    elements: dict
    required: true
  wipe:
    description: consents to erase one signature each (device, serial, type, uuid).
    type: list
    elements: dict
    required: true
  max_wear_percent:
    description: a drive that has used more of its rated endurance is not written to.
    type: int
    required: true
  mdadm_conf:
    description: where this system keeps its ARRAY lines.
    type: path
    required: true
  state:
    description: folder for what is half made; a file in it lives as long as one mdadm --create.
    type: path
    default: /var/lib/llmhw/nvme_raid0
  udev_rule:
    description: the file for the read-ahead rule.
    type: path
    default: /etc/udev/rules.d/99-llmhw-read-ahead.rules
author: llmhw-provision
"""

EXAMPLES = """
- name: Make or adopt the volumes
  nvme_raid0:
    volumes: "{{ nvme_raid0_config.volumes }}"
    wipe: "{{ nvme_raid0_config.wipe }}"
    max_wear_percent: 90
    mdadm_conf: /etc/mdadm/mdadm.conf
"""

RETURN = """
actions: {description: what was done or would be done, type: list, elements: str, returned: success}
refusals: {description: 'the reasons (message, hint, steps) not to act', type: list, elements: dict, returned: failure}
volumes: {description: 'name, device, array_uuid and filesystem_uuid of each volume', type: list, returned: success}
mounts: {description: the mounts of the volumes, as systemd_mount takes them, type: list, returned: success}
drop_ins:
  description: drop-ins of systemd units that the volumes need, text by path, null where there must be none.
  type: dict
  returned: success
programs: {description: 'programs that the volumes need, there or not', type: list, returned: success}
pending:
  description: files of the initramfs that the steps will change, with their text or null if it is not known yet.
  type: dict
  returned: success
"""

import shutil
from collections.abc import Sequence
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.nvme_raid0 import read
from ansible.module_utils.nvme_raid0.decide import Decision, decide
from ansible.module_utils.nvme_raid0.facts import Consent, Volume
from ansible.module_utils.nvme_raid0.plan import Result
from ansible.module_utils.nvme_raid0.refuse import Refusal
from ansible.module_utils.nvme_raid0.replace import RUNBOOK
from ansible.module_utils.nvme_raid0.work import Failure, carry_out

_VOLUME = {
    "name": {"type": "str", "required": True},
    "level": {"type": "str", "required": True, "choices": ["raid0", "raid1", "single"]},
    "members": {"type": "list", "elements": "path", "required": True},
    "chunk_kib": {"type": "int", "required": True},
    "filesystem": {"type": "str", "required": True, "choices": ["xfs", "ext4"]},
    "mount": {"type": "path", "required": True},
    "mount_options": {"type": "list", "elements": "str", "required": True},
    "device_timeout_s": {"type": "int", "required": True},
    "read_ahead_kib": {"type": "int", "required": True},
    "trim": {"type": "str", "required": True, "choices": ["weekly", "never"]},
    "ephemeral": {"type": "bool", "required": True},
    "owner": {"type": "str", "required": True},
    "group": {"type": "str", "required": True},
    "mode": {"type": "str", "required": True},
}
_WIPE = {key: {"type": "str", "required": True} for key in ("device", "serial", "type", "uuid")}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "volumes": {"type": "list", "elements": "dict", "required": True, "options": _VOLUME},
            "wipe": {"type": "list", "elements": "dict", "required": True, "options": _WIPE},
            "max_wear_percent": {"type": "int", "required": True},
            "mdadm_conf": {"type": "path", "required": True},
            "state": {"type": "path", "default": "/var/lib/llmhw/nvme_raid0"},
            "udev_rule": {"type": "path", "default": "/etc/udev/rules.d/99-llmhw-read-ahead.rules"},
        },
        supports_check_mode=True,
    )
    wanted: list[dict[str, Any]] = module.params["volumes"]
    volumes = [_wanted(raw) for raw in wanted]
    consents = [Consent(**raw) for raw in module.params["wipe"]]
    paths = {
        "mdadm_conf": module.params["mdadm_conf"],
        "rule": module.params["udev_rule"],
        "state": module.params["state"],
    }

    def run(command: list[str]) -> tuple[int, str, str]:
        rc, out, err = module.run_command(command, environ_update={"LC_ALL": "C", "LANGUAGE": "C"})
        return rc, out, err

    def look() -> Decision:
        wear = module.params["max_wear_percent"]
        return decide(volumes, consents, read.machine(volumes, run, **paths), max_wear_percent=wear, **paths)

    for raw in wanted:
        if not all(link.startswith("/dev/disk/by-id/") for link in raw["members"]):
            module.fail_json(msg="nvme_raid0: volume {}: disks are named by /dev/disk/by-id only".format(raw["name"]))
    if module.check_mode:
        decision = look()
        actions = tuple(step.sentence for step in decision.steps)
    else:
        try:
            actions, decision = carry_out(look, run, module.log)
        except Failure as failure:
            module.fail_json(msg=f"nvme_raid0: {failure}")
    if decision.refusals:
        _refuse(module, decision.refusals, actions)
    for note in decision.notes:
        module.warn("nvme_raid0: " + note)
    programs = _programs(volumes)
    missing = [program for program in programs if not shutil.which(program, path=_PATH)]
    conf = paths["mdadm_conf"]
    texts = [text for step in decision.steps for path, text in step.files if path == conf]
    module.exit_json(
        changed=bool(actions),
        actions=list(actions),
        volumes=[_volume(result) for result in decision.results],
        mounts=[_mount(raw, result) for raw, result in zip(wanted, decision.results)],
        drop_ins=_trimming(decision.results),
        programs=programs,
        pending={conf: texts[-1] or None if not missing and texts else None} if missing or texts else {},
    )


_KEYS = ("name", "level", "chunk_kib", "mount", "read_ahead_kib", "filesystem", "trim", "ephemeral")
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_TRIMMING = "/etc/systemd/system/fstrim.service.d/50-llmhw-volumes.conf"


def _wanted(raw: dict[str, Any]) -> Volume:
    quota = "prjquota" in raw["mount_options"]
    return Volume(**{key: raw[key] for key in _KEYS}, members=tuple(raw["members"]), project_quota=quota)


def _programs(volumes: Sequence[Volume]) -> list[str]:
    arrays = ["mdadm"] if any(volume.level != "single" for volume in volumes) else []
    quotas = ["setquota"] if any(v.project_quota and v.filesystem == "ext4" for v in volumes) else []
    return [*arrays, *dict.fromkeys("mkfs." + volume.filesystem for volume in volumes), *quotas]


def _trimming(results: Sequence[Result]) -> dict[str, str | None]:
    """fstrim.service reads /etc/fstab and nothing else, unless that is empty; our mounts are not in there."""
    mounts = [result.volume.mount for result in results if result.volume.trim == "weekly" and result.trim]
    # Not an error: a drive may be missing. fstrim would then trim the file system that the bare folder lies on.
    fstrim = "exec /usr/sbin/fstrim --verbose --quiet-unsupported"
    lines = [f"ExecStart=-/bin/sh -c 'mountpoint -q {mount} && {fstrim} {mount}'\n" for mount in mounts]
    head = "# Written by llmhw-provision, role nvme_raid0; changes are overwritten.\n[Service]\n"
    return {_TRIMMING: head + "".join(lines) if lines else None}


def _refuse(module: AnsibleModule, refusals: Sequence[Refusal], done: Sequence[str]) -> None:
    """Every reason on a line of its own; the hints once each."""
    messages = ["nvme_raid0: " + refusal.message for refusal in refusals]
    before = "done before that: {}.".format("; ".join(done)) if done else "nothing was changed."
    hints = dict.fromkeys(refusal.hint[0].upper() + refusal.hint[1:] + "." for refusal in refusals if refusal.hint)
    lines = [*messages, "hint: " + " ".join([before, *hints])]
    for refusal in refusals:
        if refusal.steps:
            lines.append(f"if that is not possible ({RUNBOOK}):")
            lines += ["  %d. %s" % (number, text) for number, text in enumerate(refusal.steps, 1)]
    module.fail_json(
        msg="\n".join(lines),
        refusals=[refusal._asdict() for refusal in refusals],
        actions=list(done),
        changed=bool(done),
    )


def _volume(result: Result) -> dict[str, Any]:
    return {
        "name": result.volume.name,
        "device": result.volume.link,
        "array_uuid": result.array_uuid,
        "filesystem_uuid": result.filesystem.uuid if result.filesystem else None,
    }


def _mount(raw: dict[str, Any], result: Result) -> dict[str, Any]:
    return {
        "path": raw["mount"],
        "type": raw["filesystem"],
        "source": "/dev/disk/by-uuid/" + result.filesystem.uuid if result.filesystem else None,
        "options": raw["mount_options"],
        "device_timeout_s": raw["device_timeout_s"],
        "owner": raw["owner"],
        "group": raw["group"],
        "mode": raw["mode"],
    }


if __name__ == "__main__":
    main()

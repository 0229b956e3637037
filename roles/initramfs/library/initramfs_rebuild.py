#!/usr/bin/python
"""Rebuilds the initramfs images once, if a role has left a reason, and reads back what they then carry."""

from __future__ import annotations

DOCUMENTATION = """
module: initramfs_rebuild
short_description: at most one rebuild per kernel, for all reasons together
description:
  - Does nothing unless /run/llmhw/initramfs-required.d holds reasons.
  - Lets dpkg catch up on a rebuild that it has put off, then rebuilds only the images that still lack something, so
    that no image is built twice. Reads the images again; only then the reasons are cleared.
  - With O(prove_by_boot), leaves a reason for a reboot while the image to boot from is newer than the last boot. That
    follows from the state alone and is no change of the machine.
options:
  kernels: {description: kernels whose image is rebuilt, type: str, choices: [all, running], required: true}
  prove_by_boot: {description: leave a reason for a reboot after a rebuild, type: bool, required: true}
  reasons: {description: check mode, the reasons that earlier tasks would leave, type: dict, default: {}}
  lock_timeout_s: {description: seconds to wait for another dpkg, type: int, default: 600}
author: llmhw-provision
"""

RETURN = """
actions: {description: what was done or would be done, type: list, elements: str, returned: success}
reasons: {description: the reasons, by role, type: dict, returned: success}
"""

import os
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.host_modules import initramfs


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kernels": {"type": "str", "choices": ["all", "running"], "required": True},
            "prove_by_boot": {"type": "bool", "required": True},
            "reasons": {"type": "dict", "default": {}},
            "lock_timeout_s": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    kernels = module.params["kernels"]
    reasons = initramfs.reasons()
    if module.check_mode:
        reasons = {**reasons, **module.params["reasons"]}
    actions = [f"rebuild the initramfs for {role}: {text}" for role, text in reasons.items()]
    if not module.check_mode:
        if reasons:
            _rebuild(module, initramfs.files_of(list(reasons.values())), kernels)
        for role in reasons:
            os.unlink(os.path.join(initramfs.REASONS, role))
        if module.params["prove_by_boot"] and initramfs.newer_than_boot(kernels):
            initramfs.want_reboot("initramfs", "the initramfs is newer than the last boot")
    module.exit_json(changed=bool(reasons), actions=actions, reasons=reasons)


def _rebuild(module: AnsibleModule, files: list[str], kernels: str) -> None:
    if initramfs.trigger_pending():
        _dpkg(module)
    for release in initramfs.stale(files, kernels):
        _run(module, ["update-initramfs", "-u", "-k", release])
    left = initramfs.stale(files, kernels)
    if left:
        listed = "; ".join(f"{release}: {', '.join(paths)}" for release, paths in left.items())
        module.fail_json(msg=f"the rebuilt initramfs still lacks files: {listed}")


def _dpkg(module: AnsibleModule) -> None:
    """Configures what an interrupted run may have left, and runs the triggers that wait."""
    end = time.monotonic() + module.params["lock_timeout_s"]
    while True:
        rc, out, err = module.run_command(["dpkg", "--configure", "--pending"], environ_update=_ENVIRONMENT)
        if rc == 0:
            return
        if "lock" not in err or time.monotonic() > end:
            module.fail_json(msg=f"dpkg --configure --pending failed: {(err or out).strip()}")
        time.sleep(5)


def _run(module: AnsibleModule, command: list[str]) -> None:
    rc, out, err = module.run_command(command, environ_update=_ENVIRONMENT)
    if rc != 0:
        module.fail_json(msg=f"{' '.join(command)} failed: {(err or out).strip()}")


_ENVIRONMENT = {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}


if __name__ == "__main__":
    main()

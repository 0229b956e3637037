#!/usr/bin/python
"""Leaves the reason for an initramfs rebuild, computed from what the images carry."""

from __future__ import annotations

DOCUMENTATION = """
module: initramfs_reason
short_description: does every initramfs carry these files as they are on disk
description:
  - Compares the files inside the initramfs of the installed kernels with those on disk. Where they differ, or where
    dpkg has put a rebuild off, leaves the reason in /run/llmhw/initramfs-required.d for the role initramfs.
  - Returns the reasons as the fact C(llmhw_initramfs_reasons) too, so that check mode can foresee the rebuild.
options:
  role: {description: whose reason it is, type: str, required: true}
  files: {description: files that the initramfs must carry, type: list, elements: path, required: true}
  kernels: {description: kernels to look at, type: str, choices: [all, running], default: all}
  pending:
    description: check mode, the files that an earlier task would change; their text, or null if it is not known.
    type: dict
    default: {}
author: llmhw-provision
"""

RETURN = """
reason: {description: the reason, empty if none, type: str, returned: success}
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.host_modules import initramfs


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str", "required": True},
            "files": {"type": "list", "elements": "path", "required": True},
            "kernels": {"type": "str", "choices": ["all", "running"], "default": "all"},
            "pending": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    role, files = module.params["role"], module.params["files"]
    reason = _reason(files, module.params["kernels"], module.params["pending"] if module.check_mode else {})
    path = os.path.join(initramfs.REASONS, role)
    left = initramfs.reasons()
    changed = left.get(role, "") != reason
    if changed and not module.check_mode:
        if reason:
            os.makedirs(initramfs.REASONS, mode=0o755, exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(reason + "\n")
        else:
            os.unlink(path)
    reasons = {**left, role: reason}
    module.exit_json(
        changed=changed,
        reason=reason,
        ansible_facts={"llmhw_initramfs_reasons": {name: text for name, text in reasons.items() if text}},
    )


def _reason(files: list[str], kernels: str, pending: dict[str, str | None]) -> str:
    """One line, or nothing."""
    if not initramfs.images(kernels):
        return ""
    unknown = [path for path, text in pending.items() if text is None]
    if unknown:
        return f"{' '.join(unknown)} will change"
    stale = initramfs.stale(files, kernels, pending)
    if stale:
        differing = sorted({path for paths in stale.values() for path in paths})
        return f"{' '.join(differing)} not yet in the initramfs of {', '.join(stale)}"
    return "dpkg has put a rebuild off" if initramfs.trigger_pending() else ""


if __name__ == "__main__":
    main()

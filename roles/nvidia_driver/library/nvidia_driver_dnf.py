#!/usr/bin/python
"""Enables the driver's module stream and installs its packages in one transaction of dnf."""

from __future__ import annotations

DOCUMENTATION = """
module: nvidia_driver_dnf
short_description: the NVIDIA driver on EL
description:
  - The dnf module of Ansible enables a stream only by installing its profile, which brings other versions.
options:
  config: {description: the role's configuration, type: dict, required: true}
  install: {description: entries NAME or NAME=VERSION, type: list, elements: str, required: true}
author: llmhw-provision
"""

RETURN = """
actions: {description: what was done or would be done, type: list, elements: str, returned: success}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.nvidia_driver import dnf

_ENVIRONMENT = {"LC_ALL": "C"}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "config": {"type": "dict", "required": True},
            "install": {"type": "list", "elements": "str", "required": True},
        },
        supports_check_mode=True,
    )
    config = module.params["config"]
    listed = ["dnf", "--quiet", "module", "list", "--enabled"]
    enabled = dnf.streams(module.run_command(listed, environ_update=_ENVIRONMENT)[1]) if config["stream"] else []
    todo = dnf.commands(module.params["install"], config, enabled)
    for command in todo if not module.check_mode else []:
        rc, out, err = module.run_command(command, environ_update=_ENVIRONMENT)
        if rc != 0:
            module.fail_json(msg=f"nvidia_driver: {' '.join(command)} failed: {(err or out).strip()[-1500:]}")
    module.exit_json(changed=bool(todo), actions=[" ".join(command) for command in todo])


if __name__ == "__main__":
    main()

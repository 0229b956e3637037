#!/usr/bin/python
"""Looks at packages, kernels and sources, refuses what cannot end well, and says what is to be installed."""

from __future__ import annotations

DOCUMENTATION = """
module: nvidia_driver_look
short_description: what the package manager will be told for the NVIDIA driver
description:
  - Changes nothing. Asks apt what it would really do, with the driver's names pinned as they will be.
  - Refuses, with every reason, a driver from a .run installer, Secure Boot with an unsigned module, a planned version
    that no source offers (a stub offers another), packages from several sources, and kernels without headers.
options:
  config: {description: the role's configuration, type: dict, required: true}
  family: {description: family of the system, type: str, choices: [debian, redhat], required: true}
  pins: {description: patterns of the driver's names, type: list, elements: str, default: []}
  foresee:
    description: check mode, package sources may be missing that an earlier task would add; then they are not asked.
    type: bool
    default: false
author: llmhw-provision
"""

RETURN = """
install: {description: entries NAME or NAME=VERSION to install, type: list, elements: str, returned: success}
absent: {description: packages to remove with the same command, type: list, elements: str, returned: success}
along: {description: what other roles get with it; packages, first_of and keep, type: dict, returned: success}
old: {description: driver version that is left, empty if none is, type: str, returned: success}
actions: {description: what will be done with packages, type: list, elements: str, returned: success}
refusals: {description: the reasons not to act, type: list, elements: str, returned: failure}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.nvidia_driver import apt, decide, dnf, packages
from ansible.module_utils.nvidia_driver.host import Host

_ENVIRONMENT = {"LC_ALL": "C"}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "config": {"type": "dict", "required": True},
            "family": {"type": "str", "choices": ["debian", "redhat"], "required": True},
            "pins": {"type": "list", "elements": "str", "default": []},
            "foresee": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    config, family = module.params["config"], module.params["family"]
    host = Host(lambda words: module.run_command(list(words), environ_update=_ENVIRONMENT), family)
    state = host.state()
    refused = decide.refusals(state, config)
    found = (
        apt.work_out(host, state, config, module.params["pins"]) if family == "debian" else dnf.work_out(state, config)
    )
    if module.params["foresee"] and found.not_offered:
        module.warn(f"nvidia_driver: {found.not_offered[0]}; the sources of today are asked again when apply has run")
    else:
        refused += found.refusals
    if refused:
        lines = [f"nvidia_driver: {text}" for text in refused]
        module.fail_json(msg="\n".join([*lines, "hint: nothing was changed; see runbook gpu-driver"]), refusals=refused)
    tracks = packages.tracks(packages.kernel_metas(state.there))
    if len(tracks) > 1:
        module.warn(f"kernels of several tracks follow their own updates: {', '.join(tracks)}; all of them are held")
    old = decide.old_version(state.there, config["version"])
    transaction = found.transaction
    module.exit_json(
        changed=False,
        install=list(transaction.install),
        absent=list(transaction.absent),
        along=decide.along(state.there, config),
        old=old,
        actions=decide.steps(transaction, old, config["version"]),
    )


if __name__ == "__main__":
    main()

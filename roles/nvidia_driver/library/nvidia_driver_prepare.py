#!/usr/bin/python
"""Before the packages change: pins, what unattended upgrades leave alone, the old set kept, its services stopped."""

from __future__ import annotations

DOCUMENTATION = """
module: nvidia_driver_prepare
short_description: the way back is kept before the NVIDIA driver changes
description:
  - Writes apt's preferences for the driver and the list of what unattended upgrades leave alone.
  - Where another version is installed, keeps its packages below /var/cache/llmhw/packages first, out of apt's cache or
    from a source that still has them. Where that fails, refuses unless the plan allows a change without return.
  - Then stops the services that use the driver and unloads its module where nothing else uses it.
options:
  config: {description: the role's configuration, type: dict, required: true}
  family: {description: family of the system, type: str, choices: [debian, redhat], required: true}
  pins: {description: patterns of the driver's names, type: list, elements: str, default: []}
  old: {description: driver version that is left, empty if none is, type: str, default: ''}
author: llmhw-provision
"""

RETURN = """
actions: {description: what was done or would be done, type: list, elements: str, returned: success}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.host_modules import files
from ansible.module_utils.nvidia_driver import decide, kept, leave, render
from ansible.module_utils.nvidia_driver.host import Host

_ENVIRONMENT = {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "config": {"type": "dict", "required": True},
            "family": {"type": "str", "choices": ["debian", "redhat"], "required": True},
            "pins": {"type": "list", "elements": "str", "default": []},
            "old": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    config, family, old = module.params["config"], module.params["family"], module.params["old"]
    host = Host(lambda words: module.run_command(list(words), environ_update=_ENVIRONMENT), family)
    actions = _keep(module, host, old) if old and family == "debian" else []
    wanted = render.apt_files(config["version"], module.params["pins"]) if family == "debian" else []
    differing = files.differing(wanted)
    if not module.check_mode:
        for file, _ in differing:
            files.put(file)
    actions += [sentence for _, sentence in differing]
    if old:
        actions += _leave(module, host)
    module.exit_json(changed=bool(actions), actions=actions)


def _keep(module: AnsibleModule, host: Host, old: str) -> list[str]:
    """Keeps the set of `old`; one that was cut off in the middle was kept before, or cannot be kept any more."""
    config, state = module.params["config"], host.state()
    there = kept.read(old)
    if there and not kept.damaged(there):
        return []
    if decide.mixed(state.there):
        module.warn(f"nvidia_driver: packages of several versions are installed; no set of {old} can be kept any more")
        return []
    sentence = f"keep the packages of driver {old} in {kept.folder_of(old)}"
    if module.check_mode:
        return [sentence]
    lacking = kept.keep(old, leave.to_keep(state, config), leave.fetcher(host))
    if not lacking:
        kept.prune(old)
        return [sentence]
    what = f"{', '.join(lacking[:6])}{' ...' if len(lacking) > 6 else ''}"
    if config["without_return"]:
        module.warn(f"nvidia_driver: there will be no way back to {old}: no source has {what} any more")
        return []
    module.fail_json(
        msg=f"nvidia_driver: no way back to driver {old}: neither apt's cache nor a source has {what}\n"
        "hint: nothing was changed. Give a mirror that still has it, or write software.upgrade_without_return: true"
    )
    raise AssertionError("not reached")


def _leave(module: AnsibleModule, host: Host) -> list[str]:
    services = leave.active(host)
    if module.check_mode:
        return [f"stop {name}" for name in services]
    left = leave.stop(host, services)
    if left:
        lines = [f"nvidia_driver: {text}" for text in left]
        module.fail_json(msg="\n".join([*lines, "hint: no package was changed; systemctl status says more"]))
    leave.unload(host)
    return [f"stop {name}" for name in services]


if __name__ == "__main__":
    main()

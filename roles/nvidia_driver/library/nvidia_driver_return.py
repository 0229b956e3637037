#!/usr/bin/python
"""Brings back the set of packages that was kept before the last change of the driver, without any source."""

from __future__ import annotations

DOCUMENTATION = """
module: nvidia_driver_return
short_description: back to the NVIDIA driver before the last change
description:
  - Installs the files below /var/cache/llmhw/packages, each compared with its digest first. No package source is asked.
  - Stops the services that use the driver and unloads its module where nothing else does. A run that was cut off is
    finished by the next one.
options:
  config: {description: the role's configuration, type: dict, required: true}
  pins: {description: patterns of the driver's names, type: list, elements: str, required: true}
  lock_timeout_s: {description: seconds to wait for another dpkg, type: int, default: 600}
author: llmhw-provision
"""

RETURN = """
version: {description: driver version that is in force then, type: str, returned: success}
changed_packages: {description: whether packages change or would, type: bool, returned: success}
actions: {description: what was done or would be done, type: list, elements: str, returned: success}
"""

import time
from collections.abc import Sequence

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.host_modules import files
from ansible.module_utils.nvidia_driver import back, kept, leave, render
from ansible.module_utils.nvidia_driver.back import Way
from ansible.module_utils.nvidia_driver.host import Host

_ENVIRONMENT = {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "config": {"type": "dict", "required": True},
            "pins": {"type": "list", "elements": "str", "required": True},
            "lock_timeout_s": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    host = Host(lambda words: module.run_command(list(words), environ_update=_ENVIRONMENT), "debian")
    there = host.packages()
    now = back.current(there)
    way = back.choose(kept.sets(), there)
    if way is None:
        module.fail_json(
            msg=f"nvidia_driver: no earlier set of packages is kept in {kept.ROOT}; driver {now or 'none'} stays\n"
            "hint: nothing was changed. A set is kept when apply changes the driver's version"
        )
    damaged = kept.damaged(way.kept)
    if damaged:
        module.fail_json(
            msg=f"nvidia_driver: kept files are missing or damaged in {way.kept.folder}: {', '.join(damaged[:6])}\n"
            f"hint: nothing was changed. Write software.driver: {way.kept.version} in site.yaml, plan and apply"
        )
    wanted = files.differing([files.File(render.PREFERENCES, render.preferences(way.kept.version, _pins(module)))])
    actions = [*back.sentences(way, now), *(sentence for _, sentence in wanted)]
    packages = bool(way.files or way.absent)
    if not module.check_mode:
        for file, _ in wanted:
            files.put(file)
        if packages:
            _go(module, host, way)
    module.exit_json(changed=bool(actions), version=way.kept.version, changed_packages=packages, actions=actions)


def _pins(module: AnsibleModule) -> list[str]:
    pins: list[str] = module.params["pins"]
    return pins


def _go(module: AnsibleModule, host: Host, way: Way) -> None:
    left = leave.stop(host, leave.active(host))
    if left:
        lines = [f"nvidia_driver: {text}" for text in left]
        module.fail_json(msg="\n".join([*lines, "hint: no package was changed; systemctl status says more"]))
    leave.unload(host)
    for command in back.commands(way):
        _dpkg(module, host, command, way)
    there = host.packages().values()
    unpacked = [item.full for item in there if item.state in ("unpacked", "half-configured")]
    if unpacked:
        words = ["dpkg", "--no-triggers", "--force-confdef", "--force-confold", "--configure", *unpacked]
        _dpkg(module, host, words, way)
    after = back.choose([way.kept], host.packages())
    if after and (after.files or after.absent):
        module.fail_json(msg=f"nvidia_driver: dpkg reports success, yet: {'; '.join(back.sentences(after, '')[1:])}")


def _dpkg(module: AnsibleModule, host: Host, command: Sequence[str], way: Way) -> None:
    """Runs dpkg, which itself does not wait for its lock."""
    end = time.monotonic() + module.params["lock_timeout_s"]
    while True:
        rc, out, err = host.run(command)
        if rc == 0:
            return
        if "lock" not in err or time.monotonic() > end:
            said = (err or out).strip()[-1500:]
            module.fail_json(msg=f"nvidia_driver: going back to {way.kept.version} failed: {said}")
        time.sleep(5)


if __name__ == "__main__":
    main()

#!/usr/bin/python
"""Installs Debian packages and puts their triggers off, so that the initramfs is not rebuilt at once."""

from __future__ import annotations

DOCUMENTATION = """
module: deferred_packages
short_description: Debian packages without an initramfs rebuild at once
description:
  - apt cannot do this. With --no-triggers it still runs them at its end, and told not to, it leaves the packages
    unconfigured. So apt unpacks, then dpkg --no-triggers configures by name. dpkg itself remembers the triggers that
    wait; the role initramfs runs them at the end, and so would any run of apt before that.
options:
  name: {description: packages, type: list, elements: str, required: true}
  lock_timeout_s: {description: seconds to wait for another apt, type: int, default: 600}
author: llmhw-provision
"""

RETURN = """
missing: {description: the packages that were not installed before, type: list, elements: str, returned: success}
"""

import os
import time

from ansible.module_utils.basic import AnsibleModule

# Configured; the latter two wait for triggers that were put off, their own or those of others.
_CONFIGURED = ("installed", "triggers-pending", "triggers-awaited")
# What apt ends with when the packages had come and dpkg could not go on: a second attempt would hide the cause.
_DPKG = "Sub-process /usr/bin/dpkg returned an error code"
_ENVIRONMENT = {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "list", "elements": "str", "required": True},
            "lock_timeout_s": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    wanted = module.params["name"]
    states = _states(module)
    missing = [name for name in wanted if states.get(name) not in _CONFIGURED]
    if missing and not module.check_mode:
        _install(module, missing)
        states = _states(module)
        left = [name for name in missing if states.get(name) not in _CONFIGURED]
        if left:
            module.fail_json(msg=f"apt reports success, yet these are not installed: {', '.join(left)}")
    module.exit_json(changed=bool(missing), missing=missing)


def _install(module: AnsibleModule, missing: list[str]) -> None:
    wait = f"DPkg::Lock::Timeout={module.params['lock_timeout_s']}"
    unpack = ["apt-get", "install", "--yes", "--no-install-recommends", "-o", wait, "-o", "Acquire::Retries=3"]
    unpack += ["-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"]
    unpack += ["-o", "DPkg::NoTriggers=true", "-o", "DPkg::ConfigurePending=false"]
    _replay(module)
    # Left half-way, a package counts for apt as installed in its newest version; in one command with others apt fails.
    broken = [name for name, state in _states(module).items() if state == "reinstreq"]
    rc, out, err = _run(module, [*unpack, "--reinstall", *broken]) if broken else (0, "", "")
    unpack += missing
    if rc == 0:
        rc, out, err = _run(module, unpack)
    if rc != 0 and _DPKG not in err:  # lists that are missing or name versions gone from the mirror
        _run(module, ["apt-get", "update", "-o", wait, "-o", "Acquire::Retries=3"])
        rc, out, err = _run(module, unpack)
    if rc != 0:
        module.fail_json(msg=f"apt-get install {' '.join(missing)} failed: {_said(out, err)}")
    unpacked = [name for name, state in _states(module).items() if state in ("unpacked", "half-configured")]
    end = time.monotonic() + module.params["lock_timeout_s"]
    while unpacked:
        rc, out, err = _run(
            module, ["dpkg", "--no-triggers", "--force-confdef", "--force-confold", "--configure", *unpacked]
        )
        if rc == 0:
            return
        if "lock" not in err or time.monotonic() > end:
            module.fail_json(msg=f"dpkg --configure failed: {_said(out, err)}")
        time.sleep(5)


def _said(out: str, err: str) -> str:
    """What went wrong; under apt, dpkg says it on standard output, over several lines."""
    lines = [line.strip() for line in out.splitlines()]
    first = next((at for at, line in enumerate(lines) if line.startswith(("dpkg:", "dpkg-deb:"))), len(lines))
    return "\n".join([*lines[first : first + 12], err.strip() or out.strip()[-800:]])


def _replay(module: AnsibleModule) -> None:
    """Lets dpkg take in the journal of a dpkg that was cut off; until then apt refuses everything.

    Every write access to the database does that. `--configure --pending`, which apt advises, would run the triggers.
    """
    if any(name.isdigit() for name in os.listdir("/var/lib/dpkg/updates")):
        module.run_command(["dpkg", "--set-selections"], data="", environ_update=_ENVIRONMENT)


def _states(module: AnsibleModule) -> dict[str, str]:
    """Package to state, of all packages dpkg knows; `reinstreq` where dpkg asks for a new installation."""
    fields = "${Package} ${db:Status-Status} ${db:Status-Eflag}\\n"
    _, out, _ = _run(module, ["dpkg-query", "--show", "--showformat", fields])
    found = (line.split(" ") for line in out.splitlines())
    return {name: flag if flag == "reinstreq" else state for name, state, flag in found}


def _run(module: AnsibleModule, command: list[str]) -> tuple[int, str, str]:
    rc, out, err = module.run_command(command, environ_update=_ENVIRONMENT)
    return rc, out, err


if __name__ == "__main__":
    main()

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
  - An entry NAME=VERSION is there only in that version; epoch and Debian revision may be left out. For such entries
    apt may go back and may change what is on hold, after a simulation has shown that nothing else on hold is touched.
options:
  name: {description: packages, as NAME or NAME=VERSION, type: list, elements: str, required: true}
  first_of: {description: names of which the first that is offered is installed, type: list, elements: str, default: []}
  absent: {description: packages that are removed with the same command, type: list, elements: str, default: []}
  hold: {description: patterns; installed packages that match are put on hold, type: list, elements: str, default: []}
  keep: {description: patterns of packages that may not come or change, type: list, elements: str, default: []}
  lock_timeout_s: {description: seconds to wait for another apt, type: int, default: 600}
author: llmhw-provision
"""

RETURN = """
missing: {description: the packages that were not there before as asked, type: list, elements: str, returned: success}
held: {description: the packages that were put on hold, type: list, elements: str, returned: success}
installed: {description: package to its full version, of the asked ones, type: dict, returned: success}
"""

import os
import time
from typing import NamedTuple

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.host_modules import exact_versions
from ansible.module_utils.host_modules.exact_versions import Wanted

# Configured; the latter two wait for triggers that were put off, their own or those of others.
_CONFIGURED = ("installed", "triggers-pending", "triggers-awaited")
# What apt ends with when the packages had come and dpkg could not go on: a second attempt would hide the cause.
_DPKG = "Sub-process /usr/bin/dpkg returned an error code"
_ENVIRONMENT = {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
_CONFFILES = ["--force-confdef", "--force-confold"]


class Package(NamedTuple):
    """What dpkg knows of a package; the state is `reinstreq` where dpkg asks for a new installation."""

    state: str
    held: bool
    version: str


def main() -> None:
    strings = {"type": "list", "elements": "str"}
    module = AnsibleModule(
        argument_spec={
            "name": {**strings, "required": True},
            "first_of": {**strings, "default": []},
            "absent": {**strings, "default": []},
            "hold": {**strings, "default": []},
            "keep": {**strings, "default": []},
            "lock_timeout_s": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    wanted = [exact_versions.wanted(entry) for entry in module.params["name"]]
    packages = _packages(module)
    wanted += _first(module, packages)
    missing = [item for item in wanted if not _there(item, packages)]
    gone = [name for name in module.params["absent"] if _stays(name, packages)]
    if (missing or gone) and not module.check_mode:
        _install(module, missing, gone, packages)
        packages = _packages(module)
        left = [item.asked for item in missing if not _there(item, packages)]
        if left:
            module.fail_json(msg=f"apt reports success, yet these are not installed: {', '.join(left)}")
        stayed = [name for name in gone if _stays(name, packages)]
        if stayed:
            module.fail_json(msg=f"apt reports success, yet these are still there: {', '.join(stayed)}")
    held = _hold(module, packages)
    there = {item.name: packages[item.name].version for item in wanted if _there(item, packages)}
    asked = [item.asked for item in missing]
    module.exit_json(changed=bool(missing or gone or held), missing=asked, held=held, installed=there)


def _first(module: AnsibleModule, packages: dict[str, Package]) -> list[Wanted]:
    """The first name that is there or offered; none, with a warning, where none is."""
    names = [exact_versions.wanted(entry) for entry in module.params["first_of"]]
    there = [item for item in names if _there(item, packages)]
    if not names or there:
        return there[:1]
    offered = exact_versions.offered(_run(module, ["apt-cache", "policy", *(item.name for item in names)])[1])
    found = [item for item in names if any(priority >= 0 for _, priority in offered.get(item.name, ()))]
    if not found and not module.check_mode:
        module.warn(f"no package source offers {' or '.join(item.name for item in names)}: left out")
    return found[:1]


def _there(item: Wanted, packages: dict[str, Package]) -> bool:
    found = packages.get(item.name)
    return found is not None and found.state in _CONFIGURED and exact_versions.meant(item.version, found.version)


def _stays(name: str, packages: dict[str, Package]) -> bool:
    return name in packages and packages[name].state not in ("not-installed", "config-files")


def _install(module: AnsibleModule, missing: list[Wanted], gone: list[str], packages: dict[str, Package]) -> None:
    wait = f"DPkg::Lock::Timeout={module.params['lock_timeout_s']}"
    unpack = ["apt-get", "install", "--yes", "--no-install-recommends", "-o", wait, "-o", "Acquire::Retries=3"]
    unpack += [word for flag in _CONFFILES for word in ("-o", f"Dpkg::Options::={flag}")]
    unpack += ["-o", "DPkg::NoTriggers=true", "-o", "DPkg::ConfigurePending=false"]
    unpack += (
        ["--allow-downgrades", "--allow-change-held-packages"] if gone or any(item.version for item in missing) else []
    )
    update = ["apt-get", "update", "-o", wait, "-o", "Acquire::Retries=3"]
    _replay(module)
    # Left half-way, a package counts for apt as installed in its newest version; in one command with others apt fails.
    broken = [name for name, found in _packages(module).items() if found.state == "reinstreq"]
    rc, out, err = _run(module, [*unpack, "--reinstall", *broken]) if broken else (0, "", "")
    without = [f"{name}-" for name in gone]
    names = _exact(module, missing) or (missing and _run(module, update) and _exact(module, missing, final=True)) or []
    _simulate(module, [*unpack, *names, *without], packages)
    if rc == 0:
        rc, out, err = _run(module, [*unpack, *names, *without])
    if rc != 0 and _DPKG not in err:  # lists that are missing or name versions gone from the mirror
        _run(module, update)
        names = _exact(module, missing, final=True)
        _simulate(module, [*unpack, *names, *without], packages)
        rc, out, err = _run(module, [*unpack, *names, *without])
    if rc != 0:
        module.fail_json(msg=f"apt-get install {' '.join(names)} failed: {_said(out, err)}")
    unpacked = [name for name, found in _packages(module).items() if found.state in ("unpacked", "half-configured")]
    if unpacked:
        _dpkg(module, "dpkg --configure", ["dpkg", "--no-triggers", *_CONFFILES, "--configure", *unpacked])


def _exact(module: AnsibleModule, missing: list[Wanted], *, final: bool = False) -> list[str]:
    """`missing` as apt's command line names it; empty where a version is not offered, which ends the `final` try."""
    exact = [item.name for item in missing if item.version]
    offered = exact_versions.offered(_run(module, ["apt-cache", "policy", *exact])[1]) if exact else {}
    found = [(item, exact_versions.choose(item, offered.get(item.name, ()))) for item in missing]
    absent = [exact_versions.refusal(item, offered.get(item.name, ())) for item, name in found if name is None]
    if absent and final:
        hint = "the plan names what its catalogue has seen; look with apt-cache policy what the package source offers"
        module.fail_json(msg="\n".join([*absent, f"hint: {hint}"]))
    return [] if absent else [name for _, name in found if name is not None]


def _simulate(module: AnsibleModule, command: list[str], packages: dict[str, Package]) -> None:
    """Ends the module when the command would touch what is to stay as it is; what apt cannot do it says later."""
    if not module.params["keep"] and "--allow-change-held-packages" not in command:
        return
    _, out, _ = _run(module, [*command, "--simulate"])
    held = [name for name, found in packages.items() if found.held]
    own = [*module.params["hold"], *module.params["absent"]]
    own += [exact_versions.wanted(entry).name for entry in module.params["name"]]
    refused = exact_versions.forbidden(exact_versions.changes(out), held, own, module.params["keep"])
    if refused:
        module.fail_json(msg="\n".join([*(f"apt {text}" for text in refused), "hint: nothing was changed."]))


def _hold(module: AnsibleModule, packages: dict[str, Package]) -> list[str]:
    """Puts on hold what is installed, matches and is not yet; the names."""
    free = [name for name, found in packages.items() if found.state in _CONFIGURED and not found.held]
    names = exact_versions.matching(free, module.params["hold"])
    if names and not module.check_mode:
        _dpkg(module, "apt-mark hold", ["apt-mark", "hold", *names])
        after = _packages(module)
        left = [name for name in names if not after[name].held]
        if left:
            module.fail_json(msg=f"apt-mark reports success, yet these are not on hold: {', '.join(left)}")
    return names


def _dpkg(module: AnsibleModule, what: str, command: list[str]) -> None:
    """Runs what needs dpkg's lock, for which dpkg itself does not wait."""
    end = time.monotonic() + module.params["lock_timeout_s"]
    while True:
        rc, out, err = _run(module, command)
        if rc == 0:
            return
        if "lock" not in err or time.monotonic() > end:
            module.fail_json(msg=f"{what} failed: {_said(out, err)}")
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


def _packages(module: AnsibleModule) -> dict[str, Package]:
    """All packages that dpkg knows."""
    fields = "${Package} ${db:Status-Want} ${db:Status-Status} ${db:Status-Eflag} ${Version}\\n"
    _, out, _ = _run(module, ["dpkg-query", "--show", "--showformat", fields])
    found = (line.split(" ") for line in out.splitlines())
    return {
        name: Package(flag if flag == "reinstreq" else state, want == "hold", version)
        for name, want, state, flag, version in found
    }


def _run(module: AnsibleModule, command: list[str]) -> tuple[int, str, str]:
    rc, out, err = module.run_command(command, environ_update=_ENVIRONMENT)
    return rc, out, err


if __name__ == "__main__":
    main()

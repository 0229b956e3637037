#!/usr/bin/python
"""After the packages: module built for the kernels that boot, files, holds, loaded, services, reason for a restart."""

from __future__ import annotations

DOCUMENTATION = """
module: nvidia_driver_settle
short_description: the NVIDIA driver is in force, or says why not
description:
  - Reads back what is installed; a package manager's success proves nothing. A build that failed behind it makes the
    module fail with the compiler's line.
  - Other drivers are shut out only once a module for the kernels that boot is on disk.
  - Every step follows from the machine's state, so that a run that died is finished by the next one.
options:
  config: {description: the role's configuration, type: dict, required: true}
  family: {description: family of the system, type: str, choices: [debian, redhat], required: true}
  version: {description: driver version that must be in force, type: str, required: true}
  coming: {description: check mode, packages would change before, type: bool, default: false}
  only_explain: {description: only say why the installation failed, and fail, type: bool, default: false}
  failure: {description: what the package manager said, type: str, default: ''}
author: llmhw-provision
"""

RETURN = """
actions: {description: what was done or would be done, type: list, elements: str, returned: success}
pending: {description: files that an initramfs carries and that check mode would write, type: dict, returned: success}
"""

import os
from collections.abc import Sequence

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.host_modules import files, initramfs
from ansible.module_utils.nvidia_driver import dnf, render, settle
from ansible.module_utils.nvidia_driver.host import Host, State
from ansible.module_utils.nvidia_driver.settle import Step

_ENVIRONMENT = {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
_REASON = "nvidia_driver"
_ROUNDS = 6  # of triggers that set off others; Debian's take four


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "config": {"type": "dict", "required": True},
            "family": {"type": "str", "choices": ["debian", "redhat"], "required": True},
            "version": {"type": "str", "required": True},
            "coming": {"type": "bool", "default": False},
            "only_explain": {"type": "bool", "default": False},
            "failure": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    host = Host(lambda words: module.run_command(list(words), environ_update=_ENVIRONMENT), module.params["family"])
    state = host.state()
    if module.params["only_explain"]:
        _explain(module, host, state)
    if module.check_mode and module.params["coming"]:
        _foresee(module, state)
    _faults(module, settle.faults(state, module.params["config"], module.params["version"]))
    actions = [*_build(module, host, state), *_link(module, host)]
    state = host.state()
    actions += _files(module, host, state)
    actions += _hold(module, host, state)
    actions += _services(module, host, state)
    actions += _reboot(module, host)
    module.exit_json(changed=bool(actions), actions=actions, pending=_pending(module, host, state))


def _explain(module: AnsibleModule, host: Host, state: State) -> None:
    """The package manager has failed: a build's compiler line says more than dpkg's last words."""
    version = module.params["version"]
    missing = [step.target for step in settle.build_steps(state, version)]
    causes = [settle.build_failure(host, release, version) for release in missing]
    causes = [cause for cause in causes if "was not built" in cause]
    words = module.params["failure"].strip()
    if not causes:
        module.fail_json(msg=words)
    first = words.splitlines()[0] if words else ""
    _faults(module, [*causes, *([first] if first else [])])


def _faults(module: AnsibleModule, found: Sequence[str]) -> None:
    if found:
        lines = [f"nvidia_driver: {text}" for text in found[:12]]
        module.fail_json(msg="\n".join([*lines, "hint: see runbook gpu-driver; the next apply goes on from here"]))


def _foresee(module: AnsibleModule, state: State) -> None:
    """Check mode before the packages are there: what is known to follow."""
    config = module.params["config"]
    wanted = render.kernel_files(render.modules(config["board"], config["modules_load"])) if state.boots else []
    actions = [sentence for _, sentence in files.differing(wanted)]
    actions += ["hold the driver's packages and the kernel's"]
    names = [settle.PERSISTENCED, *([settle.FABRIC_MANAGER] if config["board"] != "none" else [])]
    actions += [f"enable {name}" for name in names]
    pending = {render.BLACKLIST: wanted[0].text} if wanted else {}
    module.exit_json(changed=True, actions=actions, pending=pending)


def _build(module: AnsibleModule, host: Host, state: State) -> list[str]:
    version, todo = module.params["version"], settle.build_steps(state, module.params["version"])
    if not module.check_mode:
        _faults(module, [why for step in todo for why in [settle.build(host, step.target, version)] if why])
    return settle.sentences(todo)


def _link(module: AnsibleModule, host: Host) -> list[str]:
    """Runs the triggers that link the driver into place, and those that they set off; the initramfs' stay put off."""
    done: list[Step] = []
    todo = settle.trigger_steps(host.state()) if host.family == "debian" else []
    for _ in range(_ROUNDS if not module.check_mode else 0):
        if not todo:
            break
        _must(module, host, ["dpkg", "--no-triggers", "--triggers-only", *(step.target for step in todo)])
        done += todo
        todo = settle.trigger_steps(host.state())
    return settle.sentences(list(dict.fromkeys([*done, *todo])))


def _files(module: AnsibleModule, host: Host, state: State) -> list[str]:
    differing = files.differing(settle.wanted_files(host, state, module.params["config"]))
    units = any(file.path.startswith("/etc/systemd/") for file, _ in differing)
    if not module.check_mode:
        for file, _ in differing:
            files.put(file)
        if units or _stale(host):
            _must(module, host, ["systemctl", "daemon-reload"])
    return [sentence for _, sentence in differing]


def _stale(host: Host) -> bool:
    names = [f"{name}.service" for name in (settle.PERSISTENCED, settle.FABRIC_MANAGER)]
    return "yes" in host.run(["systemctl", "show", "--property=NeedDaemonReload", "--value", *names])[1].split()


def _hold(module: AnsibleModule, host: Host, state: State) -> list[str]:
    config = module.params["config"]
    if host.family == "redhat":
        listed = host.run(["dnf", "--quiet", "versionlock", "list"])[1]
        todo = dnf.locks(state.there, [item["name"] for item in config["packages"]], listed)
        for command in todo if not module.check_mode else []:
            _must(module, host, command)
        return [" ".join(command) for command in todo]
    steps = settle.hold_steps(state, config)
    if steps and not module.check_mode:
        text = "".join(f"{step.target} hold\n" for step in steps)
        rc, out, err = module.run_command(["dpkg", "--set-selections"], data=text, environ_update=_ENVIRONMENT)
        left = settle.hold_steps(host.state(), config)
        if rc != 0 or left:
            names = ", ".join(step.target for step in left)
            module.fail_json(msg=f"nvidia_driver: not held: {names}: {(err or out).strip()}")
    return settle.sentences(steps)


def _services(module: AnsibleModule, host: Host, state: State) -> list[str]:
    config, version = module.params["config"], module.params["version"]
    fault = settle.starter_fault(host, config)
    if fault and not module.check_mode:
        _faults(module, [fault])
    steps = [*settle.load_steps(state, version), *settle.service_steps(host, state, config, version)]
    if not module.check_mode:
        for step in steps:
            _carry_out(module, host, step)
    return settle.sentences(steps)


def _carry_out(module: AnsibleModule, host: Host, step: Step) -> None:
    if step.kind == "load":
        config = module.params["config"]
        for name in render.modules(config["board"], config["modules_load"]):
            _must(module, host, ["modprobe", name])
    elif step.kind == "disable":
        _must(module, host, ["systemctl", "disable", "--now", f"{step.target}.service"])
    else:
        _must(module, host, ["systemctl", step.kind, f"{step.target}.service"])


def _must(module: AnsibleModule, host: Host, command: Sequence[str]) -> None:
    rc, out, err = host.run(command)
    if rc != 0:
        said = (err or out).strip()
        journal = ""
        if command[:2] == ["systemctl", "start"]:
            journal = host.run(["journalctl", "--unit", command[2], "--lines", "5", "--output", "cat"])[1].strip()
        module.fail_json(msg=f"nvidia_driver: {' '.join(command)} failed: {said}\n{journal}".strip())


def _reboot(module: AnsibleModule, host: Host) -> list[str]:
    """Leaves the reasons for a restart, or takes back one that is gone; what the driver itself then says of GPUs."""
    state = host.state()
    fault = settle.gpu_fault(host, module.params["config"], state.loaded)
    if fault:
        module.warn(f"nvidia_driver: {fault}")
    reasons = "; ".join(settle.reboot_reasons(state, module.params["version"]))
    path = os.path.join(initramfs.REBOOT_REASONS, _REASON)
    if module.check_mode:
        return []
    if reasons:
        initramfs.want_reboot(_REASON, reasons)
    elif os.path.exists(path):
        os.unlink(path)
    return []


def _pending(module: AnsibleModule, host: Host, state: State) -> dict[str, object]:
    if not module.check_mode:
        return {}
    wanted = settle.wanted_files(host, state, module.params["config"])
    return {file.path: file.text for file, _ in files.differing(wanted) if file.path == render.BLACKLIST}


if __name__ == "__main__":
    main()

#!/usr/bin/python
"""Which CUDA toolkit programs find, and that each toolkit is there; packages are installed beforehand."""

from __future__ import annotations

DOCUMENTATION = """
module: cuda_toolkit
short_description: the toolkit that programs find, and its environment
description:
  - Refuses a /usr/local/cuda that is a folder, as runfile installers leave it. Nothing is changed then.
  - Chooses the alternative by hand, so that a further toolkit does not take it over; writes the environment.
  - Reads back which release each compiler reports.
  - In check mode nothing is changed; C(actions) lists what would be done, in the same words.
options:
  config: {description: the role's configuration, type: dict, required: true}
  refuse_only: {description: only look and refuse, type: bool, default: false}
author: llmhw-provision
"""

RETURN = """
actions: {description: what was done or would be done, type: list, elements: str, returned: success}
releases: {description: folder to the release that its nvcc reports, type: dict, returned: success}
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.cuda import render
from ansible.module_utils.host_modules.files import differing, put, read

_GROUP, _LINK = "cuda", "/etc/alternatives/cuda"
_ADMIN = ("/var/lib/dpkg/alternatives", "/var/lib/alternatives")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "config": {"type": "dict", "required": True},
            "refuse_only": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    config = module.params["config"]
    home = config["home"]
    if config["alternatives"] and os.path.exists(home) and not os.path.islink(home):
        text = f"{home} is a folder of its own, where update-alternatives keeps a link"
        hint = "a runfile installer leaves that: move the folder away; nothing was changed"
        module.fail_json(msg=f"{text}\nhint: {hint}")
    if module.params["refuse_only"]:
        module.exit_json(changed=False, actions=[], releases={})
    target = next(item["home"] for item in config["toolkits"] if item["version"] == config["default"])
    links = [f"let {home} lead to {target}"] if config["alternatives"] and not _leads(home, target) else []
    todo = differing(render.files(home, config.get("compiler")))
    releases = {} if module.check_mode else _releases(module)
    if not module.check_mode:
        if links:
            _choose(module, home, target)
        for file, _ in todo:
            put(file)
    actions = links + [text for _, text in todo]
    module.exit_json(changed=bool(actions), actions=actions, releases=releases)


def _leads(home: str, target: str) -> bool:
    """Whether the link leads there, by way of the alternative, and somebody has chosen so."""
    state = next((text for text in (read(f"{folder}/{_GROUP}") for folder in _ADMIN) if text), "")
    ends = [os.readlink(path) if os.path.islink(path) else "" for path in (home, _LINK)]
    return ends == [_LINK, target] and render.manual(state)


def _choose(module: AnsibleModule, home: str, target: str) -> None:
    """--install does no harm where the packages have registered the toolkit already: it keeps its priority."""
    states = [read(f"{folder}/{_GROUP}") for folder in _ADMIN]
    if not any(target in state.splitlines() for state in states):
        _run(module, ["update-alternatives", "--install", home, _GROUP, target, "100"])
    _run(module, ["update-alternatives", "--set", _GROUP, target])
    if not _leads(home, target):
        module.fail_json(msg=f"update-alternatives reports success, yet {home} does not lead to {target}")


def _releases(module: AnsibleModule) -> dict[str, str]:
    """What each compiler reports; ends the module where one is missing or another."""
    found, wrong = {}, []
    for item in module.params["config"]["toolkits"]:
        nvcc = f"{item['home']}/bin/nvcc"
        if not os.path.exists(nvcc):
            wrong.append(f"CUDA {item['version']}: no {nvcc}, though its packages are installed")
            continue
        _, out, err = module.run_command([nvcc, "--version"], environ_update={"LC_ALL": "C"})
        found[item["home"]] = render.release(out)
        if found[item["home"]] != item["version"]:
            said = found[item["home"]] or (out + err).strip()[-300:] or "nothing"
            wrong.append(f"CUDA {item['version']}: {nvcc} reports {said}")
    if wrong:
        module.fail_json(msg="\n".join([*wrong, "hint: dpkg --verify on the toolkit's packages shows what is missing"]))
    return found


def _run(module: AnsibleModule, command: list[str]) -> None:
    rc, out, err = module.run_command(command, environ_update={"LC_ALL": "C"})
    if rc != 0:
        module.fail_json(msg=f"{' '.join(command[:2])} failed: {(err or out).strip()[-600:]}")


if __name__ == "__main__":
    main()

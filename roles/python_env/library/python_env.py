#!/usr/bin/python
"""Keeps Python environments: each in a folder of its own from a hash-checked lock, and a link that is switched."""

from __future__ import annotations

DOCUMENTATION = """
module: python_env
short_description: Python environments from locks, switched by a link
description:
  - An environment is built in a folder named after the digest of its lock, checked (packages against the lock, pip
    check, imports, one CUDA major), and only then does the link ROOT/envs/NAME lead to it, by one rename. The one
    before stays, as NAME.previous. A run that dies leaves the old one in use; the next one finishes.
  - Refuses, with every reason and before anything is installed, a lock that is not the planned one, packages of two
    CUDA majors, and a folder of wheels that lacks one or holds one with another hash.
  - In check mode nothing is changed; C(actions) lists what would be done, in the same words.
options:
  config: {description: the role's configuration, type: dict, required: true}
  locks: {description: texts of the locks by name, type: dict, required: true}
author: llmhw-provision
"""

EXAMPLES = """
- name: Keep the environments
  python_env:
    config: "{{ python_env_config }}"
    locks: {train-lf: "{{ lookup('ansible.builtin.file', 'train-lf.txt', rstrip=false) }}"}
"""

RETURN = """
actions: {description: what was done or would be done, type: list, elements: str, returned: success}
environments:
  description: by name the folder, its files, how many of them are hard links to the cache, and its bytes.
  type: dict
  returned: success
refusals: {description: the reasons not to act, type: list, elements: str, returned: failure}
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.python_env import decide, fetch, installed
from ansible.module_utils.python_env.decide import Environment, State, Step
from ansible.module_utils.python_env.locks import cuda_majors, cuda_refusals, file_pin, house_refusals, parse
from ansible.module_utils.python_env.work import Failure, Host, foreign, in_use

_HASH = re.compile(r"Hash mismatch for `([^`]+)`.*?Computed:\s*(?:sha256:)?([0-9a-f]{64})", re.DOTALL)
_ABSENT = re.compile(r"[Bb]ecause (\S+) was not found in the provided package locations")


def main() -> None:
    module = AnsibleModule(
        argument_spec={"config": {"type": "dict", "required": True}, "locks": {"type": "dict", "required": True}},
        supports_check_mode=True,
    )
    os.umask(0o022)
    config: dict[str, Any] = module.params["config"]
    wanted, refused = _wanted(config, module.params["locks"])
    module.params["locks"] = sorted(module.params["locks"])  # their texts are not to be repeated in every answer
    if refused:
        _refuse(module, refused)

    def run(words: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str, str]:
        rc, out, err = module.run_command(list(words), environ_update=dict(environment), cwd="/")
        return rc, out, err

    host = Host(config, run)
    state = host.state(wanted)
    todo = _steps(config, wanted, state)
    refused = decide.refusals(wanted, state) + _house(config, wanted, todo)
    refused += [
        text for path in dict.fromkeys((host.links, config["store"], config["cache"])) for text in foreign(path)
    ]
    if refused:
        _refuse(module, refused)
    if todo and not module.check_mode:
        _act(module, host, todo, wanted)
        left = _steps(config, wanted, host.state(wanted))
        if left:
            module.fail_json(msg=f"python_env: done, yet without effect: {'; '.join(step.sentence for step in left)}")
    module.exit_json(
        changed=bool(todo),
        actions=[step.sentence for step in todo],
        environments={} if module.check_mode else {item.name: _facts(host, item) for item in wanted},
    )


def _wanted(config: Mapping[str, Any], texts: Mapping[str, str]) -> tuple[list[Environment], list[str]]:
    """The environments, and why some of them cannot be."""
    found, refused = [], []
    for item in config["environments"]:
        try:
            lock = parse(texts[item["lock"]])
        except (KeyError, ValueError) as error:
            refused.append(f"lock {item['lock']}: {error}")
            continue
        if lock.sha256 != item["sha256"]:
            refused.append(f"lock {item['lock']}: SHA-256 {lock.sha256}, planned is {item['sha256']}; plan again")
        refused += cuda_refusals(item["name"], item["cuda"], cuda_majors(str(pin) for pin in lock.pins.values()))
        environment = Environment(
            name=item["name"],
            folder=os.path.join(config["store"], decide.folder_name(lock.sha256, item["interpreter"])),
            lock=lock,
            interpreter=item["interpreter"],
            cuda=item["cuda"],
            built=tuple(item["build_after"]),
            imports=tuple(item["imports"]),
            accepts=tuple(item["accepts"]),
            back=item["use"] == "previous",
        )
        found.append(environment)
    return found, refused


def _steps(config: Mapping[str, Any], wanted: Sequence[Environment], state: State) -> list[Step]:
    sources = {item["version"]: item["source"] for item in config["interpreters"]}
    packaged = [version for version, source in sources.items() if source == "distribution"]
    steps = decide.steps(wanted, state, uv=config["uv"]["version"], interpreters=sources, packaged=packaged)
    return [step for step in steps if step.kind != "remove" or not in_use(step.target)]


def _house(config: Mapping[str, Any], wanted: Sequence[Environment], todo: Sequence[Step]) -> list[str]:
    """What is wrong with the folder of wheels for what is to be installed; nothing is hashed that is not needed."""
    house = config.get("wheels")
    names = {step.environment for step in todo if step.kind in ("build", "repair")}
    if not house or not (names or any(step.kind == "uv" for step in todo)):
        return []
    folder = house["path"]
    if not os.path.isdir(folder):
        return [f"{folder}: no such folder of wheels on this host"]
    files = [name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name))]
    refused = []
    if house["only"] and any(step.kind == "uv" for step in todo) and config["uv"]["wheel"] not in files:
        refused.append(f"{folder}: lacks {config['uv']['wheel']}")
    for item in wanted:
        if item.name in names:
            pins = item.lock.pins.values()
            needed = {(pin.name, pin.version) for pin in pins}
            hashed = {name: fetch.sha256(os.path.join(folder, name)) for name in files if file_pin(name) in needed}
            refused += house_refusals(pins, hashed, folder=folder, built=item.built, complete=house["only"])
    return list(dict.fromkeys(refused))


def _act(module: AnsibleModule, host: Host, todo: Sequence[Step], wanted: Sequence[Environment]) -> None:
    by_name = {item.name: item for item in wanted}
    done: list[str] = []
    for step in todo:
        module.log(f"python_env: {step.sentence}")
        try:
            host.carry_out(step, by_name)
        except (Failure, OSError) as failure:
            before = f"done before that: {'; '.join(done)}" if done else "nothing else was changed"
            kept = "the environments in use are the ones from before"
            module.fail_json(
                msg=f"python_env: {_plain(str(failure))}\nhint: {kept}; {before}.", actions=done, changed=bool(done)
            )
        done.append(step.sentence)


def _plain(text: str) -> str:
    """uv's explanation, with the package named first where it is about one."""
    wrong = _HASH.search(text)
    if wrong:
        return f"the file of {wrong[1]} has SHA-256 {wrong[2]}, which the lock does not allow; it was not installed"
    absent = _ABSENT.search(text)
    return f"{absent[1]} is not there\n{text}" if absent else text


def _facts(host: Host, item: Environment) -> dict[str, Any]:
    folder = os.path.realpath(os.path.join(host.links, item.name))
    files, links, size = installed.linked(folder)
    return {"folder": folder, "files": files, "linked": links, "bytes": size}


def _refuse(module: AnsibleModule, refused: Sequence[str]) -> None:
    lines = [f"python_env: {text}" for text in refused]
    module.fail_json(msg="\n".join([*lines, "hint: nothing was changed."]), refusals=list(refused))


if __name__ == "__main__":
    main()

"""What is to be done with uv, CPythons, environments and their links, from what is wanted and what is there. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

from ansible.module_utils.python_env.installed import Difference
from ansible.module_utils.python_env.locks import Lock

PREVIOUS = ".previous"


class Environment(NamedTuple):
    """One environment as it shall be; `folder` carries the digest of its lock and its CPython in its name."""

    name: str
    folder: str
    lock: Lock
    interpreter: str
    cuda: str
    built: tuple[str, ...]
    imports: tuple[str, ...]
    accepts: tuple[str, ...]
    back: bool


class Folder(NamedTuple):
    """An environment's folder as it is: finished once, its Python runs, and what differs from the lock."""

    finished: bool
    runs: bool
    differs: Difference

    @property
    def whole(self) -> bool:
        return self.finished and self.runs and not self.differs


class State(NamedTuple):
    """The host: uv of the planned version, CPythons by version that are there with headers, folders and links."""

    uv: bool
    interpreters: Mapping[str, bool]
    folders: Mapping[str, Optional[Folder]]  # noqa: UP045 - Python 3.9 evaluates the fields of a NamedTuple
    links: Mapping[str, str]
    kept: Sequence[str]  # every folder of the store


class Step(NamedTuple):
    """Something to do, in words."""

    kind: str
    sentence: str
    environment: str = ""
    target: str = ""
    previous: str = ""


def folder_name(lock_sha256: str, interpreter: str) -> str:
    """Name of an environment's folder: another lock or another CPython is another folder."""
    return f"{lock_sha256[:16]}-py{interpreter}"


def refusals(wanted: Sequence[Environment], state: State) -> list[str]:
    """Why nothing is done: no environment to go back to."""
    return [
        f"{item.name}: there is no earlier environment to go back to"
        for item in wanted
        if item.back and not state.links.get(item.name + PREVIOUS)
    ]


def steps(
    wanted: Sequence[Environment], state: State, *, uv: str, interpreters: Mapping[str, str], packaged: Sequence[str]
) -> list[Step]:
    """What is to be done, in order. `interpreters`: version to source; `packaged`: those of the distribution."""
    found = [] if state.uv else [Step("uv", f"install uv {uv}")]
    for version, source in interpreters.items():
        if not state.interpreters.get(version) and version not in packaged:
            found.append(Step("interpreter", f"install CPython {version} ({source})", target=version))
    built: set[str] = set()
    for item in wanted:
        if not item.back and item.folder not in built:
            built.add(item.folder)
            found += _install(item, state)
    for item in wanted:
        found += _switch(item, state)
    return found + _remove(wanted, state)


def _install(item: Environment, state: State) -> list[Step]:
    there, name = state.folders.get(item.folder), os.path.basename(item.folder)
    if there is None:
        text = f"install {item.name} ({len(item.lock.pins)} packages) into {name}"
        return [Step("build", text, item.name)]
    if there.whole:
        return []
    if item.folder not in state.links.values():  # nobody can have used it
        return [Step("build", f"install {item.name} into {name} anew: it was never finished", item.name)]
    why = there.differs.sentence() or ("its Python does not run" if not there.runs else "a repair was cut off")
    return [Step("repair", f"repair {item.name} in {name}: {why}", item.name)]


def _switch(item: Environment, state: State) -> list[Step]:
    current, before = state.links.get(item.name, ""), state.links.get(item.name + PREVIOUS, "")
    target = before if item.back else item.folder
    if current == target:
        return []
    # on the way back the environment that is left is that of the plan, which stays where it is
    previous = before if item.back or not current else current
    text = f"switch {item.name} to {os.path.basename(target)}"
    text += f" (before: {os.path.basename(current)})" if current else ""
    return [Step("switch", text, item.name, target, previous)]


def _remove(wanted: Sequence[Environment], state: State) -> list[Step]:
    """Folders that no link will lead to: all but the current and the previous of each environment."""
    links = dict(state.links)
    for item in wanted:
        for step in _switch(item, state):
            links[item.name] = step.target
            if step.previous:
                links[item.name + PREVIOUS] = step.previous
    led_to = {*links.values(), *(item.folder for item in wanted)}
    left = sorted(set(state.kept) - led_to)
    return [Step("remove", f"remove {os.path.basename(folder)}", target=folder) for folder in left]

"""Run a role, or a few tasks, in containers with ansible-playbook, and tell what each task did."""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.containers.container import Container
from tests.containers.identity import Identity
from tests.containers.machine import entering, kill_groups, remove_groups

_REPO = Path(__file__).resolve().parents[2]
_CALLBACKS = Path(__file__).resolve().parent / "callback"

Task = Mapping[str, Any]  # as in a playbook


class PlayFailed(AssertionError):
    """ansible-playbook ended with another status than 0."""


@dataclass(frozen=True)
class Event:
    """What one task did on one host; ``result`` is what the module returned."""

    host: str
    task: str
    action: str
    status: str  # ok changed skipped ignored failed unreachable
    result: Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """One run of ansible-playbook; ``stdout`` is its usual output."""

    status: int
    events: tuple[Event, ...]
    stdout: str
    stderr: str

    @property
    def changed(self) -> tuple[str, ...]:
        """``host: role : task`` of every task that changed something, or would in check mode."""
        return self._named("changed")

    @property
    def failed(self) -> tuple[str, ...]:
        """``host: task: message`` of every failure that was not ignored."""
        return tuple(
            f"{event.host}: {event.task}: {event.result.get('msg', '')}"
            for event in self.events
            if event.status in ("failed", "unreachable")
        )

    @property
    def stats(self) -> Mapping[str, Counter[str]]:
        """Per host, how many tasks ended in each status."""
        hosts: dict[str, Counter[str]] = {}
        for event in self.events:
            hosts.setdefault(event.host, Counter())[event.status] += 1
        return hosts

    def of(self, task: str) -> tuple[Event, ...]:
        """The events of the tasks whose name ends with ``task``, one per host."""
        return tuple(event for event in self.events if event.task.endswith(task))

    def _named(self, status: str) -> tuple[str, ...]:
        return tuple(f"{event.host}: {event.task}" for event in self.events if event.status == status)


def ansible(
    machines: Container | Sequence[Container],
    what: str | Sequence[Task],
    variables: Mapping[str, Any] | None = None,
    *,
    host_variables: Mapping[str, Mapping[str, Any]] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    arguments: Sequence[str] = (),
    facts: bool = True,
    check: bool = False,
    may_fail: bool = False,
    timeout: float = 900,
) -> Result:
    """Apply a role of this repository (its name) or a list of tasks to ``machines``.

    ``variables`` are inventory variables of all, ``host_variables`` of one by name, ``groups`` name its
    members; ``arguments`` go to ansible-playbook (``--tags x``). ``check`` adds ``--check --diff``.
    A run that fails raises PlayFailed with its output, unless ``may_fail``.
    """
    hosts = (machines,) if isinstance(machines, Container) else tuple(machines)
    play: dict[str, Any] = {"name": "test", "hosts": "all", "gather_facts": facts}
    play |= {"roles": [what]} if isinstance(what, str) else {"tasks": list(what)}
    inventory = _inventory(hosts, variables or {}, host_variables or {}, groups or {})
    identity = hosts[0].identity
    with tempfile.TemporaryDirectory(prefix="play-", dir=identity.folder) as name:
        folder = Path(name)
        (folder / "inventory.yml").write_text(json.dumps(inventory))
        (folder / "play.yml").write_text(json.dumps([play]))
        (folder / "ansible.cfg").write_text(_configuration(hosts[0].ssh_config, forks=len(hosts)))
        words = [sys.executable, "-m", "ansible", "playbook", "-i", "inventory.yml", "play.yml", *arguments]
        words += ["--check", "--diff"] if check else []
        done = _run(words, folder=folder, identity=identity, timeout=timeout)
        result = Result(done.returncode, _events(folder / "events"), done.stdout, done.stderr)
    if result.status != 0 and not may_fail:
        raise PlayFailed("\n".join((*result.failed, result.stdout[-6000:], result.stderr[-3000:])))
    return result


def _run(words: list[str], *, folder: Path, identity: Identity, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run ansible-playbook in a control group, so that its workers end with it when it is interrupted."""
    with subprocess.Popen(
        entering(identity, folder.name, words),
        cwd=folder,
        env=_environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            kill_groups(identity, folder.name)
            raise
    remove_groups(identity, folder.name)  # an ssh connection that it opened stays, and keeps the group
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def _inventory(
    hosts: Sequence[Container],
    variables: Mapping[str, Any],
    host_variables: Mapping[str, Mapping[str, Any]],
    groups: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    return {
        "all": {
            "hosts": {host.name: dict(host_variables.get(host.name, {})) for host in hosts},
            "vars": {"ansible_python_interpreter": "/usr/bin/python3", **variables},
            "children": {group: {"hosts": {member: {} for member in members}} for group, members in groups.items()},
        }
    }


def _configuration(ssh_config: Path, *, forks: int) -> str:
    return f"""[defaults]
roles_path = {_REPO / "roles"}
callback_plugins = {_CALLBACKS}
callbacks_enabled = llmhw_record
forks = {min(forks, 16)}
host_key_checking = True
retry_files_enabled = False
nocows = True
[ssh_connection]
pipelining = True
ssh_args = -F {ssh_config}
"""


def _environment(folder: Path) -> dict[str, str]:
    """This process's environment, without settings that would reach Ansible from outside."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTEST_"))}
    return kept | {
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_HOME": str(folder / "home"),
        "LLMHW_RECORD": str(folder / "events"),
        "LC_ALL": "C.UTF-8",
    }


def _events(path: Path) -> tuple[Event, ...]:
    if not path.is_file():
        return ()
    return tuple(Event(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines())

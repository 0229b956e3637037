"""The ansible-playbook command of a run: arguments, environment and a line that a person can copy."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from llmhw_provision.errors import InputError

_HERE = Path(__file__).resolve().parent
_KEPT_ANSIBLE = ("ANSIBLE_BECOME_PASSWORD_FILE", "ANSIBLE_VAULT_PASSWORD_FILE")
_MOST_FORKS = 50
_GIVEN = ("--become-password-file", "-")  # from standard input


@dataclass(frozen=True)
class Command:
    """One call of ansible-playbook; two equal commands do the same thing."""

    argv: tuple[str, ...]
    settings: Mapping[str, str] = field(repr=False)
    recording: Mapping[str, str] = field(repr=False)
    cwd: Path
    given: str = field(default="", repr=False)

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of the process: what is `inherited`, less every ANSIBLE_* setting, plus ours.

        The two settings that name a file with a password stay, since a person has no other way to hand it over.
        """
        kept = {key: value for key, value in inherited.items() if not _foreign(key)}
        path = f"{Path(self.argv[0]).parent}:{inherited.get('PATH', '/usr/bin:/bin')}"
        return kept | dict(self.settings) | dict(self.recording) | {"PATH": path}

    def line(self) -> str:
        """The shell line that does the same without us; holds no secret: what we hand over, it asks for."""
        settings = [f"{key}={shlex.quote(value)}" for key, value in self.settings.items()]
        argv = shlex.join(self.argv).replace(" ".join(_GIVEN), "--ask-become-pass")
        return f"cd {shlex.quote(str(self.cwd))} && " + " ".join([*settings, argv])


def _foreign(key: str) -> bool:
    return key.startswith("LLMHW_") or (key.startswith("ANSIBLE_") and key not in _KEPT_ANSIBLE)


@dataclass(frozen=True, kw_only=True)
class Recording:
    """Where one call leaves what it did."""

    events: Path
    log: Path
    scratch: Path


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What part of the work is wanted, and whether machines may be altered."""

    check: bool = False
    diff: bool = False
    limit: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    files: tuple[Path, ...] = ()

    def with_file(self, path: Path) -> Choice:
        """The same with the variables in the file at `path`."""
        return replace(self, files=(*self.files, path))


def build(
    playbook: Path,
    *,
    site: Path,
    content: Path,
    hosts: int,
    choice: Choice,
    recording: Recording,
    program: Path,
    password: str = "",
) -> Command:
    """The command that runs `playbook` over the inventory of `site` with the roles below `content`.

    sudo's `password` goes to standard input: no other process sees it there.
    """
    argv = [str(program), "-i", "inventory/hosts.yml"]
    argv += _GIVEN if password else []
    argv += ["--check"] if choice.check else []
    argv += ["--diff"] if choice.diff else []
    argv += ["--limit", ",".join(choice.limit)] if choice.limit else []
    argv += ["--tags", ",".join(choice.tags)] if choice.tags else []
    for name, value in choice.variables:
        argv += ["-e", f"{name}={value}"]
    for path in choice.files:
        argv += ["-e", f"@{path}"]
    return Command(
        argv=(*argv, str(playbook)),
        settings=_settings(content, hosts),
        recording=_recorded(recording),
        cwd=site,
        given=password,
    )


def _settings(content: Path, hosts: int) -> dict[str, str]:
    """Settings that decide what a run does; they are part of the copyable line."""
    return {
        "ANSIBLE_CONFIG": str(_HERE / "ansible.cfg"),
        "ANSIBLE_ROLES_PATH": str(content / "roles"),
        "ANSIBLE_INVENTORY_ENABLED": "ansible.builtin.yaml",
        "ANSIBLE_INVENTORY_UNPARSED_FAILED": "true",
        "ANSIBLE_HOST_KEY_CHECKING": "true",
        "ANSIBLE_PIPELINING": "true",
        "ANSIBLE_GATHERING": "smart",  # once per host and run: all plays ask for the same facts
        "ANSIBLE_FORKS": str(max(5, min(hosts, _MOST_FORKS))),
        "ANSIBLE_TIMEOUT": "20",
        "ANSIBLE_SSH_RETRIES": "3",
        "ANSIBLE_RETRY_FILES_ENABLED": "false",
        "ANSIBLE_NOCOWS": "1",
    }


def _recorded(recording: Recording) -> dict[str, str]:
    """Settings that only shape what is written down."""
    return {
        "ANSIBLE_STDOUT_CALLBACK": "default",
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml",
        "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "false",
        "ANSIBLE_CHECK_MODE_MARKERS": "true",
        "ANSIBLE_SHOW_TASK_PATH_ON_FAILURE": "true",
        "ANSIBLE_NOCOLOR": "true",
        "ANSIBLE_FORCE_COLOR": "false",
        "ANSIBLE_CALLBACK_PLUGINS": str(_HERE / "callback"),
        "ANSIBLE_CALLBACKS_ENABLED": "llmhw_events",
        "ANSIBLE_LOCAL_TEMP": str(recording.scratch),
        "LLMHW_EVENTS": str(recording.events),
        "LLMHW_LOG": str(recording.log),
        "PYTHONUNBUFFERED": "1",
        "LC_ALL": "C.UTF-8",
    }


def ansible_playbook() -> Path:
    """The ansible-playbook of the Python that runs us; raises InputError when it is not installed there."""
    found = Path(sys.executable).parent / "ansible-playbook"
    if not found.is_file():
        raise InputError(f"no ansible-playbook beside {sys.executable}", "install ansible-core in that environment")
    return found

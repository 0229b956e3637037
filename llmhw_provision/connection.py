"""The one ssh_config of a site, used alike by Ansible and by testinfra: one connection per host."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from llmhw_provision.documents import write_atomic
from llmhw_provision.errors import InputError
from llmhw_provision.site import Host, Jump, Site

CONNECT_TIMEOUT_S = 10
JUMP = "_jump"  # no host can have this name
# A connection that is silent for 150 s is given up: a cut of 90 s (a switch that restarts) is survived.
_ALIVE_S, _ALIVE_COUNT = 15, 10


def control_folder() -> Path:
    """Private folder of the control sockets; short, because a socket's path may have 108 bytes at most."""
    return Path(tempfile.gettempdir()) / f"llmhw-ssh-{os.getuid()}"


def ssh_config_path(folder: Path) -> Path:
    """Where the ssh_config of the site in `folder` lies."""
    return Path(os.path.abspath(folder)) / "ssh_config"  # noqa: PTH100 - resolve() would follow links


def known_hosts_path(folder: Path) -> Path:
    """Where the accepted host keys of the site in `folder` lie."""
    return Path(os.path.abspath(folder)) / "known_hosts"  # noqa: PTH100


def render_ssh_config(site: Site, folder: Path) -> str:
    """The ssh_config of `site`: every host under its own name, only the site's known_hosts trusted."""
    blocks = ["# written by llmhw-provision; changes are lost"]
    blocks += [_host(host, folder, jump=site.jump is not None) for host in site.hosts]
    if site.jump:
        blocks.append(_block(JUMP, site.jump, folder))
    blocks.append(_common(folder))
    return "\n\n".join(blocks) + "\n"


def _host(host: Host, folder: Path, *, jump: bool) -> str:
    return _block(host.name, host, folder) + (f"\n    ProxyJump {JUMP}" if jump else "")


def _block(name: str, machine: Host | Jump, folder: Path) -> str:
    lines = [
        f"Host {name}",
        f"    HostName {machine.address}",
        f"    Port {machine.port}",
        f"    User {machine.user}",
    ]
    if machine.identity_file:
        lines += [f"    IdentityFile {_quoted(identity_path(machine.identity_file, folder))}", "    IdentitiesOnly yes"]
    return "\n".join(lines)


def identity_path(name: str, folder: Path) -> Path:
    """Where the private key called `name` in the site.yaml of `folder` lies."""
    return Path(os.path.abspath(folder)) / Path(name).expanduser()  # noqa: PTH100


def _common(folder: Path) -> str:
    return "\n".join(
        [
            "Host *",
            f"    UserKnownHostsFile {_quoted(known_hosts_path(folder))}",
            "    GlobalKnownHostsFile /dev/null",
            "    StrictHostKeyChecking yes",
            "    UpdateHostKeys no",
            "    BatchMode yes",
            f"    ConnectTimeout {CONNECT_TIMEOUT_S}",
            f"    ServerAliveInterval {_ALIVE_S}",
            f"    ServerAliveCountMax {_ALIVE_COUNT}",
            "    ControlMaster auto",
            "    ControlPersist 120s",
            f'    ControlPath {_quoted(control_folder())[:-1]}/%C"',
            "    ForwardAgent no",
            "    ForwardX11 no",
            "    LogLevel ERROR",
        ]
    )


def _quoted(path: Path) -> str:
    text = str(path)
    if any(character in text for character in '"\n\r\\'):
        raise InputError(f"{text!r}: quotes, backslashes and line ends cannot stand in ssh_config", "move the site")
    return '"' + text.replace("%", "%%") + '"'


def write_ssh_config(site: Site, folder: Path) -> Path:
    """Path of the written ssh_config; makes the private folder for control sockets as well."""
    _private(control_folder())
    path = ssh_config_path(folder)
    write_atomic(path, render_ssh_config(site, folder), mode=0o644)
    return path


def _private(folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise InputError(
            f"{folder}: is not a private folder of this user (0700)",
            "someone else may have made it; remove it and run again",
        )

"""The one ssh_config of a site, used alike by Ansible and by testinfra: one connection per host."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from llmhw_provision.documents import write_atomic
from llmhw_provision.errors import InputError
from llmhw_provision.site import Host, Site

CONNECT_TIMEOUT_S = 10


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
    blocks += [_host(host, folder) for host in site.hosts]
    blocks.append(_common(folder))
    return "\n\n".join(blocks) + "\n"


def _host(host: Host, folder: Path) -> str:
    lines = [
        f"Host {host.name}",
        f"    HostName {host.address}",
        f"    Port {host.port}",
        f"    User {host.user}",
    ]
    if host.identity_file:
        key = Path(os.path.abspath(folder)) / Path(host.identity_file).expanduser()  # noqa: PTH100
        lines += [f"    IdentityFile {_quoted(key)}", "    IdentitiesOnly yes"]
    return "\n".join(lines)


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
            "    ServerAliveInterval 15",
            "    ServerAliveCountMax 4",
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

"""The first contact with a host: its key is shown and kept; a password lets our key in, once, and is forgotten."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from llmhw_provision.connection import CONNECT_TIMEOUT_S, JUMP, identity_path, known_hosts_path
from llmhw_provision.documents import write_atomic
from llmhw_provision.errors import InputError, MachineError
from llmhw_provision.site import Host

if TYPE_CHECKING:
    import paramiko

# The key comes on standard input. A file without a final newline must not swallow it.
_ADD_KEY = """umask 077
mkdir -p ~/.ssh && touch ~/.ssh/authorized_keys || exit 1
k=$(cat)
grep -qxF "$k" ~/.ssh/authorized_keys && exit 0
[ -z "$(tail -c1 ~/.ssh/authorized_keys)" ] || echo >>~/.ssh/authorized_keys
printf '%s\\n' "$k" >>~/.ssh/authorized_keys"""


def enrol(host: Host, folder: Path, *, confirm: Callable[[Host, str], bool], via: Path | None = None) -> bool:
    """Whether the key of `host` was fetched and accepted now; False when it was accepted before.

    A known host is not asked again: ssh itself refuses it when its key has changed. `confirm` is shown the type
    and SHA256 fingerprint of the key; when it says no, MachineError is raised and nothing is kept. `via` is the
    ssh_config that leads to the jump host.
    """
    path = known_hosts_path(folder)
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if known_key(host, folder) is not None:
        return False
    kind, key = fetch_key(host, via=via)
    if not confirm(host, f"{kind} {fingerprint(key)}"):
        raise MachineError(
            f"{host.name} ({host.address}): host key not accepted",
            "compare the fingerprint with the console: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub",
        )
    write_atomic(path, f"{text}{known_name(host)} {kind} {base64.b64encode(key).decode()}\n")
    return True


def known_key(host: Host, folder: Path) -> str | None:
    """Type and base64 of the accepted key of `host`; None when none was."""
    path, name = known_hosts_path(folder), known_name(host)
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        names, _, key = line.partition(" ")
        if name in names.split(","):
            return key
    return None


def known_name(host: Host) -> str:
    """The name under which ssh looks the host's key up."""
    return host.address if host.port == 22 else f"[{host.address}]:{host.port}"


def fingerprint(key: bytes) -> str:
    """SHA256 fingerprint as ssh prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def fetch_key(host: Host, *, via: Path | None = None) -> tuple[str, bytes]:
    """Type and bytes of the key the host shows, without logging in; raises MachineError when it cannot be asked."""
    with _transport(host, via) as transport:
        key = transport.get_remote_server_key()
        return key.get_name(), key.asbytes()


def public_key(host: Host, folder: Path) -> str:
    """The line that lets the site's key in on `host`; raises InputError when site.yaml names no key that exists."""
    if host.identity_file is None:
        raise InputError(
            f"{host.name}: site.yaml names no identity_file, so there is no key to let in",
            "make one with: ssh-keygen -t ed25519 -f keys/id, and name it as identity_file",
        )
    path = identity_path(host.identity_file, folder)
    path = path.with_name(path.name + ".pub")
    if not path.is_file():
        raise InputError(f"{path}: no such file", "the public half of identity_file; ssh-keygen -y prints it")
    line = path.read_text(encoding="utf-8").strip()
    if "\n" in line or not line.startswith(("ssh-", "ecdsa-", "sk-")):
        raise InputError(f"{path}: is not one public key", "ssh-keygen -y prints it from the private one")
    return line


def let_key_in(host: Host, folder: Path, password: str, *, via: Path | None = None) -> None:
    """Adds the site's public key on `host` by a login with `password`; the only use of a password for ssh.

    The password goes to nobody but the machine whose key was accepted before; raises MachineError otherwise.
    """
    import paramiko

    line, where = public_key(host, folder), f"{host.name} ({host.address})"
    with _transport(host, via) as transport:
        key = transport.get_remote_server_key()
        if f"{key.get_name()} {key.get_base64()}" != known_key(host, folder):
            raise MachineError(
                f"{where}: its host key is not the one accepted before; it now shows {fingerprint(key.asbytes())}",
                "the password was not sent; remove its line from known_hosts if it was installed again",
            )
        try:
            transport.auth_password(host.user, password)
        except paramiko.AuthenticationException:
            raise MachineError(
                f"{where}: does not let {host.user} in with that password",
                "check user in site.yaml; sshd may allow keys only (PasswordAuthentication, PermitRootLogin)",
            ) from None
        channel = transport.open_session(timeout=CONNECT_TIMEOUT_S)
        channel.exec_command(f"sh -c {shlex.quote(_ADD_KEY)}")
        channel.sendall(line.encode() + b"\n")
        channel.shutdown_write()
        if channel.recv_exit_status() != 0:
            said = channel.makefile_stderr("rb").read().decode("utf-8", "replace").strip()
            raise MachineError(f"{where}: its authorized_keys cannot be written: {said[:200]}")


@contextlib.contextmanager
def _transport(host: Host, via: Path | None) -> Iterator[paramiko.Transport]:
    """A connection that has exchanged keys, not logged in; raises MachineError when there is none."""
    import socket

    import paramiko

    connection: socket.socket | paramiko.ProxyCommand | None = None
    try:
        if via is None:
            connection = socket.create_connection((host.address, host.port), timeout=CONNECT_TIMEOUT_S)
        else:
            goal = f"[{host.address}]:{host.port}" if ":" in host.address else f"{host.address}:{host.port}"
            connection = paramiko.ProxyCommand(shlex.join(["ssh", "-F", str(via), "-W", goal, JUMP]))
        transport = paramiko.Transport(connection)
        try:
            transport.start_client(timeout=CONNECT_TIMEOUT_S)
            yield transport
        finally:
            transport.close()
    except (OSError, EOFError, paramiko.SSHException) as error:
        way = " through the jump host" if via else ""
        raise MachineError(
            f"{host.name} ({host.address} port {host.port}): cannot be reached{way}: {error or type(error).__name__}",
            "check address, port, cable and firewall; is it switched on?",
        ) from None
    finally:
        if connection is not None:
            connection.close()

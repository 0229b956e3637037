"""One container: its disk, its network and its process, from boot to nothing left."""

import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.containers.commands import LabError, call
from tests.containers.identity import Identity
from tests.containers.leftovers import close_connection, remove_container
from tests.containers.machine import Machine
from tests.containers.network import Network, nameservers

_BOOT_SECONDS = 90.0


class CommandFailed(AssertionError):
    """A command in a container ended with another status than 0."""


class Container:
    """A Debian machine with systemd and sshd; ``name`` is its host name and its ssh alias.

    A context manager: leaving the block is ``stop``. Made by ``Lab.start_many``.
    """

    def __init__(
        self,
        name: str,
        *,
        number: int,
        identity: Identity,
        suite: str,
        options: tuple[str, ...],
        forget: Callable[["Container"], None],
    ) -> None:
        self.name = name
        self.suite = suite
        self.number = number
        self.address = ""
        self.host_key = ""
        self.root: Path = identity.root(number)
        self.ssh_config: Path = identity.ssh_config
        self.identity = identity
        self._machine = Machine(identity, number, options)
        self._forget = forget

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Container {self.name} {self.address} {self.suite}>"

    @property
    def control_socket(self) -> Path:
        return self.identity.folder / f"{self.number}-%r.ssh"

    def boot(self, *, base: Path, network: Network, public_key: str) -> None:
        """Make disk and network and start it, without waiting."""
        self._make_disk(base)
        self.address = network.attach(self.number)
        self.host_key = self._personalize(public_key)
        self._machine.start(self.name)

    def wait(self) -> None:
        """Wait until systemd says ``running``; LabError with its log or the failed units otherwise."""
        deadline = time.monotonic() + _BOOT_SECONDS
        self._wait_for_ssh(deadline)
        state = self.run("systemctl is-system-running --wait", check=False, timeout=_BOOT_SECONDS)
        if state.stdout.strip() != "running":
            failed = self.run("systemctl --failed --no-legend --plain", check=False).stdout
            raise LabError(f"{self.name} is {state.stdout.strip() or state.stderr.strip()}: {failed}")

    def run(
        self,
        command: str | Sequence[str],
        *,
        check: bool = True,
        given: str | None = None,
        timeout: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell line, or a list of words, as root over ssh; CommandFailed when its status is not 0.

        ``check=False`` returns whatever the status is; ``given`` is its stdin.
        """
        line = command if isinstance(command, str) else shlex.join(command)
        argv = ["ssh", "-F", str(self.ssh_config), self.name, "--", line]
        done = subprocess.run(
            argv,
            input=given or "",
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
        if check and done.returncode != 0:
            raise CommandFailed(
                f"{self.name}: {line}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        return done

    def restart(self) -> None:
        """Shut it down and boot it again with the same disk and address: what a reboot leaves."""
        self._close_connections()
        self._machine.halt()
        self._machine.start(self.name)
        self.wait()

    def stop(self) -> None:
        """Kill it at once and remove its disk, network and connections; twice is once."""
        self._close_connections()
        self._machine.kill()
        remove_container(self.identity, self.number)
        self._forget(self)

    def _close_connections(self) -> None:
        for socket in self.identity.folder.glob(self.control_socket.name.replace("%r", "*")):
            close_connection(socket)

    def _make_disk(self, base: Path) -> None:
        disk = self.identity.disk(self.number)
        for part in ("upper", "work", "root"):
            (disk / part).mkdir(parents=True)
        # volatile: no fsync reaches the disk, which makes dpkg several times faster; it is thrown away anyway.
        layers = f"lowerdir={base},upperdir={disk / 'upper'},workdir={disk / 'work'},volatile"
        call("mount", "-t", "overlay", "overlay", "-o", layers, str(self.root))

    def _personalize(self, public_key: str) -> str:
        """Write what differs from one container to the next; its public host key."""
        etc = self.root / "etc"
        (etc / "hostname").write_text(f"{self.name}\n")
        (etc / "machine-id").unlink(missing_ok=True)
        (etc / "machine-id").write_text(Path("/proc/sys/kernel/random/uuid").read_text().replace("-", ""))
        (etc / "resolv.conf").unlink(missing_ok=True)
        (etc / "resolv.conf").write_text(nameservers())
        authorized = self.root / "root/.ssh/authorized_keys"
        authorized.write_text(public_key)
        authorized.chmod(0o600)
        key = etc / "ssh/ssh_host_ed25519_key"
        call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"root@{self.name}", "-f", str(key))
        kind, body, *_ = key.with_name(key.name + ".pub").read_text().split()
        return f"{kind} {body}"

    def _wait_for_ssh(self, deadline: float) -> None:
        """Until its sshd lets us in; refused and reset connections are tried again, a wrong host key is not."""
        while True:
            answer = self.run("true", check=False)
            if answer.returncode == 0:
                return
            self._machine.check()
            if time.monotonic() > deadline or "verification failed" in answer.stderr:
                raise LabError(f"{self.name}: ssh: {answer.stderr.strip()}\n{self._machine.console()}")
            time.sleep(0.1)

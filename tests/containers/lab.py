"""A lab: containers on one private network, and the ssh files that open them. Nothing is left after ``close``."""

import atexit
import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.containers.base import base, cache_dir, private_key
from tests.containers.commands import LabError
from tests.containers.container import Container
from tests.containers.ledger import Claim, machine_lock
from tests.containers.leftovers import reap, remove_lab, restore_settings
from tests.containers.network import Network
from tests.containers.settings import Settings

_TOOLS = ("systemd-nspawn", "mmdebstrap", "ip", "nft", "ssh", "ssh-keygen", "mount", "unshare", "chattr")
_LAST_NUMBER = 250
# The defaults (128 inotify instances, 200 keys per user) are shared by all containers and end at about 12.
_LIMITS = {"fs/inotify/max_user_instances": 8192, "kernel/keys/maxkeys": 4000}


def obstacle() -> str | None:
    """Why this machine cannot run containers, None when it can."""
    if os.geteuid() != 0:
        return "containers need root (systemd-nspawn, network namespaces)"
    for tool in _TOOLS:
        if shutil.which(tool) is None:
            return f"containers need {tool}; on Debian: systemd-container mmdebstrap iproute2 nftables openssh-client"
    if not _has_cgroup2():
        return "containers need a mounted cgroup2 hierarchy"
    return None


class Lab:
    """Several containers at once; a context manager. Its process may die: the next lab removes what it left."""

    def __init__(self) -> None:
        reap()
        self._containers: dict[str, Container] = {}
        self._last_number = 1  # .1 is this machine
        self._owner = os.getpid()
        with machine_lock():
            self._claim = Claim(cache_dir() / "disks")
            self.identity = self._claim.identity
            self._is_open = True
            atexit.register(self.close)
            try:
                for key, value in _LIMITS.items():
                    Settings().raise_to(key, value)
                self._network = Network(self.identity)
            except BaseException:
                self._remove()
                raise
        self._write_ssh_files()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def ssh_config(self) -> Path:
        """An OpenSSH configuration with one alias per container; it follows starts and stops."""
        return self.identity.ssh_config

    @property
    def containers(self) -> tuple[Container, ...]:
        return tuple(self._containers.values())

    def start(self, name: str, *, suite: str = "bookworm", options: Sequence[str] = ()) -> Container:
        """One container, ready for ssh, systemd ``running``."""
        return self.start_many([name], suite=suite, options=options)[0]

    def start_many(
        self, names: int | Sequence[str], *, suite: str = "bookworm", options: Sequence[str] = ()
    ) -> tuple[Container, ...]:
        """Several containers, all ready; a number gives them free names. ``options`` are nspawn arguments.

        They know each other, and all others of the lab, by name. When one does not start, none is left.
        """
        wanted = self._free_names(names) if isinstance(names, int) else tuple(names)
        for name in wanted:
            if name in self._containers or not name.replace("-", "").isalnum():
                raise LabError(f"container name {name!r} is in use or no host name")
        root, public_key = base(suite), private_key().with_suffix(".pub").read_text()
        with machine_lock():
            self._network.let_out()
        started = [self._new(name, suite=suite, options=tuple(options)) for name in wanted]
        try:
            for container in started:
                container.boot(base=root, network=self._network, public_key=public_key)
            self._write_ssh_files()
            for container in started:
                container.wait()
        except BaseException:
            for container in started:
                container.stop()
            raise
        return tuple(started)

    def close(self) -> None:
        """Remove everything; signals wait until it is done. Twice is once."""
        if not self._is_open or os.getpid() != self._owner:  # a forked child ends without us
            return
        with _signals_ignored():
            try:
                for container in self.containers:
                    container.stop()
            finally:
                with machine_lock():
                    self._remove()

    def _remove(self) -> None:
        self._is_open = False
        atexit.unregister(self.close)
        remove_lab(self.identity)
        self._claim.release()
        restore_settings()

    def _new(self, name: str, *, suite: str, options: tuple[str, ...]) -> Container:
        container = Container(
            name,
            number=self._next_number(),
            identity=self.identity,
            suite=suite,
            options=options,
            forget=self._forget,
        )
        self._containers[name] = container
        return container

    def _forget(self, container: Container) -> None:
        if self._containers.get(container.name) is container:
            del self._containers[container.name]
            self._write_ssh_files()

    def _next_number(self) -> int:
        """Not the lowest free one: an address used a moment ago still has its old neighbour entry."""
        used = {container.number for container in self.containers}
        if len(used) >= _LAST_NUMBER - 1:
            raise LabError(f"a lab has at most {_LAST_NUMBER - 1} containers")
        number = self._last_number
        while True:
            number = number + 1 if number < _LAST_NUMBER else 2
            if number not in used:
                self._last_number = number
                return number

    def _free_names(self, count: int) -> tuple[str, ...]:
        candidates = (f"node{number}" for number in range(1, 2 * _LAST_NUMBER))
        free = (name for name in candidates if name not in self._containers)
        return tuple(name for name, _ in zip(free, range(count), strict=False))

    def _write_ssh_files(self) -> None:
        booted = [container for container in self.containers if container.host_key]
        _replace(self.identity.ssh_config, "".join(self._ssh_alias(container) for container in booted))
        lines = [f"{one.name},{one.address} {one.host_key}\n" for one in booted]
        _replace(self.identity.known_hosts, "".join(lines))
        hosts = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
        hosts += "".join(f"{one.address} {one.name}\n" for one in booted)
        for container in booted:
            (container.root / "etc/hosts").write_text(hosts)

    def _ssh_alias(self, container: Container) -> str:
        lines = (
            f"HostName {container.address}",
            "User root",
            f"IdentityFile {private_key()}",
            "IdentitiesOnly yes",
            f"UserKnownHostsFile {self.identity.known_hosts}",
            "GlobalKnownHostsFile /dev/null",
            "StrictHostKeyChecking yes",
            "UpdateHostKeys no",
            "BatchMode yes",
            "ControlMaster auto",
            f"ControlPath {container.control_socket}",
            "ControlPersist 120",
            "ConnectTimeout 5",
            "ServerAliveInterval 5",
            "LogLevel ERROR",
        )
        return f"Host {container.name}\n" + "".join(f"    {line}\n" for line in lines)


@contextlib.contextmanager
def _signals_ignored() -> Iterator[None]:
    """No Ctrl-C or SIGTERM in between (they only reach the main thread)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _has_cgroup2() -> bool:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return any(line.split()[2] == "cgroup2" for line in lines)


def _replace(path: Path, text: str) -> None:
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.replace(path)

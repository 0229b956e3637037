"""One systemd-nspawn process in control groups of its own.

The control group is what makes containers independent and their end certain. Without it every nspawn started
from here puts its payload into one and the same group ("payload" below the caller's), where several systemds
then manage, and wait for, each other's processes; and with it all processes of a container are known, so
that they can be killed without asking nspawn, which sometimes hangs.
"""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from tests.containers.commands import LabError
from tests.containers.identity import Identity

_ENTER = 'while [ "$1" != -- ]; do echo $$ > "$1"; shift; done; shift; exec "$@"'
# 133 is nspawn's way to say that the container wants to reboot.
_LOOP = 'while :; do "$@"; status=$?; [ $status = 133 ] || exit $status; done'
_HALT_SECONDS = 10.0


class Machine:
    """A booted nspawn container, from ``start`` to ``kill``."""

    def __init__(self, identity: Identity, number: int, options: tuple[str, ...]) -> None:
        """``options`` are further nspawn arguments, such as ``--bind=/dev/nvidia0``."""
        self._identity = identity
        self._number = number
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, hostname: str) -> None:
        nspawn = entering(self._identity, f"{self._number}/nspawn", self._nspawn(hostname))
        loop = entering(self._identity, f"{self._number}/loop", ["/bin/sh", "-c", _LOOP, "sh", *nspawn])
        # cgroup2 only: what Debian 12 and 13 both run with. No image locks: each container has its own disk.
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",
            "SYSTEMD_NSPAWN_LOCK": "0",
        }
        with self._identity.log(self._number).open("ab") as log:
            self._process = subprocess.Popen(
                loop,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for pytest
            )

    def check(self) -> None:
        """LabError with the end of its console log when nspawn is not running any more."""
        if self._process is None or self._process.poll() is None:
            return
        raise LabError(f"systemd-nspawn ended with {self._process.returncode}:\n{self.console()}")

    def console(self) -> str:
        """The last 20 lines of its console."""
        log = self._identity.log(self._number)
        return "\n".join(log.read_text(errors="replace").splitlines()[-20:]) if log.is_file() else ""

    def halt(self) -> None:
        """Shut it down in order, as far as it does so in time."""
        if self._process is None:
            return
        nspawn = groups(self._identity, f"{self._number}/nspawn/supervisor")
        for pid in {pid for group in nspawn for pid in processes(group)}:  # a second SIGTERM would cut it short
            os.kill(pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_HALT_SECONDS)
        self.kill()

    def kill(self) -> None:
        kill_groups(self._identity, str(self._number))
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _nspawn(self, hostname: str) -> list[str]:
        machine = self._identity.machine(self._number)
        return [
            "systemd-nspawn", "--boot", "--quiet", f"--directory={self._identity.root(self._number)}",
            f"--machine={machine}", f"--hostname={hostname}",
            f"--network-namespace-path=/run/netns/{machine}",
            "--register=no", "--keep-unit", "--settings=no", "--link-journal=no",
            "--console=pipe", "--resolv-conf=off", *self._options,
        ]  # fmt: skip


def groups(identity: Identity, name: str = "") -> tuple[Path, ...]:
    """A control group of the lab in each hierarchy that nspawn uses: cgroup2, and systemd's v1 where mounted."""
    found = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount_point, kind, options, *_ = line.split()
        if kind == "cgroup2" or (kind == "cgroup" and "name=systemd" in options.split(",")):
            found.append(Path(mount_point) / identity.cgroup / name)
    return tuple(found)


def entering(identity: Identity, name: str, command: list[str]) -> list[str]:
    """The command, preceded by a shell that first enters the lab's control group ``name``, made here."""
    members = []
    for group in groups(identity, name):
        group.mkdir(parents=True, exist_ok=True)
        members.append(str(group / "cgroup.procs"))
    return ["/bin/sh", "-c", _ENTER, "sh", *members, "--", *command]


def kill_groups(identity: Identity, name: str = "", *, seconds: float = 10) -> None:
    """Kill every process in a control group of the lab (all of them without a name), and remove the group."""
    deadline = time.monotonic() + seconds
    while pids := [pid for group in groups(identity, name) for pid in processes(group)]:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise LabError(f"processes survive SIGKILL: {pids}")
        time.sleep(0.02)
    remove_groups(identity, name)


def processes(group: Path) -> list[int]:
    """The processes in a control group and below it; zombies, which nobody can kill, left out."""
    found: set[int] = set()
    for path in group.rglob("cgroup.procs"):
        with contextlib.suppress(OSError):
            found.update(int(pid) for pid in path.read_text().split())
    return sorted(pid for pid in found if _is_alive(pid))


def remove_groups(identity: Identity, name: str) -> None:
    """Remove a control group and those below it, as far as they are empty."""
    for group in groups(identity, name):
        below = [path for path in group.rglob("*") if path.is_dir()]
        for folder in [*sorted(below, key=lambda path: len(path.parts), reverse=True), group]:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")

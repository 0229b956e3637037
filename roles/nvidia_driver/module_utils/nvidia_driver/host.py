"""What the machine has: packages, kernels, built and loaded modules, leftovers. Reads only."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ansible.module_utils.nvidia_driver import packages
from ansible.module_utils.nvidia_driver.packages import Installed

Run = Callable[[Sequence[str]], "tuple[int, str, str]"]
FOREIGN = ("nouveau", "nova_core", "nova_drm")
# The module's file as Debian's own packages name it, one flavour each; modprobe's configuration leads there.
MODULES = ("nvidia", "nvidia-current-open", "nvidia-current")
_SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_STATUS = re.compile(r"^([^/,\s]+)[/,]\s*([^,\s]+)(?:,\s*([^,\s]+),\s*([^:\s]+))?:\s*(\S+)")


class State(NamedTuple):
    """The machine before or after a step; `running` is empty in a container, whose kernel is not its own."""

    there: dict[str, Installed]
    running: str
    kernels: tuple[str, ...]  # installed ones, the one that boots next last
    headers: frozenset[str]  # releases that modules can be built for
    built: dict[str, str]  # release to version of the module on disk
    loaded: str  # version of the loaded module
    foreign: tuple[str, ...]  # other drivers of the GPUs that are loaded
    installer: str
    secure_boot: bool

    @property
    def boots(self) -> tuple[str, ...]:
        """The kernels that matter: the running one and the one that boots next."""
        return tuple(dict.fromkeys(name for name in (self.running, *self.kernels[-1:]) if name))


class Status(NamedTuple):
    """One line of dkms status."""

    module: str
    version: str
    release: str
    state: str


class Host:
    """A machine below `root`; `run` starts programs on it."""

    def __init__(self, run: Run, family: str, root: str = "/") -> None:
        self.run, self.family, self._root = run, family, root

    def path(self, *parts: str) -> str:
        return os.path.join(self._root, *parts)

    def state(self) -> State:
        running = "" if self._container() else os.uname().release
        kernels = self._kernels()
        releases = list(dict.fromkeys([*kernels, *([running] if running else [])]))
        return State(
            there=self.packages(),
            running=running,
            kernels=kernels,
            headers=frozenset(
                name for name in releases if os.path.exists(self.path("lib/modules", name, "build/Makefile"))
            ),
            built={name: version for name in releases for version in [self._built(name)] if version},
            loaded=_first_line(self.path("sys/module/nvidia/version")),
            foreign=tuple(name for name in FOREIGN if os.path.isdir(self.path("sys/module", name))),
            installer=self._installer(),
            secure_boot=_last_byte(self.path(_SECURE_BOOT)) == 1,
        )

    def packages(self) -> dict[str, Installed]:
        query = packages.DEB_QUERY if self.family == "debian" else packages.RPM_QUERY
        return packages.installed(self.run(query)[1])

    def dkms(self) -> list[Status]:
        """What dkms says of its modules; nothing where it is not installed."""
        return statuses(self.run(["dkms", "status"])[1]) if _program("dkms") else []

    def _container(self) -> bool:
        return self.run(["systemd-detect-virt", "--container", "--quiet"])[0] == 0

    def _kernels(self) -> tuple[str, ...]:
        folder = self.path("lib/modules")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        images = [name for name in names if os.path.exists(self.path("boot", f"vmlinuz-{name}"))]
        return tuple(sorted(images, key=by_version))

    def _built(self, release: str) -> str:
        for name in MODULES:
            rc, out, _ = self.run(["modinfo", "-k", release, "-F", "version", name])
            if rc == 0:
                return out.strip()
        return ""

    def _installer(self) -> str:
        paths = [self.path("usr/bin/nvidia-uninstall"), self.path("usr/bin/nvidia-installer")]
        found = [path for path in paths if os.path.exists(path)]
        owner = ["dpkg-query", "--search"] if self.family == "debian" else ["rpm", "-qf"]
        return next((path for path in found if self.run([*owner, path])[0] != 0), "")


def statuses(text: str) -> list[Status]:
    """The lines of dkms status, of old and of new form."""
    matches = [_STATUS.match(line) for line in text.splitlines()]
    return [Status(item[1], item[2], item[3] or "", item[5]) for item in matches if item]


def by_version(release: str) -> list[tuple[int, str]]:
    """A key that puts 6.1.0-9 before 6.1.0-10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", release)]


def compiler_line(log: str) -> str:
    """The compiler's line that ended a build; else the last line that says error."""
    lines = [line.strip() for line in log.splitlines()]
    first = next((line for line in lines if re.search(r":\d+(:\d+)?: (fatal )?error:", line)), "")
    return first or next((line for line in reversed(lines) if re.search(r"\berror\b|\*\*\*", line, re.IGNORECASE)), "")


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.readline().strip()
    except OSError:
        return ""


def _last_byte(path: str) -> int:
    try:
        with open(path, "rb") as stream:
            return (stream.read() or b"\0")[-1]
    except OSError:
        return 0


def _program(name: str) -> bool:
    return any(os.access(os.path.join(folder, name), os.X_OK) for folder in ("/usr/sbin", "/usr/bin", "/sbin", "/bin"))

"""Names of everything that one lab puts on this machine, all derived from one key.

Because nothing has a name outside this scheme, a lab whose process was killed can be found and removed.
"""

import json
import secrets
from dataclasses import dataclass
from pathlib import Path

STATE = Path("/run/llmhw-containers")
_OWNER = "owner.json"


@dataclass(frozen=True)
class Identity:
    """One lab: ``key`` is 6 hex digits, ``work`` the folder of its disks."""

    key: str
    work: Path

    @classmethod
    def new(cls, disks: Path) -> "Identity":
        key = secrets.token_hex(3)
        return cls(key, disks / key)

    @classmethod
    def read(cls, folder: Path) -> "Identity | None":
        """The identity written in ``folder``, None when its owner died before writing it."""
        try:
            work = json.loads((folder / _OWNER).read_text())["work"]
        except (OSError, ValueError, KeyError):
            return None
        return cls(folder.name, Path(work))

    def write(self, pid: int) -> None:
        (self.folder / _OWNER).write_text(json.dumps({"pid": pid, "work": str(self.work)}))

    @property
    def folder(self) -> Path:
        """Short, because ssh's control sockets lie in it (a socket's path has at most 107 bytes)."""
        return STATE / self.key

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    @property
    def ssh_config(self) -> Path:
        return self.folder / "ssh_config"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def bridge(self) -> str:
        return f"lc{self.key}"

    @property
    def table(self) -> str:
        """The nftables table (family ip)."""
        return f"llmhw_{self.key}"

    @property
    def cgroup(self) -> str:
        return f"llmhw-{self.key}"

    def machine(self, number: int) -> str:
        """Name of the nspawn machine, of its network namespace and of the outer end of its veth pair."""
        return f"lc{self.key}-{number}"

    def disk(self, number: int) -> Path:
        """Folder with the overlay's ``upper``, ``work`` and ``root`` (the mount point)."""
        return self.work / str(number)

    def root(self, number: int) -> Path:
        return self.disk(number) / "root"

    def log(self, number: int) -> Path:
        return self.folder / f"{number}.log"

    def numbers(self) -> tuple[int, ...]:
        """The containers that have, or had, a disk."""
        if not self.work.is_dir():
            return ()
        return tuple(sorted(int(path.name) for path in self.work.iterdir() if path.name.isdigit()))

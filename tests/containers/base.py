"""The root filesystem under all containers of a suite, and the key that opens them; both made once and cached."""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.containers.commands import call
from tests.rehearsal.rootfs import bootstrap, extra_certificates, sources

PACKAGES = (
    "systemd",
    "systemd-sysv",
    "dbus",
    "openssh-server",
    "python3",
    "python3-apt",
    "sudo",
    "iproute2",
    "ca-certificates",
    "udev",
    "procps",
    "curl",
)
# Timers that would run apt in the middle of a test, and what has no meaning without hardware.
MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
    "systemd-timesyncd.service",
    "systemd-udev-trigger.service",
    "systemd-udevd-control.socket",
    "systemd-udevd-kernel.socket",
    "systemd-udevd.service",
)
_PREPARATION = 1  # raise it when _prepare changes


def cache_dir() -> Path:
    """The folder of base filesystems, of the key and (while containers run) of their disks."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "llmhw-provision" / "containers"


def base(suite: str) -> Path:
    """The read-only root filesystem of a Debian suite ("bookworm", "trixie"); the first call builds it (1-2 min)."""
    folder = cache_dir() / f"{suite}-{_recipe(suite)}"
    root = folder / "root"
    with _locked(cache_dir() / f".{folder.name}.lock"):
        if root.is_dir():
            return root
        building = cache_dir() / f".{folder.name}.building"
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir(parents=True)
        bootstrap(building / "root", suite=suite, packages=PACKAGES)
        _prepare(building / "root")
        building.rename(folder)
    return root


def private_key() -> Path:
    """The ssh key that every container accepts for root; its public half lies beside it with ``.pub``."""
    folder = cache_dir() / "ssh"
    key = folder / "id_ed25519"
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    with _locked(folder / ".lock"):
        if not (key.is_file() and key.with_suffix(".pub").is_file()):
            key.unlink(missing_ok=True)
            call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "llmhw-containers", "-f", str(key))
    return key


def _recipe(suite: str) -> str:
    """A hash of all that the base is made of: another recipe gets another folder."""
    parts = (_PREPARATION, suite, sources(suite), PACKAGES, MASKED, extra_certificates())
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def _prepare(root: Path) -> None:
    for unit in MASKED:
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()  # every container gets its own
    (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

"""The local Vagrant box: a Debian that boots through GRUB, built once per recipe and kept in the cache."""

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.rehearsal import image, recipe, rootfs
from tests.rehearsal.errors import RehearsalError
from tests.rehearsal.settings import cache_dir

DISK_GIB = 16  # a real driver and toolkit take 10, and preflight asks for the room
NAME = "llmhw/rehearsal"
_CATALOGUE_SECONDS = 20.0
_DOWNLOAD_SECONDS = 900.0
_HERE = Path(__file__).parent
_OVERLAY = _HERE / "guest"


@dataclass(frozen=True)
class Box:
    """A built box: the file for ``vagrant box add`` and the guest's public host key."""

    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "rehearsal.box"

    @property
    def host_key(self) -> str:
        return (self.folder / "ssh_host_ed25519_key.pub").read_text().strip()

    @property
    def name(self) -> str:
        """The box name; the recipe's hash is in it, so that Vagrant never reuses an older disk."""
        return f"{NAME}-{self.folder.name}"


def current() -> Box:
    """The box of the recipe as it stands; it may not be built yet."""
    return Box(cache_dir() / "boxes" / _recipe_hash())


def build() -> Box:
    """The box of the current recipe, built if the cache does not have it."""
    box = current()
    if box.file.exists():
        return box
    if os.geteuid() != 0:
        raise RehearsalError("building the box needs root", "run it as root (sudo)")
    box.folder.parent.mkdir(parents=True, exist_ok=True)
    work = box.folder.with_name(f".{box.folder.name}.partial")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        root = work / "root"
        rootfs.bootstrap(root, suite=recipe.SUITE, packages=recipe.PACKAGES, overlay=_OVERLAY)
        disk_uuid = str(uuid.uuid4())
        recipe.prepare(root, disk_uuid)
        core = image.write_grub(root, uuid=disk_uuid, kernel=recipe.kernel(root), arguments=recipe.arguments(root))
        shutil.copy(root / "etc/ssh/ssh_host_ed25519_key.pub", work)
        image.write_disk(root, work / "box.img", core=core, uuid=disk_uuid, size=DISK_GIB << 30)
        _pack(work)
        shutil.rmtree(root)
        work.rename(box.folder)
        _forget_older(box)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return box


def _forget_older(box: Box) -> None:
    """Keep two boxes at most (1 GB each): this one and the one before it, for work on two branches."""
    others = [folder for folder in box.folder.parent.iterdir() if folder != box.folder and folder.name[0] != "."]
    for folder in sorted(others, key=lambda path: path.stat().st_mtime)[:-1]:
        shutil.rmtree(folder)
        shutil.rmtree(
            cache_dir() / "vagrant" / "boxes" / Box(folder).name.replace("/", "-VAGRANTSLASH-"), ignore_errors=True
        )


def _recipe_hash() -> str:
    digest = hashlib.sha256()
    files = [_HERE / name for name in ("recipe.py", "image.py")]
    folders = (recipe.BOARDS, _OVERLAY)
    for path in [*files, *(p for folder in folders for p in sorted(folder.rglob("*")) if p.is_file())]:
        digest.update(str(path.relative_to(_HERE)).encode() + b"\0" + path.read_bytes())
    for text in (str(DISK_GIB), *rootfs.sources(recipe.SUITE), *rootfs.extra_certificates()):
        digest.update(text.encode())
    return digest.hexdigest()[:12]


def _pack(work: Path) -> None:
    metadata = {"provider": "libvirt", "format": "qcow2", "virtual_size": DISK_GIB}
    (work / "metadata.json").write_text(json.dumps(metadata))
    (work / "Vagrantfile").write_text('Vagrant.configure("2") { |config| }\n')
    with tarfile.open(work / "rehearsal.box", "w") as tar:
        for name in ("metadata.json", "Vagrantfile", "box.img"):
            tar.add(work / name, arcname=name)
            (work / name).unlink()


def download(name: str) -> bool:
    """Whether Vagrant has, or can get, the public box ``name``; a silent network is given up on quickly."""
    home = {**os.environ, "VAGRANT_HOME": str(cache_dir() / "vagrant"), "VAGRANT_CHECKPOINT_DISABLE": "1"}
    had = subprocess.run(["vagrant", "box", "list"], env=home, capture_output=True, text=True, check=False)
    if f"{name} " in had.stdout:
        return True
    add = ["vagrant", "box", "add", "--provider", "libvirt", "--no-tty", name]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(add, env=home, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            return _watch_download(process, log)
        finally:
            process.kill()
            process.wait()


def _watch_download(process: subprocess.Popen[bytes], log: IO[str]) -> bool:
    start = time.monotonic()
    while process.poll() is None:
        log.seek(0)
        # Vagrant prints the provider once the catalogue has answered; from then on it downloads.
        limit = _DOWNLOAD_SECONDS if "for provider" in log.read() else _CATALOGUE_SECONDS
        if time.monotonic() - start > limit:
            return False
        time.sleep(0.5)
    return process.returncode == 0

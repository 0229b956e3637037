"""A signed flat repository of packages named as NVIDIA's, with contents of our own, for Debian 12."""

from __future__ import annotations

import email.utils
import gzip
import hashlib
import http.server
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.rehearsal.gpu import cuda, driver, fabric
from tests.rehearsal.gpu.deb import Package
from tests.rehearsal.gpu.signing import Key

DRIVERS = ("580.126.09", "580.159.03", "590.48.01")
FAULTS = {
    "stub": "metapackages are content with newer parts, so an exact one brings another driver",
    "dkms-broken": "the kernel module does not compile, and dpkg says so",
    "dkms-hidden": "the kernel module does not compile, and its package ends well all the same",
    "half": "of the newest driver only the libraries are there, and the older metapackages put up with them",
}
NVIDIA = ("NVIDIA", "NVIDIA CUDA")


@dataclass(frozen=True)
class Repository:
    """A repository on the disk; `uri` is how hosts reach it ("" until it is served), its suite is `./`."""

    folder: Path
    key: Key
    uri: str = ""

    @property
    def key_file(self) -> Path:
        """The armoured public key."""
        return self.folder / "rehearsal.asc"

    @property
    def fingerprint(self) -> str:
        return self.key.fingerprint


def build(
    folder: Path,
    *,
    key: Key,
    driver: Sequence[str] = DRIVERS,
    faults: Iterable[str] = (),
    origin: tuple[str, str] = NVIDIA,
    uri: str = "",
    module: Path | None = None,
) -> Repository:
    """Writes the repository into `folder`, over an older one.

    `driver`: the releases it holds, oldest first. `faults`: names of FAULTS. `origin`: what Release says of it.
    `uri`: the address that `cuda-keyring` writes. `module`: the kernel module's source, else the one
    beside this file.
    """
    contents = _contents(tuple(driver), frozenset(faults), key, uri, module)
    return publish(folder, contents, key=key, origin=origin, uri=uri)


def publish(
    folder: Path, packages: Iterable[Package], *, key: Key, origin: tuple[str, str] = ("", ""), uri: str = ""
) -> Repository:
    """Writes a signed flat repository of `packages` into `folder`, over an older one."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.deb"):
        old.unlink()
    entries = []
    # The pinning package of a branch comes with each of its releases, always the same.
    for package in {one.filename: one for one in packages}.values():
        built = package.build()
        (folder / package.filename).write_bytes(built)
        entries.append(package.entry(built))
    repository = Repository(folder, key, uri)
    repository.key_file.write_text(key.armoured)
    _index(folder, "\n".join(entries) + "\n", key, origin)
    return repository


def _contents(
    releases: tuple[str, ...], faults: frozenset[str], key: Key, uri: str, module: Path | None
) -> Iterator[Package]:
    unknown = faults - set(FAULTS)
    if unknown:
        raise ValueError(f"unknown faults {sorted(unknown)}; known: {', '.join(FAULTS)}")
    broken = bool(faults & {"dkms-broken", "dkms-hidden"})
    loose = bool(faults & {"stub", "half"})
    for release in releases:
        parts = driver.packages(release, module=module, loose=loose, broken=broken, hidden="dkms-hidden" in faults)
        if "half" in faults and release == releases[-1]:
            parts = tuple(part for part in parts if part.name.startswith(("lib", "nvidia-driver-cuda")))
        yield from parts
        yield from fabric.packages(release)
    yield fabric.nvlsm(cuda.NVLSM)
    yield from cuda.packages()
    yield cuda.keyring(uri or "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/", key.binary)


def _index(folder: Path, packages: str, key: Key, origin: tuple[str, str]) -> None:
    files = {"Packages": packages.encode(), "Packages.gz": gzip.compress(packages.encode(), mtime=0)}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    date = email.utils.formatdate(time.time() - 86400, usegmt=True)  # a host whose clock is behind takes it as well
    sums = "".join(f" {hashlib.sha256(text).hexdigest()} {len(text)} {name}\n" for name, text in files.items())
    head = "".join(f"{name}: {said}\n" for name, said in zip(("Origin", "Label"), origin, strict=True) if said)
    head += f"Architectures: amd64 all\nDate: {date}\n"
    release = f"{head}SHA256:\n{sums}".encode()
    (folder / "Release").write_bytes(release)
    (folder / "InRelease").write_bytes(key.clear(release))
    (folder / "Release.gpg").write_bytes(key.detached(release))


@contextmanager
def served(folder: Path, address: str, port: int = 0) -> Iterator[str]:
    """Serves `folder` over http; the base address, with a slash at its end."""
    handler = partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer((address, port), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{address}:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

"""Locks as `uv pip compile --generate-hashes` writes them, and folders of wheels that stand for an index. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

_BLOCK = re.compile(r"^(?=[A-Za-z0-9])", re.MULTILINE)
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_INDEX = re.compile(r"^--extra-index-url (\S+)$", re.MULTILINE)
_CUDA = re.compile(r"(?:-cu|\+cu)(1[0-9])")
# Kernels that nvidia-cutlass-dsl always brings for both majors, without a CUDA runtime (its metadata, 4.8.0).
_EVERY_CUDA = ("nvidia-cutlass-dsl-libs-cu12", "nvidia-cutlass-dsl-libs-cu13")


class Pin(NamedTuple):
    """One locked package: its text in the lock, and the SHA-256 of every file that may be installed for it."""

    name: str
    version: str
    hashes: frozenset[str]
    text: str

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


class Lock(NamedTuple):
    """A lock: its packages by normalized name, and further indexes that it names."""

    sha256: str
    pins: Mapping[str, Pin]
    indexes: Sequence[str]


def normalized(name: str) -> str:
    """A package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse(text: str) -> Lock:
    """The lock in `text`; raises ValueError for a line that pins nothing and for a package without hash."""
    pins = {}
    for block in _BLOCK.split(text)[1:]:
        match = _PIN.match(block)
        if not match:
            raise ValueError(f"{block.splitlines()[0][:80]!r} pins no version")
        hashes = frozenset(_HASH.findall(block))
        if not hashes:
            raise ValueError(f"{match[0]} has no hash")
        name = normalized(match[1])
        pins[name] = Pin(name, match[2], hashes, block)
    if not pins:
        raise ValueError("it is empty")
    return Lock(hashlib.sha256(text.encode()).hexdigest(), pins, tuple(_INDEX.findall(text)))


def requirements(pins: Iterable[Pin]) -> str:
    """The text of a requirements file with these pins."""
    return "".join(pin.text for pin in pins)


def cuda_majors(names: Iterable[str]) -> list[str]:
    """CUDA majors that packages bring, from `name` or `name==version`."""
    found = (_CUDA.search(name) for name in names if name.partition("==")[0] not in _EVERY_CUDA)
    return sorted({match[1] for match in found if match})


def cuda_refusals(name: str, cuda: str, majors: Sequence[str]) -> list[str]:
    """Why packages of these CUDA majors cannot be the environment `name` for `cuda` (empty: for CPUs)."""
    if not cuda:
        return [f"{name} is for CPUs, and brings cu{major}" for major in majors]
    if len(majors) > 1:
        return [f"{name} brings {' and '.join(f'cu{major}' for major in majors)}; one CUDA major per environment"]
    planned = cuda.partition(".")[0]
    return [f"{name} brings cu{major}, planned is CUDA {cuda}" for major in majors if major != planned]


def file_pin(file: str) -> tuple[str, str] | None:
    """Name and version of the package in a wheel or source archive, by the file's name."""
    if file.endswith(".whl"):
        parts = file[:-4].split("-")
        return (normalized(parts[0]), parts[1]) if len(parts) in (5, 6) else None
    for suffix in (".tar.gz", ".zip"):
        if file.endswith(suffix):
            name, dash, version = file[: -len(suffix)].rpartition("-")
            return (normalized(name), version) if dash else None
    return None


def house_refusals(
    pins: Iterable[Pin], files: Mapping[str, str], *, folder: str, built: Sequence[str], complete: bool
) -> list[str]:
    """What is wrong with a folder of wheels, `files` by name with their SHA-256: other content, and what is not there.

    `complete`: there is no index beside it, so every package must be there; those of `built` as source or as wheel.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for file in files:
        pin = file_pin(file)
        if pin:
            found.setdefault(pin, []).append(file)
    refused = []
    for pin in pins:
        there = found.get((pin.name, pin.version), [])
        there = [file for file in there if file.endswith(".whl") or pin.name in built]
        right = [file for file in there if files[file] in pin.hashes]
        for file in sorted(set(there) - set(right)):
            refused.append(f"{folder}/{file}: SHA-256 {files[file]} is not one that the lock allows for {pin}")
        if complete and not there:
            refused.append(f"{folder}: lacks {pin}")
    return refused

"""Sets of packages that are kept on the host before the driver changes, so that the way back needs no mirror."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from ansible.module_utils.nvidia_driver.packages import Installed

ROOT = "/var/cache/llmhw/packages"
MANIFEST = "manifest.json"
Fetch = Callable[[Installed, str], Optional[str]]


class Kept(NamedTuple):
    """One set: folder, driver version, and its packages with name, version, file and sha256."""

    folder: str
    version: str
    packages: tuple[Mapping[str, Any], ...]


def folder_of(version: str, root: str = ROOT) -> str:
    """The folder of a set."""
    return os.path.join(root, f"nvidia-driver-{version}")


def file_name(item: Installed) -> str:
    """The name that apt gives the file."""
    return f"{item.name}_{item.version.replace(':', '%3a')}_{item.architecture}.deb"


def keep(version: str, items: Sequence[Installed], fetch: Fetch, root: str = ROOT) -> list[str]:
    """Keeps the files of `items` as the set of `version`; the names of those that cannot be had, and then no set.

    `fetch` brings one package's file into a folder and returns its path. The set is there whole or not at all.
    """
    final, building = folder_of(version, root), folder_of(f".{version}", root)
    shutil.rmtree(building, ignore_errors=True)
    made = _missing(building)
    os.makedirs(building, mode=0o755)
    records, lacking = [], []
    for item in items:
        path = fetch(item, building)
        if path is None:
            lacking.append(f"{item.name} {item.version}")
            continue
        target = os.path.join(building, file_name(item))
        if path != target:
            shutil.copyfile(path, target)
        records.append({"name": item.name, "version": item.version, "file": file_name(item), "sha256": sha256(target)})
    if lacking:
        shutil.rmtree(made)
        return lacking
    with open(os.path.join(building, MANIFEST), "w", encoding="utf-8") as stream:
        json.dump({"version": version, "packages": records}, stream, indent=2)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    shutil.rmtree(final, ignore_errors=True)
    os.rename(building, final)
    return []


def _missing(path: str) -> str:
    """The uppermost folder on the way to `path` that is not there yet."""
    while not os.path.isdir(os.path.dirname(path)):
        path = os.path.dirname(path)
    return path


def read(version: str, root: str = ROOT) -> Optional[Kept]:  # noqa: UP045
    """The set of `version`; None where none is kept."""
    folder = folder_of(version, root)
    try:
        with open(os.path.join(folder, MANIFEST), encoding="utf-8") as stream:
            data = json.load(stream)
    except (OSError, ValueError):
        return None
    return Kept(folder, data["version"], tuple(data["packages"]))


def sets(root: str = ROOT) -> list[Kept]:
    """All sets that are kept, the one that was kept last first."""
    names = os.listdir(root) if os.path.isdir(root) else []
    found = [read(name[len("nvidia-driver-") :], root) for name in names if name.startswith("nvidia-driver-")]
    there = [item for item in found if item and not item.version.startswith(".")]
    return sorted(there, key=lambda item: os.path.getmtime(os.path.join(item.folder, MANIFEST)), reverse=True)


def damaged(kept: Kept) -> list[str]:
    """Files of the set that are missing or not what they were."""
    paths = {item["file"]: item["sha256"] for item in kept.packages}
    return [
        name
        for name, digest in paths.items()
        if not os.path.isfile(os.path.join(kept.folder, name)) or sha256(os.path.join(kept.folder, name)) != digest
    ]


def sha256(path: str) -> str:
    """Hex digest of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def prune(version: str, root: str = ROOT) -> None:
    """Removes the sets other than that of `version`: one way back is kept."""
    for item in sets(root):
        if item.version != version:
            shutil.rmtree(item.folder)

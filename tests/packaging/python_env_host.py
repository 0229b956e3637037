"""What the tests of the module python_env ask of the host and prepare on it."""

from __future__ import annotations

import io
import json
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.python_envs import PYTHON, UV, VERSION, Host, digest


def value(host: Host, name: str = "lab", module: str = "alpha") -> str:
    """What the environment in use says of a package's VALUE."""
    code = f"import {module}; print({module}.VALUE)"
    python = host.link(name) / "bin/python"
    return subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def upgrade(host: Host) -> None:
    """`lab` with alpha 1.0 is in use, alpha 2.0 is wanted."""
    host.want(host.wheel("alpha", "1.0"))
    assert host.apply()["changed"]
    host.want(host.wheel("alpha", "2.0", body="VALUE = 2\n"))


def folder(host: Host, name: str = "lab") -> str:
    return host.link(name).readlink().name


def refused(answer: dict[str, Any]) -> list[str]:
    assert answer["failed"]
    assert "hint: nothing was changed." in answer["msg"]
    found: list[str] = answer["refusals"]
    return found


def index(host: Host) -> str:
    """The house as a simple index."""
    names = {path.name.split("-")[0] for path in host.house.iterdir()}
    for name in names:
        page = host.root / "simple" / name / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        links = [f'<a href="{path.as_uri()}">{path.name}</a>' for path in host.house.glob(f"{name}-*")]
        page.write_text(f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>")
    host.config |= {"index": (host.root / "simple").as_uri(), "wheels": None}
    return str(host.config["index"])


def fake_uv(host: Host) -> Path:
    """A wheel of uv that hands on to the real one."""
    (host.root / f"llmhw/uv/{VERSION}/uv").unlink()
    made = host.house / f"uv-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(f"uv-{VERSION}.data/scripts/uv", f'#!/bin/sh\nexec "{UV}" "$@"\n')
    return made


BACKEND = """import pathlib, zipfile
import torch

def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "deepspeed-0.19.8-py3-none-any.whl"
    files = {
        "deepspeed/__init__.py": "BUILT_WITH = %r\\n" % torch.VALUE,
        "deepspeed-0.19.8.dist-info/METADATA": "Metadata-Version: 2.1\\nName: deepspeed\\nVersion: 0.19.8\\n",
        "deepspeed-0.19.8.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    record = "".join(f"{path},,\\n" for path in [*files, "deepspeed-0.19.8.dist-info/RECORD"])
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as archive:
        for path, text in [*files.items(), ("deepspeed-0.19.8.dist-info/RECORD", record)]:
            archive.writestr(path, text)
    return name
"""


def sdist(host: Host) -> Path:
    """A source archive that imports torch while it is built, as deepspeed and flash-attn do."""
    system = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    project = '[project]\nname = "deepspeed"\nversion = "0.19.8"\n'
    info = "Metadata-Version: 2.2\nName: deepspeed\nVersion: 0.19.8\n"
    made = host.house / "deepspeed-0.19.8.tar.gz"
    with tarfile.open(made, "w:gz") as archive:
        for name, text in (("pyproject.toml", system + project), ("backend.py", BACKEND), ("PKG-INFO", info)):
            member = tarfile.TarInfo(f"deepspeed-0.19.8/{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return made


def managed(host: Host, monkeypatch: pytest.MonkeyPatch) -> Path:
    """uv knows one CPython: an archive of this host's own behind a script, in a mirror."""
    shutil.rmtree(host.root / "llmhw/python")
    minor = ".".join(PYTHON.split(".")[:2])
    tree, home = host.root / "tree/python", Path(sys.base_prefix) / "bin/python3"
    (tree / "bin").mkdir(parents=True)
    (tree / f"lib/python{minor}").mkdir(parents=True)
    for path in (Path(sys.base_prefix) / f"lib/python{minor}").glob("_sysconfigdata_*.py"):
        shutil.copy(path, tree / f"lib/python{minor}")  # uv adapts it
    program = tree / f"bin/python{minor}"
    program.write_text(f'#!/bin/sh\nexec {home} "$@"\n')
    program.chmod(0o755)
    (tree / "bin/python3").symlink_to(program.name)
    archive = host.root / "mirror/build/cpython.tar.gz"
    archive.parent.mkdir(parents=True)
    with tarfile.open(archive, "w:gz") as out:
        out.add(tree, "python")
    known = {
        "name": "cpython",
        "arch": {"family": platform.machine(), "variant": None},
        "os": "linux",
        "libc": "gnu",
        **dict(zip(("major", "minor", "patch"), map(int, PYTHON.split(".")), strict=True)),
        "prerelease": "",
        "url": "https://github.com/astral-sh/python-build-standalone/releases/download/build/cpython.tar.gz",
        "sha256": digest(archive),
        "variant": None,
        "build": "build",
    }
    table = host.root / "downloads.json"
    table.write_text(json.dumps({f"cpython-{PYTHON}-linux-{platform.machine()}-gnu": known}))
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS_JSON_URL", str(table))
    mirror = {"version": PYTHON, "source": "mirror", "mirror": (host.root / "mirror").as_uri(), "packages": []}
    host.config["interpreters"] = [mirror]
    return archive

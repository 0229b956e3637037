"""Wheels that hold nothing but their metadata, and what `uv pip compile` makes of them without a network."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path


def wheel(folder: Path, name: str, version: str, *requires: str) -> None:
    """Writes NAME-VERSION-py3-none-any.whl with `requires` as its requirements."""
    stem = f"{name.replace('-', '_')}-{version}"
    metadata = "".join(f"Requires-Dist: {item}\n" for item in requires)
    files = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        for file, text in files.items():
            archive.writestr(f"{stem}.dist-info/{file}", text)


def compile_lock(folder: Path, *requirements: str) -> tuple[int, str]:
    """Exit status and output of `uv pip compile` for `requirements` with the wheels of `folder` as its only index."""
    asked = folder / "requirements.in"
    asked.write_text("\n".join(requirements))
    uv = str(Path(sys.executable).with_name("uv"))
    done = subprocess.run(
        [uv, "pip", "compile", "--offline", "--no-index", "--find-links", str(folder), "--no-header", str(asked)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "UV_CACHE_DIR": str(folder / "cache"), "UV_NO_CONFIG": "1"},
    )
    return done.returncode, done.stdout + done.stderr

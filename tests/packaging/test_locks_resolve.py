"""The locks come out of their .in files from metadata alone, and are what is committed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.test_locks import COMPILE, NAMES, text

_NO_INDEX = ("dns error", "error sending request", "Connect", "timed out", "503", "502")


@pytest.mark.parametrize("name", NAMES)
def test_a_lock_resolves_from_metadata_and_is_the_committed_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = os.environ.get("PIP_FIND_LINKS", "")
    if name.endswith("-cpu") and not list(Path(wheels or "/nowhere").glob("torch-*+cpu-*.whl")):
        pytest.skip("PIP_FIND_LINKS names no folder with the CPU wheel of torch (see .env.example)")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    try:
        found = COMPILE.compiled(name, keep=text(name), wheels=wheels)
    except COMPILE.NotCompiled as error:
        if any(word in error.message for word in _NO_INDEX):
            pytest.skip(f"the Python index cannot be reached: {error.message.splitlines()[-1][:120]}")
        raise
    committed, published = COMPILE.pins(text(name)), COMPILE.pins(found)
    assert list(committed) == list(published)
    # files that are published later for a locked version do no harm; one that is locked must be there
    assert {pin: hashes - published[pin] for pin, hashes in committed.items() if hashes - published[pin]} == {}
    if name.endswith("-cpu"):  # the wheel in the folder is unpacked for its metadata
        return
    # unpacked wheels lie in archive-*; only what deepspeed's metadata is built with may be there
    unpacked = [path.name.partition("-")[0] for path in tmp_path.glob("cache/archive-*/*/*.dist-info")]
    assert {package.lower() for package in unpacked} <= {"setuptools", "wheel", "packaging", "ninja", "py_cpuinfo"}
    assert sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*") if path.is_file()) < 400_000_000

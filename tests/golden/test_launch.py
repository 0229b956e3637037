"""Launch files of several workloads, byte for byte; `--update-golden` writes them again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.unit.launches import CASES, case

ROOT = Path(__file__).parent / "launch"


@pytest.mark.parametrize("name", CASES)
def test_launch_files_are_as_reviewed(name: str, request: pytest.FixtureRequest) -> None:
    _, files = case(name)
    folder = ROOT / name
    if request.config.getoption("--update-golden"):
        shutil.rmtree(folder, ignore_errors=True)
        for path, file in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(file.text, encoding="utf-8")
    kept = {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()
    }
    assert {path: file.text for path, file in files.items()} == kept

"""`make test` installs what containers need, and a container or machine that cannot be had fails it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.containers.lab import obstacle
from tests.rehearsal.__main__ import PACKAGES

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("options", "status"), [((), 0), (("--no-skip",), 1)])
def test_a_skip_fails_the_run_where_all_are_wanted(options: tuple[str, ...], status: int, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import pytest\ndef test_it(): pytest.skip('no nft')\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", *options, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "failed: 1 skipped" in done.stdout) == (status, bool(status))


@pytest.mark.parametrize("target", ["containers", "vm"])
def test_make_lets_no_container_and_no_machine_be_skipped(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "--no-skip" in makefile.partition(f"\n{target}: box ")[2].partition("\n\n")[0]


def test_packages_that_containers_ask_for_are_those_that_make_installs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda _tool: None)
    asked = (obstacle() or "").partition("on Debian: ")[2].split()
    assert asked
    assert set(asked) <= set(PACKAGES)

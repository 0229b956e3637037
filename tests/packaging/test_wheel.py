"""The wheel in an empty environment plans from `/`; also with the newest Python and ansible-core found here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def newest_python() -> str | None:
    """A newer Python than this one, from PATH or pyenv, that can make environments."""
    homes = [Path(part) for part in os.environ.get("PATH", "").split(os.pathsep)]
    homes += sorted((Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions").glob("*/bin"))
    for minor in range(16, sys.version_info.minor, -1):
        for home in homes:
            tool = home / f"python3.{minor}"
            probe = [tool, "-c", "import ensurepip, ssl"]
            if tool.is_file() and subprocess.run(probe, capture_output=True, check=False).returncode == 0:
                return str(tool)
    return None


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT]
    subprocess.run(command, check=True, capture_output=True)
    return next(out.glob("*.whl"))


@pytest.mark.parametrize("which", ["this", "newest"])
def test_wheel_in_an_empty_environment_plans_from_the_root_folder(which: str, wheel: Path, tmp_path: Path) -> None:
    python = sys.executable if which == "this" else newest_python()
    if python is None:
        pytest.skip(f"no Python newer than 3.{sys.version_info.minor} is installed here")
    subprocess.run([python, "-m", "venv", tmp_path / "venv"], check=True)
    tools = tmp_path / "venv/bin"
    subprocess.run([tools / "pip", "install", "--quiet", wheel], check=True)
    site = tmp_path / "site"
    shutil.copytree(ROOT / "inventories/ga660m", site)
    (site / "plan.json").unlink()
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [tools / "llmhw-provision", "plan", "--site", site],
        cwd="/",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (site / "plan.json").read_text() == (ROOT / "inventories/ga660m/plan.json").read_text()
    locate = "from llmhw_provision.content import content_root; print(content_root())"
    found = subprocess.run([tools / "python", "-c", locate], cwd="/", env=environment, capture_output=True, text=True)
    content = Path(found.stdout.strip())
    assert content.is_relative_to(tmp_path)
    check = [tools / "ansible-playbook", "--syntax-check", "-i", site / "inventory/hosts.yml"]
    syntax = subprocess.run(
        [*check, content / "playbooks/site.yml"],
        cwd="/",
        env={**environment, "ANSIBLE_ROLES_PATH": str(content / "roles")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert syntax.returncode == 0, syntax.stderr


def test_wheel_holds_no_test_code(wheel: Path) -> None:
    listed = subprocess.run([sys.executable, "-m", "zipfile", "-l", wheel], capture_output=True, text=True, check=True)
    names = [line.split()[0] for line in listed.stdout.splitlines()[1:]]
    assert any(name.startswith("llmhw_provision/_ansible/playbooks/") for name in names)
    locks = [name for name in names if name.startswith("llmhw_provision/_ansible/locks/")]
    assert len(locks) == 6
    assert not [name for name in names if "rehearsal" in name or name.startswith("tests") or "stand" in name]

"""Scripts and units among the launch files: their syntax, and what the copying of checkpoints does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.unit.launches import CASES, case


@pytest.mark.parametrize("name", CASES)
def test_scripts_are_bash(name: str) -> None:
    _, files = case(name)
    for file in (file for file in files.values() if file.executable):
        assert file.text.startswith("#!/bin/bash\n")
        done = subprocess.run(["bash", "-n"], input=file.text, capture_output=True, text=True, check=False)
        assert done.stderr == "", file.path


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    paths = []
    for name in CASES:
        for file in case(name)[1].values():
            if file.path.endswith(".service"):
                paths.append(tmp_path / file.path)
                # the programs are not on this machine; everything else is as written
                text = re.sub(r"(/opt/llmhw/envs/serve/bin/vllm|/usr/bin/docker)", "/bin/true", file.text)
                paths[-1].write_text(text.replace("User=vllm", "User=daemon"), encoding="utf-8")
    (tmp_path / "docker.service").write_text("[Service]\nExecStart=/bin/true\n", encoding="utf-8")
    broken = tmp_path / "broken.service"
    broken.write_text(paths[0].read_text().replace("Restart=on-failure", "Restart=sometimes"), encoding="utf-8")
    variables = {**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"}

    def said(*units: Path) -> list[str]:
        command = ["systemd-analyze", "verify", "--man=no", *map(str, units)]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        return [
            line for line in done.stderr.splitlines() if str(tmp_path) in line or any(u.name in line for u in units)
        ]

    assert said(*paths) == []
    assert any("sometimes" in line for line in said(broken))


def _copier(tmp_path: Path) -> tuple[Path, Path, Path]:
    setup, files = case("lora-8b-a330")
    source, target = tmp_path / "scratch", tmp_path / "project/checkpoints"
    text = (
        files["copy-checkpoints.sh"]
        .text.replace(setup.output, str(source))
        .replace(f"{setup.kept}/checkpoints", str(target))
    )
    script = tmp_path / "copy.sh"
    script.write_text(text, encoding="utf-8")
    source.mkdir()
    return script, source, target


def _checkpoint(folder: Path, *, age: int) -> None:
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "trainer_state.json").write_text("{}", encoding="utf-8")
    os.utime(folder / "trainer_state.json", (time.time() - age, time.time() - age))


def test_finished_checkpoints_are_copied_and_unfinished_ones_are_not(tmp_path: Path) -> None:
    script, source, target = _copier(tmp_path)
    _checkpoint(source / "checkpoint-100", age=120)
    _checkpoint(source / "checkpoint-200", age=0)
    (source / "checkpoint-300").mkdir()  # being written: no trainer_state.json
    with subprocess.Popen(["bash", script], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert "copied checkpoint-100" in running.stdout.readline()
        assert sorted(path.name for path in target.iterdir()) == ["checkpoint-100"]
        running.terminate()  # training is over
        assert running.wait(timeout=20) == 0
    assert sorted(path.name for path in target.iterdir()) == ["checkpoint-100", "checkpoint-200"]
    assert (target / "checkpoint-200/model.safetensors").read_bytes() == b"weights"


def test_start_refuses_another_folder_than_its_paths_name(tmp_path: Path) -> None:
    setup, files = case("lora-8b-a330")
    (tmp_path / "start.sh").write_text(files["start.sh"].text, encoding="utf-8")
    done = subprocess.run(["bash", tmp_path / "start.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"error: these files belong into {setup.kept}/launch" in done.stderr

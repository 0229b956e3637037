"""The other estimators: their versions, an environment for each, and their answers to the same cases."""

from __future__ import annotations

import json
import os
import subprocess
import venv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DRIVER = Path(__file__).with_name("sizing_peers_drive.py")
TORCH = ("torch==2.13.0", "transformers==4.57.6")
# peer → environment, what pip is asked for, further pip commands before it
PEERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "fitcheck-llm": ("hub", ("fitcheck-llm==0.3.1",)),
    "vramcalc": ("hub", ("vramcalc==0.1.2",)),
    "hf-mem": ("hub", ("hf-mem==0.5.6",)),
    "llm-analysis": ("llm-analysis", ("llm-analysis==0.2.2",)),
    "accelerate": ("torch", (*TORCH, "accelerate==1.15.0")),
    "deepspeed": ("torch", (*TORCH, "setuptools==80.9.0", "wheel==0.45.1", "deepspeed==0.18.2")),
}
_LIMIT_S = 1800


@dataclass
class Result:
    """What one peer said: bytes by case, reasons for the rest, or why it did not run at all."""

    answers: dict[str, float] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    problem: str = ""


def environment(home: Path, peer: str) -> Path:
    """The interpreter of a peer's environment, made when it is missing; raises RuntimeError with what pip said."""
    name, packages = PEERS[peer]
    folder = home / name
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    done = folder / f"{peer}.installed"
    if done.exists() and done.read_text() == "\n".join(packages):
        return python
    for group in _groups(packages):
        tried = [str(python), "-m", "pip", "install", "--disable-pip-version-check", *group]
        result = subprocess.run(tried, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        if result.returncode:
            lines = [line for line in result.stderr.splitlines() if line.strip()]
            raise RuntimeError(f"`pip install {' '.join(group)}`: {lines[-1] if lines else 'failed'}")
    done.write_text("\n".join(packages))
    return python


def _groups(packages: tuple[str, ...]) -> list[list[str]]:
    """What a source package builds against comes first, and is then used instead of an isolated copy."""
    if not any(item.startswith("deepspeed") for item in packages):
        return [list(packages)]
    return [list(packages[:-1]), ["--no-build-isolation", packages[-1]]]


def ask(home: Path, peer: str, cases: list[dict[str, Any]]) -> Result:
    """The answers of one peer."""
    try:
        python = environment(home, peer)
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        return Result(problem=f"not installed: {error}")
    quiet = {
        "HF_HUB_OFFLINE": "1",
        "DS_ACCELERATOR": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
        "TOKENIZERS_PARALLELISM": "false",
    }
    done = subprocess.run(
        [str(python), str(DRIVER), peer],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        env={**os.environ, **quiet},
        check=False,
    )
    if done.returncode:
        return Result(problem=f"did not run: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    found = json.loads(done.stdout)
    times = {case["id"]: case["times"] for case in cases}
    answers = {item["id"]: item["bytes"] * times[item["id"]] for item in found if item["bytes"] is not None}
    return Result(answers, {item["id"]: item["reason"] for item in found if item["bytes"] is None})

"""A host for the module python_env in a folder: real uv, real environments, wheels made here."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import platform
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

UV = Path(sys.executable).with_name("uv")
VERSION = subprocess.run([UV, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
PYTHON = platform.python_version()
MODULE = Path(__file__).resolve().parents[2] / "roles/python_env/library/python_env.py"
_RUNNER = """import json, runpy, sys
from tests.unit import role_modules
from ansible.module_utils import basic
basic._ANSIBLE_ARGS, basic._ANSIBLE_PROFILE = sys.stdin.buffer.read(), "legacy"
exec(sys.argv[2])
runpy.run_path(sys.argv[1], run_name="__main__")"""


def wheel(folder: Path, name: str, version: str, *requires: str, body: str = "VALUE = 1\n") -> Path:
    """A wheel with one importable package, as an index would have it."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        f"{name}/__init__.py": body,
        f"{info}/METADATA": metadata + "".join(f"Requires-Dist: {item}\n" for item in requires),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.writerow([path, f"sha256={digest}", len(text)])
    rows.writerow([f"{info}/RECORD", "", ""])
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for path, text in [*files.items(), (f"{info}/RECORD", record.getvalue())]:
            archive.writestr(path, text)
    return made


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def lock_of(*wheels: Path) -> str:
    """The text of a lock that allows exactly these files."""
    lines = ["# a lock\n\n"]
    for path in wheels:
        name, version = path.name.removesuffix(".tar.gz").split("-")[:2]
        lines.append(f"{name}=={version} \\\n    --hash=sha256:{digest(path)}\n    # via test\n")
    return "".join(lines)


@dataclass
class Host:
    """A host below `root`; `house` holds its wheels."""

    root: Path
    locks: dict[str, str] = field(default_factory=dict)
    environments: list[dict[str, Any]] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        program = self.root / f"llmhw/uv/{VERSION}/uv"
        program.parent.mkdir(parents=True)
        program.symlink_to(UV)
        python = self.root / f"llmhw/python/cpython-{PYTHON}-test/bin"
        python.mkdir(parents=True)
        (python / f"python3.{sys.version_info.minor}").symlink_to(Path(sys.base_prefix) / "bin/python3")
        self.house.mkdir()

    @property
    def house(self) -> Path:
        return self.root / "house"

    @property
    def store(self) -> Path:
        return self.root / "scratch/envs"

    def link(self, name: str = "lab") -> Path:
        return self.root / "llmhw/envs" / name

    def wheel(self, name: str, version: str, *requires: str, **more: str) -> Path:
        return wheel(self.house, name, version, *requires, **more)

    def want(self, *wheels: Path, name: str = "lab", **changes: Any) -> None:
        """The environment `name` shall hold these wheels."""
        text = lock_of(*wheels)
        self.locks[name] = text
        self.environments = [item for item in self.environments if item["name"] != name]
        self.environments.append(
            {
                "name": name,
                "lock": name,
                "sha256": hashlib.sha256(text.encode()).hexdigest(),
                "interpreter": PYTHON,
                "cuda": "",
                "build_after": [],
                "imports": [path.name.split("-")[0] for path in wheels],
                "accepts": [],
                "use": "planned",
                **changes,
            }
        )

    def configuration(self) -> dict[str, Any]:
        """What the role is given."""
        return {
            "root": str(self.root / "llmhw"),
            "store": str(self.store),
            "cache": str(self.root / "scratch/cache"),
            "index": "https://index.invalid/simple",
            "wheels": {"path": str(self.house), "only": True},
            "uv": {"version": VERSION, "wheel": f"uv-{VERSION}-py3-none-any.whl", "sha256": "0" * 64},
            "interpreters": [{"version": PYTHON, "source": "managed", "mirror": None, "packages": []}],
            "environments": self.environments,
            **self.config,
        }

    def apply(self, *, check: bool = False, before: str = "") -> dict[str, Any]:
        """What the module answers; `before` is run in its process first."""
        arguments = {"config": self.configuration(), "locks": self.locks, "_ansible_check_mode": check}
        done = subprocess.run(
            [sys.executable, "-c", _RUNNER, MODULE, before],
            input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
            capture_output=True,
            text=True,
            check=False,
            cwd=MODULE.parents[3],
            env={**os.environ, "PYTHONPATH": str(MODULE.parents[3])},
            timeout=1800,
        )
        if not done.stdout.strip():
            return {"died": done.returncode, "stderr": done.stderr}
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer

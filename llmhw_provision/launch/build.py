"""launch(plan, need, site) → files: those of each group of GPUs, in a folder of its own where there are several."""

from __future__ import annotations

from dataclasses import replace

from llmhw_provision.errors import InputError, Problem
from llmhw_provision.launch import accelerate, scripts, serving
from llmhw_provision.launch.choose import IN_CONTAINERS, framework
from llmhw_provision.launch.containers import container
from llmhw_provision.launch.deepspeed import deepspeed
from llmhw_provision.launch.files import LaunchFile
from llmhw_provision.launch.llamafactory import llamafactory
from llmhw_provision.launch.megatron import megatron
from llmhw_provision.launch.nccl import nccl
from llmhw_provision.launch.setup import Setup
from llmhw_provision.launch.trl import grpo
from llmhw_provision.plan.model import Plan
from llmhw_provision.site import Site
from llmhw_provision.sizing.need import Need
from llmhw_provision.workload import FrameworkName

_ALONE = ("actor", "critic", "rollout engine")


def launch_files(plan: Plan, need: Need, site: Site) -> tuple[LaunchFile, ...]:
    """All files; raises InputError with everything that stands against them."""
    if not plan.work:
        raise InputError(
            "launch: the plan knows no GPU that work could be laid out for", "run discover and plan, see plan's notes"
        )
    found: list[LaunchFile] = []
    problems: list[Problem] = []
    for number, work in enumerate(plan.work, 1):
        try:
            split = [group for group in plan.work if set(group.roles) & set(_ALONE)]
            if len(split) > 1 and work in split:
                what = ", ".join(work.roles)
                raise InputError(
                    f"launch: {what} on GPUs of their own: no framework of the locks starts them so",
                    "write placement: colocated, or start them with a framework of your own",
                )
            files = group_files(Setup(plan, need, site, work))
        except InputError as error:
            problems += error.problems
            continue
        prefix = f"group{number}-{work.roles[0]}/" if len(plan.work) > 1 else ""
        found += [replace(file, path=prefix + file.path) for file in files]
    if problems:
        raise InputError.of(problems)
    return tuple(found)


def group_files(setup: Setup) -> tuple[LaunchFile, ...]:
    """The files of one group."""
    name = framework(setup)
    if name == "vllm":
        return (*serving.vllm(setup), nccl(setup))
    if name in IN_CONTAINERS:
        return container(setup, name)
    files = (*_training(setup, name), nccl(setup), scripts.start(setup, name))
    if not (name == "megatron" and setup.nodes > 1):
        files += (scripts.copy_checkpoints(setup, name),)
    slurm = setup.stack is not None and setup.stack.slurm is not None
    return (*files, scripts.sbatch(setup)) if slurm or setup.nodes > 1 else files


def _training(setup: Setup, name: FrameworkName) -> tuple[LaunchFile, ...]:
    if name == "megatron":
        return (megatron(setup),)
    kind = accelerate.sharding(setup)
    found = (deepspeed(setup),) if kind == "deepspeed" else ()
    if name == "llamafactory":
        files = llamafactory(setup)
        if kind == "fsdp":
            files += (accelerate.accelerate(setup, recompute=False),)
        return (*found, *files)
    files = (accelerate.accelerate(setup, recompute=name == "accelerate"),)
    return (*found, *files, grpo(setup)) if name == "trl" else (*found, *files)

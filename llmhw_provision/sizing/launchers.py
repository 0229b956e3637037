"""What the programs that start training can do: a layout is chosen only where one of them can start it.

Megatron-LM alone divides tensors, layers, sequences and experts; Accelerate, LLaMA-Factory and TRL divide by ZeRO and
FSDP. Sources: megatron-core 0.19.2, pretrain_gpt.py and training/arguments.py; LLaMA-Factory 0.9, TRL 1.7 trainers.
"""

from __future__ import annotations

from llmhw_provision.model import Architecture
from llmhw_provision.sizing.job import Job, Layout

SPLITTING_JOBS = ("pretrain", "sft")  # those of pretrain_gpt.py
SPLITTING_SCHEMES = ("mixed", "mixed-fp32-grads", "fp8", "fp32")
SPLITTING_OPTIMIZERS = ("adamw", "sgd")
ON_HOST = ("adamw",)  # optimizers that DeepSpeed steps on the CPU


def no_arguments(model: Architecture) -> str:
    """What of the model Megatron-LM's pretrain_gpt.py has no arguments for; empty: it builds the model."""
    odd = {
        "sliding windows": model.sliding_layers,
        "linear attention": model.linear_layers,
        "cross attention": model.cross_layers,
        "a vision tower": model.vision_parameters,
        "learned positions": model.position_rows,
        "attention sinks": model.sinks,
        "gated attention": model.gated_attention,
    }
    return ", ".join(name for name, there in odd.items() if there)


def cannot_split(model: Architecture, job: Job) -> str:
    """Why no program divides this model for this job beyond ZeRO and FSDP; empty: Megatron-LM does.

    A mere count of parameters is no model that could be started: nothing is held against it.
    """
    if job.method != "full":
        return "PEFT, with which adapters are trained, divides by ZeRO and FSDP only"
    if job.kind not in SPLITTING_JOBS:
        return f"the trainers of {job.kind} divide by ZeRO and FSDP only"
    if has := no_arguments(model):
        return f"Megatron-LM has no arguments for {has}"
    if job.optimizer not in SPLITTING_OPTIMIZERS:
        return f"Megatron-LM has no optimizer {job.optimizer}"
    return "" if job.scheme in SPLITTING_SCHEMES else f"Megatron-LM has no precision {job.scheme}"


def counted_as_layers(model: Architecture, layout: Layout) -> tuple[str, ...] | None:
    """What must count as a layer beside the layers so that all stages hold as many; None when nothing helps."""
    chunks = layout.pp * layout.vpp
    for names in ((), ("loss",), ("embedding", "loss")):
        if (model.layers + len(names)) % chunks == 0:
            return names
    return None

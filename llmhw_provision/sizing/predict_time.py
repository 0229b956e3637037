"""What the engine says to published cases of training speed."""

from __future__ import annotations

from dataclasses import replace

from llmhw_provision.sizing import case_time, flops
from llmhw_provision.sizing.case_error import Unsupported
from llmhw_provision.sizing.cases import Answer, Setup
from llmhw_provision.sizing.compute import training_step
from llmhw_provision.sizing.efficiency import Efficiency
from llmhw_provision.sizing.job import Layout
from llmhw_provision.sizing.step import Step


def step_of(of: Setup, use: Efficiency | None = None, run: case_time.Timed | None = None) -> tuple[Step, Layout]:
    """The step of a case and the layout that was timed."""
    run = run or case_time.timed(of)
    job = replace(of.job, flash=case_time.fused_attention(of), compile=of.job.compile or "container" in of.inputs)
    return training_step(of.architecture, job, run.layout, run.links, fp8=run.fp8, use=use), run.layout


def throughput_case(of: Setup, use: Efficiency | None = None, run: case_time.Timed | None = None) -> Answer:
    """Speed of training."""
    step, layout = step_of(of, use, run)
    if of.says("iteration time") and of.unit == "s":
        return step.seconds
    if of.says("tokens/s") and of.unit == "tok/s":
        return step.per_gpu * (of.layout.gpus if not of.says("per GPU") else 1)
    if of.unit != "TFLOP/s":
        raise Unsupported(f"unit {of.unit!r}")
    achieved = step.per_gpu * step.model_flops / 1e12
    if of.says("model TFLOP/s"):
        return achieved
    hardware = of.says("HFU") or "hardware" in of.inputs.get("flops_convention", "")
    fused = case_time.fused_attention(of)
    if hardware or of.says("achieved TFLOP/s"):
        return achieved * flops.hardware_ratio(of.architecture, of.job.sequence, layout.recompute, fused=fused)
    return achieved


def mfu_case(of: Setup, use: Efficiency | None = None, run: case_time.Timed | None = None) -> Answer:
    """MFU in percent."""
    step, layout = step_of(of, use, run)
    if of.says("HFU"):
        fused = case_time.fused_attention(of)
        return 100 * step.mfu * flops.hardware_ratio(of.architecture, of.job.sequence, layout.recompute, fused=fused)
    return 100 * step.mfu


def flops_case(of: Setup) -> Answer:
    """FLOPs per token, or what recomputation adds."""
    if of.unit == "ratio":
        fused = case_time.fused_attention(of)
        return flops.hardware_ratio(of.architecture, of.job.sequence, of.layout.recompute, fused=fused)
    # figures in GFLOP are NeMo's, whose TFLOP/s leave out the embedding and the masked half
    convention: flops.Convention = "6N+6Lhs" if of.unit.startswith("GFLOP") else flops.DEFAULT
    count = flops.per_token(of.architecture, of.job.sequence, convention)
    return count / {"FLOP/token": 1, "GFLOP/token": 1e9, "TFLOP/token": 1e12}[of.unit]


def train_time_case(of: Setup) -> Answer:
    """GPU hours."""
    tokens = float(of.inputs["tokens"])
    job = replace(of.job, sequence=of.inputs.get("seq", 8192))
    named = {"gpus", "tp", "pp", "fsdp", "zero"} & set(of.inputs)
    run = replace(of, job=job) if named else replace(of, job=job, layout=case_time.usual_layout(of))
    step, _ = step_of(run, run=case_time.timed(run, chosen=not named))
    hours = tokens / step.per_gpu / 3600
    scale = {"GPU-hours": 1.0, "k GPU-hours": 1e3, "M GPU-hours": 1e6}
    if of.unit in scale:
        return hours / scale[of.unit]
    if of.unit in ("h", "days") and "gpus" in of.inputs:
        return hours / int(of.inputs["gpus"]) / (24 if of.unit == "days" else 1)
    raise Unsupported(f"unit {of.unit!r}")

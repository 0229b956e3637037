"""What the engine says to published cases of serving speed."""

from __future__ import annotations

from dataclasses import replace

from llmhw_provision.sizing.case_error import Unsupported
from llmhw_provision.sizing.case_time import chip
from llmhw_provision.sizing.cases import Answer, Setup
from llmhw_provision.sizing.decode import Engine, Serving, end_to_end, step_seconds
from llmhw_provision.sizing.formats import format_of
from llmhw_provision.sizing.network import PCIE_COPY

_NVME = 6.8e9  # bytes/s of one Gen4 drive, Samsung PM9A3 data sheet


def engine(of: Setup) -> Engine:
    """Who serves: graphs of a compiler where nobody is named, as all serious engines have them."""
    name = of.inputs.get("framework", "")
    if name.startswith(("vLLM 0.6", "vLLM 0.5")):
        return "vllm-0.6"
    if name.startswith("vLLM"):
        return "vllm"
    if name.startswith(("transformers", "HF")):
        return "eager"
    return "compiled"


def served(of: Setup) -> Serving:
    """The case as it is served."""
    prompt, new = of.inputs.get("prompt", 0), of.inputs.get("new_tokens", 0)
    live = prompt + (new if isinstance(new, int) else 0) // 2  # half of the answer on average
    return Serving(
        model=of.architecture,
        weights=of.job.weights,
        layout=replace(of.layout, gpus=of.layout.tp * of.layout.pp),
        chip=chip(of.inputs),
        batch=of.inputs.get("batch", 1),
        context=of.inputs.get("context", live),
        cache=of.job.kv,
        engine=engine(of),
    )


def decode_case(of: Setup) -> Answer:
    """Tokens per second, or the share of memory bandwidth."""
    serving = served(of)
    seconds = step_seconds(serving)
    if of.unit == "fraction":
        return serving.read / seconds / serving.chip.bandwidth
    if of.unit in ("ms", "s"):
        return seconds * (1000 if of.unit == "ms" else 1)
    if of.unit != "tok/s":
        raise Unsupported(f"unit {of.unit!r}")
    if "prefill" in of.inputs.get("note_long", ""):
        return serving.batch * end_to_end(serving, of.inputs["prompt"], of.inputs["new_tokens"])
    return serving.batch / seconds


def offload_infer_case(of: Setup) -> Answer:
    """Generation with weights that every step brings over PCIe or from NVMe: ZeRO-Inference."""
    found = chip(of.inputs)
    count = of.inputs.get("gpus", 1)
    copy = PCIE_COPY[found.pcie] * count  # each GPU fetches a part of a layer
    if of.layout.nvme:
        copy = min(copy, _NVME)
    form = format_of(of.architecture, of.job.weights)
    size: float = sum(matrix.weights * float(form.bytes_of(matrix.group)) for matrix in of.architecture.matrices)
    size += max(0, of.architecture.parameters - of.architecture.matrix_parameters) * form.rest
    return float(of.inputs.get("batch", 1) * copy / size)

"""Model states on one GPU: weights, gradients, optimizer, adapters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from llmhw_provision.model import Architecture
from llmhw_provision.sizing.formats import Format, format_of
from llmhw_provision.sizing.job import Job, Layout, Optimizer, Scheme, under
from llmhw_provision.sizing.shards import Part, held, parameters
from llmhw_provision.sizing.terms import Term, divided, number, up

ZERO = "ZeRO, Rajbhandari et al. 2020, arXiv 1910.02054, section 3"
PEFT = "Hugging Face PEFT, prepare_model_for_kbit_training: 16-bit parameters of a quantised model become fp32"
LORA = "LoRA, Hu et al. 2021, arXiv 2106.09685, sections 4 and 5: rank × (inputs + outputs) per adapted matrix"
_SCHEMES: dict[Scheme, tuple[int, int, int, str]] = {
    # weights, gradients, fp32 master copy in bytes per parameter
    "mixed": (2, 2, 4, ZERO),
    "mixed-fp32-grads": (2, 4, 4, "Megatron-LM docs, distributed optimizer: 18 bytes per parameter"),
    "fp32-params": (4, 4, 0, "PyTorch FSDP mixed precision: fp32 shards, bf16 copies only while gathered"),
    "pure": (2, 2, 0, "torchtune, LLaMA-Factory pure_bf16: 8 bytes per parameter"),
    "fp32": (4, 4, 0, "bytes of the number format"),
    "fp8": (4, 4, 4, "Transformer Engine: bf16 weights plus a forward and a transposed FP8 copy, fp32 gradients"),
}
_BITS_8 = (
    "8-bit Optimizers, Dettmers et al. 2021, arXiv 2110.02861: one byte and 1/512 of block constants per state; "
    "embeddings keep 32-bit states (section 2.3)"
)
_BYTE_STATE = 1 + Fraction(4, 2048)
_FULL_STATE = Fraction(4)
_OPTIMIZERS: dict[Optimizer, str] = {
    "adamw": "Adam, Kingma and Ba 2015: two moments",
    "adamw-8bit": _BITS_8,
    "paged-adamw-8bit": _BITS_8 + "; paged: in CUDA managed memory, which moves to the host",
    "adafactor": "Adafactor, Shazeer and Stern 2018, arXiv 1804.04235: one row and one column sum per matrix",
    "muon": "Muon: one momentum per matrix, AdamW for the rest",
    "sgd": "SGD with momentum: one momentum",
    "galore-8bit": "GaLore, Zhao et al. 2024, arXiv 2403.03507, table 1: 8-bit moments of a rank-r projection",
}
_GALORE_SHARE = Fraction(1, 4)  # rank 1024 of 4096, the setting of the paper's 7B run


@dataclass(frozen=True)
class States:
    """Bytes of one GPU by what they are, and what an offload sends to the host instead."""

    weights: Term
    gradients: Term | None
    optimizer: Term | None
    adapters: Term | None
    gradient_unit: Term | None = None  # all gradients that live at once when the optimizer runs in backward


def frozen_weights(model: Architecture, layout: Layout, stage: str, form: Format) -> Term:
    """Weights as they are served, or as the frozen base of adapters; divided only by ZeRO-3 and FSDP."""
    parts = held(model, layout, stage)
    if layout.zero < 3:
        parts = tuple(Part(part.group, part.parameters) for part in parts)
    size = sum(up(part.divided * form.bytes_of(part.group)) for part in parts)
    quantised = sum(part.divided for part in parts if form.bytes_of(part.group) == form.bits / 8)
    rest = sum(part.divided for part in parts) - quantised
    text = f"{quantised:,} parameters × {number(form.bits / 8)} B"
    if rest:
        text += f" + {rest:,} × {form.rest} B"
    return Term(f"weights {form.name}", size, text + _split(layout, layout.zero >= 3), form.source)


def frozen_format(model: Architecture, job: Job) -> Format:
    """How the frozen base of adapters is stored: NF4 where QLoRA names no format.

    Hugging Face training prepares a quantised base with PEFT, which turns all that stays unquantised into fp32.
    """
    form = format_of(model, "nf4-dq" if job.method == "qlora" and job.weights == "bf16" else job.weights)
    if job.method == "qlora" and job.loss == "trainer":
        return replace(form, rest=4, source=f"{form.source}; {PEFT}")
    return form


def training_states(model: Architecture, job: Job, layout: Layout, stage: str = "only") -> States:
    """States of one GPU at `stage` of the pipeline."""
    job = under(job, layout)
    if job.method != "full":
        form = frozen_format(model, job)
        return States(frozen_weights(model, layout, stage, form), None, None, adapters(model, job, layout))
    parts = held(model, layout, stage)
    if job.state_bytes:
        return _stated(parts, job, layout)
    weight, gradient, _, source = _SCHEMES[job.scheme]
    weights = _per_parameter(f"weights {_dtype(weight)}", parts, weight, layout.zero >= 3, layout, source)
    gradients = _per_parameter(f"gradients {_dtype(gradient)}", parts, gradient, layout.zero >= 2, layout, source)
    if job.in_backward:
        unit = max(model.layer_parameters, model.vocab * model.hidden)
        text = f"{unit:,} parameters of the largest unit × {gradient} B"
        return States(
            weights,
            None,
            optimizer(model, job, layout, parts),
            None,
            Term("gradients of one unit", divided(gradient * unit, layout.tp), text, "optimizer step inside backward"),
        )
    return States(weights, gradients, optimizer(model, job, layout, parts), None)


def optimizer(model: Architecture, job: Job, layout: Layout, parts: tuple[Part, ...]) -> Term:
    """Optimizer states of one GPU, fp32 master copy included."""
    master = _SCHEMES[job.scheme][2]
    each = master + moment_bytes(job)
    split = layout.zero >= 1
    name, source = f"optimizer {job.optimizer}", _OPTIMIZERS[job.optimizer]
    if job.optimizer == "adafactor":
        sums = sum((matrix.inputs + matrix.outputs) * matrix.count for matrix in model.matrices)
        sums = divided(sums, layout.tp * layout.pp * (layout.shards if split else 1))
        count = _count(parts, split)
        text = f"{sums:,} row and column sums × 4 B" + (f" + {count:,} × {master} B" if master else "")
        return Term(name, 4 * sums + master * count, text, source)
    if job.optimizer == "muon":
        matrices = tuple(part for part in parts if part.group not in ("embedding", "head", "vectors", "other"))
        rest = tuple(part for part in parts if part not in matrices)
        one = up(moment_bytes(job) / 2)
        first, second = _count(matrices, split), _count(rest, split)
        text = f"{first:,} × {master + one} B + {second:,} embedding, head and norms × {master + 2 * one} B"
        return Term(name, first * (master + one) + second * (master + 2 * one), text, source)
    if job.optimizer == "galore-8bit":
        matrices = tuple(part for part in parts if part.group not in ("embedding", "head", "vectors", "other"))
        rest = tuple(part for part in parts if part not in matrices)
        first, second = _count(matrices, split), _count(rest, split)
        low = 2 * _BYTE_STATE * _GALORE_SHARE + _GALORE_SHARE * _GALORE_SHARE * 2  # moments, then the projector
        text = f"{first:,} × {number(low)} B + {second:,} × {number(2 * _BYTE_STATE)} B"
        return Term(name, up(first * low + second * 2 * _BYTE_STATE), text, source)
    if job.optimizer == "paged-adamw-8bit":
        return Term(name, 0, "0 B on the GPU: paged to the host", source)
    if job.optimizer == "adamw-8bit":
        return _eight_bit(name, parts, split, master, source)
    return _per_parameter(name, parts, each, split, layout, source + (f"; {ZERO}" if master else ""))


def _eight_bit(name: str, parts: tuple[Part, ...], split: bool, master: int, source: str) -> Term:
    embedding = tuple(part for part in parts if part.group == "embedding")
    rest = tuple(part for part in parts if part.group != "embedding")
    first, second = _count(rest, split), _count(embedding, split)
    low, full = master + 2 * _BYTE_STATE, master + 2 * _FULL_STATE
    text = f"{first:,} × {number(low)} B" + (f" + {second:,} of the embedding × {number(full)} B" if second else "")
    return Term(name, up(first * low + second * full), text, source)


def moment_bytes(job: Job) -> Fraction:
    """Bytes of moments per parameter, master copy left out; with 8-bit optimizers those of a matrix."""
    one = Fraction(2) if job.scheme == "pure" else _FULL_STATE
    if job.optimizer in ("adamw-8bit", "paged-adamw-8bit", "galore-8bit"):
        return 2 * _BYTE_STATE
    if job.optimizer == "adafactor":
        return Fraction(0)
    return one if job.optimizer == "sgd" else 2 * one


def optimizer_bytes(job: Job) -> Fraction:
    """Bytes of optimizer states per parameter, fp32 master copy included."""
    return _SCHEMES[job.scheme][2] + moment_bytes(job)


def gradient_bytes(job: Job) -> int:
    """Bytes of the gradient per parameter."""
    return _SCHEMES[job.scheme][1]


def weight_bytes(job: Job) -> int:
    """Bytes of the trained weight per parameter."""
    return _SCHEMES[job.scheme][0]


def lora_parameters(model: Architecture, job: Job) -> int:
    """Parameters of the LoRA adapters, experts included when they are adapted."""
    if job.adapter_parameters:
        return job.adapter_parameters
    chosen = [
        matrix for matrix in model.matrices if (matrix.name in job.adapted if job.adapted else matrix.group != "router")
    ]
    return job.rank * sum((matrix.inputs + matrix.outputs) * matrix.count for matrix in chosen)


def adapters(model: Architecture, job: Job, layout: Layout) -> Term:
    """Adapters with gradient and optimizer; ZeRO divides them by its stage, FSDP wholly."""
    count = divided(lora_parameters(model, job), layout.tp * layout.pp)
    weight, gradient, _, _ = _SCHEMES[job.scheme]
    each = Fraction(job.adapter_bytes) or weight + gradient + optimizer_bytes(job)
    state = each - weight - gradient
    ways = (layout.shards if layout.zero >= 3 else 1, layout.shards if layout.zero >= 2 else 1)
    step = layout.shards if layout.zero >= 1 else 1
    size = divided(weight * count, ways[0]) + divided(gradient * count, ways[1]) + up(state * count / step)
    text = f"{count:,} adapter parameters (rank {job.rank}) × {number(each)} B" + _split(layout, layout.zero >= 1)
    return Term("adapters with optimizer", size, text, f"{LORA}; {ZERO}")


def _stated(parts: tuple[Part, ...], job: Job, layout: Layout) -> States:
    """Bytes per parameter as a source states them: 2 for the weights, 2 for the gradients, the rest optimizer."""
    source = f"{job.state_bytes} bytes per parameter as stated"
    return States(
        _per_parameter("weights", parts, 2, layout.zero >= 3, layout, source),
        _per_parameter("gradients", parts, 2, layout.zero >= 2, layout, source),
        _per_parameter("optimizer", parts, job.state_bytes - 4, layout.zero >= 1, layout, source),
        None,
    )


def _count(parts: tuple[Part, ...], split: bool) -> int:
    return sum(part.divided for part in parts) if split else parameters(parts)


def _per_parameter(
    name: str, parts: tuple[Part, ...], each: Fraction | int, split: bool, layout: Layout, source: str
) -> Term:
    text = f"{parameters(parts):,} parameters × {number(each)} B" + _split(layout, split)
    return Term(name, up(_count(parts, split) * each), text, source)


def _split(layout: Layout, split: bool) -> str:
    return f" / {layout.shards} ranks" if split and layout.shards > 1 else ""


def _dtype(size: int) -> str:
    return "fp32" if size == 4 else "bf16"

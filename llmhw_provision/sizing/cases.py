"""A published case's inputs → the engine's ordinary options. No numbers of its own: what is not said stays default."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from llmhw_provision.catalogue.loader import ModelKind, find
from llmhw_provision.errors import InputError
from llmhw_provision.model import Architecture, from_dimensions, from_parameters
from llmhw_provision.sizing.cards import Card, find_card, generic_card
from llmhw_provision.sizing.case_error import Unsupported
from llmhw_provision.sizing.case_job import job as job_of
from llmhw_provision.sizing.case_layout import layout as layout_of
from llmhw_provision.sizing.job import Job, Layout
from llmhw_provision.sizing.serving import Known
from llmhw_provision.sizing.terms import Term
from llmhw_provision.units import GB, GIB, KIB, MB, MIB, TB, TIB

Answer = float | bool
_UNITS = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB, "MB": MB, "GB": GB, "TB": TB}


@dataclass(frozen=True)
class Setup:
    """A case in the engine's terms. `model` is None when a case describes none."""

    quantity: str
    unit: str
    inputs: dict[str, Any]
    models: dict[str, Any]
    model: Architecture | None
    job: Job
    layout: Layout
    card: Card | None
    context: Term | None
    known: Known = field(default_factory=Known)

    @property
    def architecture(self) -> Architecture:
        """The model; raises Unsupported without one."""
        if self.model is None:
            raise Unsupported("no model, architecture or parameter count is given")
        return self.model

    @property
    def gpu(self) -> Card:
        """The card; raises Unsupported without one."""
        if self.card is None:
            raise Unsupported("no card is given")
        return self.card

    def says(self, *words: str) -> bool:
        """Whether the quantity that is asked for contains one of `words`."""
        return any(word in self.quantity for word in words)

    def in_unit(self, size: Fraction | int) -> float:
        """Bytes in the unit of the case; per token where the unit says so."""
        unit = self.unit.partition("/")[0]
        if unit not in _UNITS:
            raise Unsupported(f"unit {self.unit!r}")
        return float(Fraction(size) / _UNITS[unit])


# Keys that say where or when a figure was read, and such as memory does not follow: active parameters, FP8 compute.
SILENT = {
    "cluster",
    "container",
    "note_long",
    "remark",
    "system",
    "torch",
    "packed",
    "per_gpu_gbs",
    "float8",
    "active_params",
}
# Keys that the memory accounting honours; those of time and network cases are not among them.
KEYS = SILENT | set(
    """
    activation_gib activation_offload adapter_bytes_per_param arch attn batch block bytes_per_param
    chunked_prefill chunks compile content context cp cuda_module_loading dcp dist_opt dp dtype ep flash formula
    framework from_fsdp from_tokens fsdp gbs gpu gpu_gb gpu_total_gib gpus grad_accum head_dim host_ram_gb kv_bytes
    kv_heads kv_lora_rank kv_memory_gib largest_layer layers lora_params lora_targets loss max_model_len mbs method
    model model_parallel new_tokens nodes non_torch_gib offload optimizer optimizer_in_backward overhead params pp
    precision prompt quant rank recompute rope_dim rule schedule second_block seq settings sliding sp stage to_fsdp
    to_tokens tokens total_gib tp util vocab vp vpp weight weights_gib what workload zero zero_init
    """.split()  # noqa: SIM905 - 90 names read better as text
)

# Keys that only cases of speed, links and storage honour.
SPEED_KEYS = {"algo", "bytes", "checkpoint_bytes", "collective", "direction", "flops_convention", "link", "writers"}
SPEED_KINDS = {
    "train_throughput",
    "train_mfu",
    "train_time",
    "flops",
    "decode",
    "comm",
    "storage",
    "checkpoint",
    "offload_infer",
    "min_gpus",
}


def setup(case: dict[str, Any], models: dict[str, Any]) -> Setup:
    """The case as model, job, layout and card; raises Unsupported for what the engine cannot honour."""
    inputs = _whole(case["inputs"])
    unknown = sorted(set(inputs) - KEYS - (SPEED_KEYS if case.get("kind") in SPEED_KINDS else set()))
    if unknown:
        raise Unsupported(f"input {unknown[0]!r} is not known")
    if "settings" in inputs:
        raise Unsupported(f"settings: {inputs['settings']}")
    if inputs.get("stage", 0) != 0:
        raise Unsupported(f"stage {inputs['stage']}: only the first and the last pipeline stage are looked at")
    job, layout = job_of(inputs), layout_of(inputs)
    model = _model(inputs, _whole(models))
    if job.kind in ("ppo", "grpo") and "zero" not in inputs and layout.gpus > 1:
        layout = replace(layout, zero=3, sharder="fsdp")
    return Setup(
        quantity=case["quantity"],
        unit=case["unit"],
        inputs=inputs,
        models=_whole(models),
        model=model,
        job=job,
        layout=layout,
        card=_card(inputs),
        context=_context(inputs),
        known=_known(inputs),
    )


def _whole(value: Any) -> Any:
    """`value` without nulls and with whole counts: YAML also writes 8192.0, and reads 7e9 as text."""
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items() if item is not None}
    if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?[eE]\+?\d+", value):
        value = float(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def described(name: str, data: dict[str, Any], *, stated: bool) -> Architecture:
    """The model `name` as described under models; its catalogue entry where both have the same dimensions."""
    kind = _catalogued(name)
    same = ("hidden", "layers", "kv_heads", "vocab")
    if kind is not None and all(data.get(key) in (None, getattr(kind, key)) for key in same):
        return kind
    return _from_description(data, stated=stated)


def _catalogued(name: str) -> Architecture | None:
    try:
        return find("models", name, ModelKind).architecture
    except InputError:
        return None


def _from_description(data: dict[str, Any], *, stated: bool) -> Architecture:
    if not stated and not {"ffn", "vocab"} <= set(data):
        raise Unsupported("the description leaves out ffn or vocab")
    moe = data.get("experts", 0)
    width = data.get("moe_ffn", data.get("ffn", 0)) if moe else 0
    fields: dict[str, Any] = {
        key: data[key]
        for key in ("heads", "kv_heads", "head_dim", "ffn", "vocab", "tied", "experts", "experts_per_token")
        if key in data
    }
    fields |= {key: data[key] for key in ("sliding_window", "kv_lora_rank", "qk_rope_head_dim") if key in data}
    if "sliding_window" in data:
        fields["sliding_layers"] = data.get("sliding_layers", data["layers"])
    if moe:
        fields["moe_layers"] = data["layers"] - data.get("dense_layers", 0)
        fields["moe_ffn"] = width
        fields["shared_ffn"] = data.get("shared_experts", 0) * width
    if stated and "params" in data:
        fields["params"] = int(data["params"])
    if stated and "active_params" in data:
        fields["active"] = int(data["active_params"])
    gated = data.get("mlp", "swiglu") == "swiglu"
    return from_dimensions(
        hidden=data["hidden"], layers=data["layers"], gated=gated, **fields, **({} if gated else _GPT)
    )


def _model(inputs: dict[str, Any], models: dict[str, Any]) -> Architecture | None:
    found = _named(inputs, models)
    stated = {ours: inputs[theirs] for theirs, ours in _STATED if theirs in inputs}
    if found is None or not stated:
        return found
    if "sliding" in inputs and not found.sliding_layers:
        stated["sliding_layers"] = stated.get("layers", found.layers)
    return replace(found, **stated)


_STATED = (
    ("layers", "layers"),
    ("kv_heads", "kv_heads"),
    ("head_dim", "head_dim"),
    ("kv_lora_rank", "kv_lora_rank"),
    ("rope_dim", "qk_rope_head_dim"),
    ("sliding", "sliding_window"),
    ("vocab", "vocab"),
)


def _named(inputs: dict[str, Any], models: dict[str, Any]) -> Architecture | None:
    name = inputs.get("model")
    if name in models:
        return described(name, models[name], stated=True)
    kind = _catalogued(name) if name else None
    if kind is not None:
        return kind
    if "arch" in inputs:
        return _from_arch(inputs["arch"], inputs)
    if "params" in inputs:
        return from_parameters(int(inputs["params"]))
    if "layers" in inputs and ("kv_heads" in inputs or "kv_lora_rank" in inputs):
        heads, width = inputs.get("kv_heads", 1), inputs.get("head_dim", 1)
        return from_dimensions(hidden=heads * width, layers=inputs["layers"], kv_heads=heads, head_dim=width)
    if name is not None:
        raise Unsupported(f"model {name!r} is not described")
    return None


_ARCH_KEYS = {"h", "L", "heads", "kv_heads", "head_dim", "ff", "V", "seq", "mlp", "tied"}


def _from_arch(arch: dict[str, Any], inputs: dict[str, Any]) -> Architecture:
    unknown = sorted(set(arch) - _ARCH_KEYS)
    if unknown:
        raise Unsupported(f"arch {unknown[0]!r} is not known")
    gated = arch.get("mlp") == "swiglu"
    norm = {} if gated else _GPT
    return from_dimensions(
        hidden=arch["h"],
        layers=arch["L"],
        heads=arch.get("heads", 0),
        kv_heads=arch.get("kv_heads", 0),
        head_dim=arch.get("head_dim", 0),
        ffn=arch.get("ff", 0),
        vocab=arch.get("V", 0),
        gated=gated,
        tied=arch.get("tied", True),
        position_rows=arch.get("seq", 0),
        params=int(inputs.get("params", 0)),
        **norm,
    )


# biases on every matrix and LayerNorm, as in GPT-2 and GPT-3
_GPT: dict[str, Any] = {
    "norm_bias": True,
    "attention_bias": True,
    "output_bias": True,
    "mlp_bias": True,
    "family": "gpt",
}


def _card(inputs: dict[str, Any]) -> Card | None:
    for key in ("total_gib", "gpu_total_gib"):
        if key in inputs:
            return Card("as stated", int(inputs[key] * GIB), 0)
    if "gpu_gb" in inputs:
        return generic_card(int(inputs["gpu_gb"]))
    return find_card(inputs["gpu"]) if "gpu" in inputs else None


def _context(inputs: dict[str, Any]) -> Term | None:
    if "overhead" not in inputs:
        return None
    found = re.fullmatch(r"(\d+) MiB context", inputs["overhead"])
    if not found:
        raise Unsupported(f"overhead {inputs['overhead']!r}")
    return Term("CUDA context", int(found[1]) * MIB, inputs["overhead"], "stated", "overhead")


def _known(inputs: dict[str, Any]) -> Known:
    def size(key: str) -> int | None:
        return int(inputs[key] * GIB) if key in inputs else None

    return Known(size("weights_gib"), size("activation_gib"), size("non_torch_gib"))

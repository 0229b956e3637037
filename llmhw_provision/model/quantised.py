"""What `quantization_config` of a config.json says: method, bits, group size, and what stays unquantised."""

from __future__ import annotations

import re

from llmhw_provision.model.architecture import Group, Method, Quantisation
from llmhw_provision.model.fields import Fields

QUANTISED: tuple[Group, ...] = ("attention", "linear_attention", "mlp", "experts", "shared_experts")
# texts in the name of a module that stays unquantised -> group of matrices
_SPARED: dict[Group, tuple[str, ...]] = {
    "attention": ("self_attn",),
    "linear_attention": ("linear_attn",),
    "shared_experts": ("shared_expert.", "shared_experts"),
    "experts": ("mlp.experts",),
    "mlp": ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "mlp.gate_up_proj", "mlp\\.("),
}
_LAYER = re.compile(r"layers\.(\d{1,5})\.")
_FP8 = ("fp8", "fbgemm_fp8")
_SKIP_LISTS = ("modules_to_not_convert", "llm_int8_skip_modules", "ignore", "ignored_layers", "exclude_modules")


def quantisation(f: Fields, layers: int) -> Quantisation | None:
    """The quantisation of the stored weights of `layers` layers, None for a model in its own number format."""
    if not f.has("quantization_config", "compression_config"):
        return None
    q = f.nested("quantization_config" if f.has("quantization_config") else "compression_config")
    method = q.text("quant_method")
    spared = [name for key in _SKIP_LISTS for name in q.texts(key)]
    groups = tuple(group for group in QUANTISED if not _is_spared(group, spared, layers))
    if method == "gptq":
        return Quantisation(
            method="gptq", bits=_bits(q), group_size=_group(q), zero_points=True, groups=groups, head=_head(q)
        )
    if method == "awq":
        points = q.flag("zero_point", default=True)
        return Quantisation(
            method="awq", bits=_bits(q, "bits", "w_bit"), group_size=_group(q), zero_points=points, groups=groups
        )
    if method in _FP8:
        return Quantisation(method="fp8", bits=8, group_size=_fp8_block(q), groups=groups)
    if method == "mxfp4":
        return Quantisation(method="mxfp4", bits=4, group_size=32, groups=groups)
    if method == "bitsandbytes":
        return _bitsandbytes(q, groups)
    if method == "compressed-tensors":
        return _compressed(q, groups)
    known = ", ".join(("gptq", "awq", "fp8", "fbgemm_fp8", "mxfp4", "bitsandbytes", "compressed-tensors"))
    if not method:
        q.refuse("quant_method", "missing", f"known: {known}")
    else:
        q.refuse("quant_method", f"{method!r} is not known", f"known: {known}; or describe the model with --params")
    return None


def _is_spared(group: Group, names: list[str], layers: int) -> bool:
    """Whether a group stays unquantised: named without a layer, or in most of the layers."""
    found = [name for name in names if any(part in name for part in _SPARED[group])]
    numbers = [_LAYER.search(name) for name in found]
    if None in numbers:
        return True
    return 2 * len({match.group(1) for match in numbers if match}) > layers


def _bits(q: Fields, *names: str) -> int:
    return q.integer(*(names or ("bits",)), low=2, high=8)


def _group(q: Fields) -> int:
    """Weights per scale; -1 in the file means one scale per row."""
    return max(0, q.integer("group_size", "q_group_size", default=128, low=-1, high=100_000))


def _head(q: Fields) -> bool:
    return q.flag("lm_head", default=False)


def _fp8_block(q: Fields) -> int:
    size = 1
    for side in q.integers("weight_block_size"):
        size *= max(0, min(side, 100_000))
    return size if q.has("weight_block_size") else 0


def _bitsandbytes(q: Fields, groups: tuple[Group, ...]) -> Quantisation:
    four = q.flag("load_in_4bit", default=False) or q.flag("_load_in_4bit", default=False)
    if not four:
        return Quantisation(method="int8", bits=8, groups=groups)
    kind = q.text("bnb_4bit_quant_type", default="fp4")
    if kind not in ("nf4", "fp4"):
        q.refuse("bnb_4bit_quant_type", f"{kind!r} is not nf4 or fp4")
    double = q.flag("bnb_4bit_use_double_quant", default=False)
    return Quantisation(method="nf4", bits=4, group_size=64, double=double, groups=groups)


def _compressed(q: Fields, groups: tuple[Group, ...]) -> Quantisation:
    """The first group's weights count for the whole model."""
    schemes = q.nested("config_groups")
    name = next(iter(schemes.data), None)
    if name is None:
        q.refuse("config_groups", "missing or empty")
        return Quantisation(method="other", bits=8)
    w = schemes.nested(name).nested("weights")
    bits = w.integer("num_bits", low=2, high=8)
    floating = w.text("type", default="int") == "float"
    method: Method = ("fp8" if bits == 8 else "other") if floating else "int8" if bits == 8 else "gptq"
    zero_points = not w.flag("symmetric", default=True)
    return Quantisation(
        method=method,
        bits=bits,
        group_size=max(0, w.integer("group_size", default=0, low=-1)),
        zero_points=zero_points,
        groups=groups,
    )

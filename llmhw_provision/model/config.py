"""A local Hugging Face config.json → Architecture, or an error that names every field that cannot be used."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from llmhw_provision.documents import read_object
from llmhw_provision.errors import InputError
from llmhw_provision.model.architecture import Architecture
from llmhw_provision.model.families import FAMILIES
from llmhw_provision.model.fields import Fields, shown
from llmhw_provision.model.quantised import quantisation
from llmhw_provision.model.vision import TEXTS, TOWERS

WAY_OUT = "or give the size alone: --params 7B"
DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float8_e4m3fn": "fp8"}
# what transformers assumes in a text_config that leaves it out
DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "intermediate_size": 11008,
        "vocab_size": 32000,
    },
    "mistral": {
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 32000,
    },
}
# dimensions under every name that the known families use
DIMENSIONS = (
    ("hidden_size", "n_embd", "d_model"),
    ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    ("num_attention_heads", "n_head", "n_heads"),
    ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"),
    ("vocab_size", "padded_vocab_size"),
)


def read_config(path: Path) -> Architecture:
    """The architecture in the config.json at `path` (or in the folder `path`); raises InputError."""
    file = path / "config.json" if path.is_dir() else path
    return from_config(read_object(file), where=str(file), title=file.resolve().parent.name)


def from_config(data: dict[str, Any], *, where: str, title: str = "") -> Architecture:
    """The architecture that a config.json describes; raises InputError with every problem and its field."""
    f = Fields(data, where)
    family = f.text("model_type")
    if family in TOWERS:
        parts = _with_tower(f, family)
    elif family in FAMILIES:
        parts = FAMILIES[family](f)
    else:
        _refuse_family(f, family)
        parts = {}
    name = f.text("_name_or_path")
    parts |= {"dtype": _dtype(f), "quantisation": quantisation(f, parts.get("layers", 1)), "family": family}
    f.stop_on_problems()
    return Architecture(title=title or name.rpartition("/")[2] or family, **parts)


def _with_tower(f: Fields, family: str) -> dict[str, Any]:
    text_family, tower = TOWERS[family]
    text = f.nested("text_config") if f.has("text_config") else f
    stated = text.text("model_type", default=text_family)
    stated = TEXTS.get(stated, stated)
    if stated not in FAMILIES:
        _refuse_family(text, stated)
        return {}
    if text is not f:
        text = Fields({**DEFAULTS.get(stated, {}), **text.data}, text.where, f.problems)
    parts = FAMILIES[stated](text)
    if f.has("tie_word_embeddings"):
        parts["tied"] = f.flag("tie_word_embeddings", default=parts["tied"])
    return {**parts, "vision_parameters": tower(f.nested("vision_config"), parts["hidden"])}


def _refuse_family(f: Fields, family: str) -> None:
    near = difflib.get_close_matches(family, (*FAMILIES, *TOWERS), n=1, cutoff=0.7)
    known = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted({*FAMILIES, *TOWERS}))}"
    f.refuse("model_type", f"{shown(family)} is not known" if family else "missing", f"{known}; {WAY_OUT}")
    for names in DIMENSIONS:
        if not f.has(*names):
            f.refuse(names[0], "missing", WAY_OUT)


def _dtype(f: Fields) -> str:
    inner = f.data.get("text_config")
    holder = f if f.has("dtype", "torch_dtype") or not isinstance(inner, dict) else f.nested("text_config")
    name = holder.text("dtype" if holder.has("dtype") else "torch_dtype", default="bfloat16").removeprefix("torch.")
    if name not in DTYPES:
        f.refuse("torch_dtype", f"{shown(name)} is not one of {', '.join(DTYPES)}")
    return DTYPES.get(name, "bf16")


__all__ = ["InputError", "from_config", "read_config"]

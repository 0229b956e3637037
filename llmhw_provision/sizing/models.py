"""A model by the text a person writes: a catalogue name, a config.json, or a parameter count."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

from llmhw_provision.catalogue.loader import ModelKind, find
from llmhw_provision.model import Architecture, from_parameters
from llmhw_provision.model.config import read_config

_COUNT = re.compile(r"^(\d+(?:\.\d+)?)\s?([MBT])$", re.ASCII)
_FACTORS: dict[str, int] = {"M": 10**6, "B": 10**9, "T": 10**12}


def parameter_count(text: str) -> int | None:
    """Parameters of a text such as `7B` or `1.5T`; None when it is not one."""
    found = _COUNT.match(text.strip())
    if not found:
        return None
    return int(Decimal(found[1]) * _FACTORS[found[2]])


def resolve_model(text: str, folder: Path | None = None) -> Architecture:
    """The model that `text` names; paths are relative to `folder`. Raises InputError."""
    count = parameter_count(text)
    if count is not None:
        return from_parameters(count)
    if "/" in text or text.endswith(".json"):
        return read_config((folder or Path()) / text)
    return find("models", text, ModelKind).architecture

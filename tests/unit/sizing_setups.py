"""Models, jobs and layouts for the tests of sizing."""

from __future__ import annotations

from pathlib import Path

from llmhw_provision.model import Architecture
from llmhw_provision.sizing.models import resolve_model

# the folder beside the checkout, where it exists
FACTS = Path(__file__).resolve().parents[3] / "shared" / "facts"
CASES = FACTS / "sizing_cases.yaml"

GPT3 = {"hidden": 12288, "layers": 96, "heads": 96, "ffn": 49152, "vocab": 51200}


def model(name: str) -> Architecture:
    """A model of the catalogue."""
    return resolve_model(name)

"""One output form of one tool: how it is told apart from any other text, and the facts it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """An output form. `facts` raises ProbeError for what it recognises and cannot read whole; both see bytes only."""

    name: str
    recognise: Callable[[bytes], bool]
    facts: Callable[[bytes], dict[str, object]]

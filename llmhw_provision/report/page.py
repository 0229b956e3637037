"""Templates of the HTML pages: everything escaped, nothing undefined, the same input gives the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

Language = Literal["en", "zh"]
CODES: dict[Language, str] = {"en": "en", "zh": "zh-Hans"}  # as HTML names them


def template(name: str) -> Template:
    """The template in this folder; raises jinja2's UndefinedError when it asks for what it is not given."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)

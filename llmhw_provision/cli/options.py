"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])


def site_folder(function: Function) -> Function:
    """Adds `--site`, passed on as `folder: Path`: the folder with site.yaml."""
    return click.option(
        "--site",
        "folder",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path(),
        show_default="this folder",
        help="Folder of the site: workload.yaml, site.yaml, observed/, plan.json.",
    )(function)

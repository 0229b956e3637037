"""--constants and --calibrate: measured constants in a file of the user's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from llmhw_provision.cli.workload_options import Function
from llmhw_provision.sizing.constants import words
from llmhw_provision.sizing.measured import calibrate, write_constants


def constants_option(function: Function) -> Function:
    """Adds `--constants`, passed on as `constants_file: Path | None`."""
    return click.option(
        "--constants",
        "constants_file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Use the measured constants in this file; with --calibrate the file that is written.",
    )(function)


def calibrated(path: Path, target: Path | None, folder: Path | None, options: dict[str, Any], *, as_json: bool) -> str:
    """Writes the constants that follow from the runs in `path`; returns what to print; raises InputError."""
    if folder is not None or any(value is not None for value in options.values()):
        raise click.UsageError("--calibrate takes its workloads from the file; give nothing but --constants beside it")
    constants, found = calibrate(path)
    target = target or path.with_name(f"{constants.name}.constants.json")
    write_constants(constants, target)
    if as_json:
        runs = [item.__dict__ for item in found]
        data = {"file": str(target), "constants": constants.model_dump(mode="json", by_alias=True), "runs": runs}
        return json.dumps(data, indent=2, ensure_ascii=False)
    lines = [f"runs[{item.run}] {item.gpu}, {item.layout}: {item.text}, × {item.factor:.3g}" for item in found]
    lines += ["", *words(constants, tuple(constants.gpus)), f"written to {target}; use it with --constants {target}"]
    return "\n".join(lines)

"""Writes bands.json and docs/measurements/sizing.md: python -m llmhw_provision.sizing.measure CASES.yaml"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import click

from llmhw_provision.documents import write_atomic
from llmhw_provision.errors import ProvisionError
from llmhw_provision.sizing.bands import FILE, PARTS
from llmhw_provision.sizing.calibrate import COVERED, Measurement, covered, fit_bands
from llmhw_provision.sizing.case_error import Unsupported
from llmhw_provision.sizing.predict import terms
from llmhw_provision.sizing.record import MEASURED, page
from llmhw_provision.sizing.score import ASKED, answer, judge, read_cases, score


@click.command()
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--date", required=True, help="Date to write into both files, for example 2026-11-30.")
@click.option("--page", "target", type=click.Path(dir_okay=False, path_type=Path), help="Where the record goes.")
def main(path: Path, date: str, target: Path | None) -> None:
    """Estimate the error bands from the cases in PATH and write the record of the engine's accuracy."""
    try:
        data = read_cases(path)
        found = measurements(data)
        bands = fit_bands(found)
    except ProvisionError as error:
        raise click.ClickException(str(error)) from None
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    sources = len({item.source for item in found})
    record = {
        "date": date,
        "source": f"{path.name} ({digest}), {len(found)} measurements of {sources} sources",
        "method": f"leave one source out: {COVERED} % of the measurements of sources that the fit has not seen",
        "bands": {kind: -int(-band * PARTS // 1) for kind, band in bands.items()},
    }
    write_atomic(FILE, json.dumps(record, indent=1) + "\n")
    text = page(score(data), record, covered(found, bands))
    if target is not None:
        write_atomic(target, text)
    else:
        click.echo(text)


def measurements(data: dict[str, Any]) -> list[Measurement]:
    """The scored measurements of GPU memory, with the terms that explain each."""
    models = data.get("models", {})
    found = []
    for case in data["cases"]:
        if case["kind"] not in MEASURED or case.get("basis") != "measured" or case.get("tolerance", {}).get("info"):
            continue
        if case["kind"] != "infer_memory" and "seq" not in case["inputs"]:
            continue  # without the length of its sequences a run says nothing about the accounting
        try:
            explained = terms({key: case[key] for key in ASKED}, models)
        except (Unsupported, ProvisionError):
            continue
        total = sum(term.size for term in explained)
        error = judge(case, answer(case, models)[0])["error"]
        if error is not None and total:
            found.append(Measurement(case["source"]["title"], total / (1 + error), explained))
    return found


if __name__ == "__main__":
    main()

"""Fits efficiency.json on published runs: python -m llmhw_provision.sizing.calibrate_speed CASES.yaml --date DATE"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click

from llmhw_provision.documents import write_atomic
from llmhw_provision.errors import ProvisionError
from llmhw_provision.sizing.calibrate import COVERED
from llmhw_provision.sizing.case_error import Unsupported
from llmhw_provision.sizing.case_time import timed
from llmhw_provision.sizing.cases import setup
from llmhw_provision.sizing.decode_case import decode_case
from llmhw_provision.sizing.efficiency import FILE, Efficiency
from llmhw_provision.sizing.predict_time import mfu_case, throughput_case
from llmhw_provision.sizing.score import ASKED, percentile, read_cases

# what a coefficient may be, and where the search starts
BOUNDS: dict[str, tuple[float, float]] = {
    "gemm": (0.5, 1.0),
    "gemm_fp8": (0.3, 1.0),
    "attention": (0.2, 0.9),
    "passes": (2.0, 40.0),
    "compiled": (0.2, 1.0),
    "scores": (2.0, 60.0),
    "exposed_tensor": (0.25, 1.0),
    "exposed_shard": (0.0, 1.0),
    "expert_weights": (0.5, 40.0),
}
START = Efficiency(0.85, 0.75, 0.45, 9.0, 0.7, 12.0, 0.6, 0.5, 6.0)
_ROUNDS = 12


@dataclass(frozen=True)
class Run:
    """One published speed and the function that predicts it."""

    source: str
    published: float
    predict: Callable[[Efficiency], float]

    def error(self, use: Efficiency) -> float:
        """Logarithm of prediction over figure."""
        return math.log(self.predict(use) / self.published)


def runs(data: dict[str, Any]) -> list[Run]:
    """The scored measurements of training speed."""
    found = []
    for case in data["cases"]:
        if case["kind"] not in ("train_throughput", "train_mfu") or case.get("tolerance", {}).get("info"):
            continue
        try:
            of = setup({key: case[key] for key in ASKED}, data.get("models", {}))
            run = timed(of)
        except (Unsupported, ProvisionError):
            continue
        ask = throughput_case if case["kind"] == "train_throughput" else mfu_case

        def predicted(use: Efficiency, of: Any = of, run: Any = run, ask: Any = ask) -> float:
            return float(ask(of, use, run))

        found.append(Run(case["source"]["title"], float(case["value"]), predicted))
    return found


def fit(found: list[Run], start: Efficiency = START) -> Efficiency:
    """Coordinate search for the least mean error, every source with the same weight, ends rounded to three digits."""
    weights = {run.source: 1 / math.sqrt(sum(other.source == run.source for other in found)) for run in found}

    def loss(use: Efficiency) -> float:
        return float(sum(weights[run.source] * min(0.7, abs(run.error(use))) ** 1.5 for run in found))

    best, least = start, loss(start)
    step = 0.25
    for _ in range(_ROUNDS):
        moved = False
        for name, (low, high) in BOUNDS.items():
            for sign in (1, -1):
                value = getattr(best, name) + sign * step * (high - low) * 0.5
                tried = replace(best, **{name: min(high, max(low, value))})
                now = loss(tried)
                if now < least - 1e-9:
                    best, least, moved = tried, now, True
        if not moved:
            step /= 2
    return Efficiency(**{name: float(f"{value:.3g}") for name, value in asdict(best).items()})


def left_out(found: list[Run], start: Efficiency) -> list[float]:
    """Absolute relative errors of every source under coefficients that have not seen it."""
    errors = []
    for source in sorted({run.source for run in found}):
        use = fit([run for run in found if run.source != source], start)
        errors += [abs(math.exp(run.error(use)) - 1) for run in found if run.source == source]
    return errors


def decode_errors(data: dict[str, Any]) -> tuple[list[float], int]:
    """Errors of decoding, whose coefficients stand in decode.py, and the number of sources."""
    errors, sources = [], set()
    for case in data["cases"]:
        if case["kind"] != "decode" or case.get("tolerance", {}).get("info"):
            continue
        try:
            said = decode_case(setup({key: case[key] for key in ASKED}, data.get("models", {})))
        except (Unsupported, ProvisionError):
            continue
        errors.append(abs(float(said) / float(case["value"]) - 1))
        sources.add(case["source"]["title"])
    return errors, len(sources)


@click.command()
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--date", required=True, help="Date to write into the file, for example 2026-11-30.")
def main(path: Path, date: str) -> None:
    """Fit the coefficients of speed to the runs in PATH."""
    try:
        data = read_cases(path)
        found = runs(data)
        use = fit(found)
        unseen = left_out(found, use)
        served, served_sources = decode_errors(data)
    except ProvisionError as error:
        raise click.ClickException(str(error)) from None
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    sources = len({run.source for run in found})
    seen = [abs(math.exp(run.error(use)) - 1) for run in found]
    record = {
        "date": date,
        "source": f"{path.name} ({digest}), {len(found)} training runs of {sources} sources, "
        f"{len(served)} decoding speeds of {served_sources}",
        "method": f"leave one source out: {COVERED} % of the training runs of sources that the fit has not seen",
        "values": asdict(use),
        "errors": {
            "train_fitted_median": round(percentile(seen, 50), 4),
            "train_left_out_median": round(percentile(unseen, 50), 4),
            "decode_median": round(percentile(served, 50), 4),
        },
        "bands": {"train": round(percentile(unseen, COVERED), 3), "decode": round(percentile(served, COVERED), 3)},
    }
    write_atomic(FILE, json.dumps(record, indent=1) + "\n")
    click.echo(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()

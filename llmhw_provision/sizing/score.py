"""Scores the engine on published cases: python -m llmhw_provision.sizing.score CASES.yaml --json"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import click
import yaml

from llmhw_provision.errors import InputError, ProvisionError
from llmhw_provision.sizing.case_error import Unsupported
from llmhw_provision.sizing.cases import Answer
from llmhw_provision.sizing.predict import predict

ASKED = ("kind", "inputs", "quantity", "unit")  # all that a prediction may read of a case


def read_cases(path: Path) -> dict[str, Any]:
    """The file of cases; raises InputError when it is not one."""
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{path}: cannot be read as cases: {str(error)[:200]}") from None
    if not isinstance(data, dict) or not isinstance(data.get("cases"), list):
        raise InputError(f"{path}: holds no list of cases", "see sizing_cases.yaml for the form")
    return data


def answer(case: dict[str, Any], models: dict[str, Any]) -> tuple[Answer | None, str]:
    """Prediction and reason; a case that cannot be honoured is None with the reason."""
    asked = {key: case[key] for key in ASKED if key in case}
    try:
        return predict(asked, models), ""
    except Unsupported as error:
        return None, str(error)
    except ProvisionError as error:
        return None, str(error)
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        return None, f"the case cannot be read: {type(error).__name__}: {error}"


def _fits(case: dict[str, Any], models: dict[str, Any]) -> bool:
    """Whether the engine says that a case fits its card; asked only where the tolerance demands it."""
    if not case.get("tolerance", {}).get("must_fit"):
        return True
    return answer({**case, "kind": "fit", "quantity": "fits", "unit": "bool"}, models)[0] is True


def judge(case: dict[str, Any], predicted: Answer | None, *, fits: bool = True) -> dict[str, Any]:
    """Error and whether it is within the published tolerance; `within` is None for cases that are not scored."""
    published, tolerance = _published(case), case.get("tolerance", {})
    error = None
    if predicted is not None and not isinstance(published, bool) and published:
        error = float(predicted) / float(published) - 1
    within = (
        None if tolerance.get("info") else predicted is not None and fits and _within(published, predicted, tolerance)
    )
    return {"published": published, "error": error, "within": within}


def _published(case: dict[str, Any]) -> Answer:
    value = case["value"]
    return value if not isinstance(value, str) else value == "yes"


def _within(published: Answer, predicted: Answer, tolerance: dict[str, Any]) -> bool:
    """The case's own rule; a lower bound may be exceeded."""
    if isinstance(published, bool) or isinstance(predicted, bool) or tolerance.get("exact"):
        return predicted == published
    if "factor" in tolerance:
        factor = float(tolerance["factor"])
        return published / factor <= predicted <= published * factor
    if "abs" in tolerance:
        return abs(predicted - published) <= float(tolerance["abs"])
    share = float(tolerance.get("rel", 0))
    low, high = published * (1 - share), published * (1 + share)
    return low <= predicted and (predicted <= high or bool(tolerance.get("lower_bound")))


def score(data: dict[str, Any]) -> dict[str, Any]:
    """Every case with its prediction, and the kinds with counts and errors."""
    models = data.get("models", {})
    cases = []
    for case in data["cases"]:
        predicted, reason = answer(case, models)
        cases.append(
            {
                "id": case.get("id", ""),
                "kind": case["kind"],
                "basis": case.get("basis", ""),
                "source": case.get("source", {}).get("title", ""),
                "predicted": predicted,
                **(judge(case, predicted, fits=_fits(case, models)) if "value" in case else {}),
                "reason": reason,
            }
        )
    return {"cases": cases, "kinds": _kinds(cases)}


def _kinds(cases: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind in sorted({case["kind"] for case in cases}):
        judged = [case for case in cases if case["kind"] == kind and case.get("within") is not None]
        errors = [abs(case["error"]) for case in judged if case["error"] is not None]
        found[kind] = {
            "scored": len(judged),
            "within": sum(case["within"] for case in judged),
            "median_error": statistics.median(errors) if errors else None,
            "p90_error": percentile(errors, 90) if errors else None,
        }
    return found


def percentile(values: list[float], share: int) -> float:
    """The smallest value that at least `share` percent do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * share // 100) - 1)]


@click.command()
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print every case as JSON.")
def main(path: Path, as_json: bool) -> None:
    """Score the engine on the published cases in PATH."""
    try:
        result = score(read_cases(path))
    except ProvisionError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps(result, indent=1))
        return
    for kind, counts in result["kinds"].items():
        line = f"{kind:<18}{counts['within']:>4}/{counts['scored']:<5}"
        if counts["median_error"] is not None:
            line += f"median {counts['median_error']:.1%} p90 {counts['p90_error']:.1%}"
        click.echo(line)


if __name__ == "__main__":
    main()

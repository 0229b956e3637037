"""The engine on published cases, and that it answers without reading them."""

from __future__ import annotations

import ast
import copy
import json
import random
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from llmhw_provision.errors import InputError
from llmhw_provision.sizing import case_job, case_layout, cases, predict, predict_serving, predict_training
from llmhw_provision.sizing.bands import FILE, bands
from llmhw_provision.sizing.calibrate import KINDS, Measurement, covered, fit_bands
from llmhw_provision.sizing.record import EXPLAINED, MEASURED, MEMORY, page
from llmhw_provision.sizing.score import ASKED, answer, judge, percentile, read_cases, score
from llmhw_provision.sizing.terms import Term
from tests.unit.sizing_setups import CASES, FACTS

published = pytest.mark.skipif(not CASES.exists(), reason=f"no published cases at {CASES}")


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return read_cases(CASES)


@pytest.fixture(scope="module")
def result(data: dict[str, Any]) -> dict[str, Any]:
    return score(data)


@published
def test_nine_in_ten_memory_cases_are_within_tolerance(result: dict[str, Any]) -> None:
    judged = [case for case in result["cases"] if case["kind"] in MEMORY and case["within"] is not None]
    missed = [case["id"] for case in judged if not case["within"]]
    assert len(judged) > 100
    assert len(missed) <= len(judged) / 10, missed


@published
def test_error_of_measured_memory(result: dict[str, Any]) -> None:
    errors = [
        abs(case["error"])
        for case in result["cases"]
        if case["kind"] in MEASURED and case["within"] is not None and case["error"] is not None
    ]
    assert len(errors) > 50
    assert statistics.median(errors) <= 0.05
    assert percentile(errors, 90) <= 0.15


@published
def test_every_miss_is_explained(result: dict[str, Any]) -> None:
    missed = {case["id"] for case in result["cases"] if case["kind"] in MEMORY and case["within"] is False}
    assert missed <= set(EXPLAINED)


@published
def test_predictions_do_not_read_value_tolerance_or_name(data: dict[str, Any]) -> None:
    """Without them, in another order and under other names the answers are the same."""
    stripped = copy.deepcopy(data)
    for case in stripped["cases"]:
        for key in ("value", "tolerance", "id", "source", "note", "basis"):
            case.pop(key, None)
    assert ASKED == ("kind", "inputs", "quantity", "unit")
    order = list(range(len(stripped["cases"])))
    random.Random(7).shuffle(order)
    again = score({**stripped, "cases": [stripped["cases"][index] for index in order]})["cases"]
    predicted = {index: case["predicted"] for index, case in zip(order, again, strict=True)}
    case = next(case for case in data["cases"] if case["id"] == "tune-3b-packed")
    assert predict.predict(case, data["models"]) == predict.predict({key: case[key] for key in ASKED}, data["models"])
    assert predicted == {index: case["predicted"] for index, case in enumerate(score(data)["cases"])}


@published
def test_a_changed_input_changes_the_answer(data: dict[str, Any]) -> None:
    """What is computed follows from the inputs: nothing is looked up by name."""
    case = next(case for case in data["cases"] if case["id"] == "tune-3b-packed")
    changed = copy.deepcopy(case)
    changed["inputs"]["mbs"] *= 2
    before, after = (answer(each, data["models"])[0] for each in (case, changed))
    assert before is not None
    assert after is not None
    assert after > before * 1.5


@published
def test_parameters_are_computed_and_not_read(data: dict[str, Any]) -> None:
    """`params` under models is the answer of the params cases."""
    models = copy.deepcopy(data["models"])
    for each in models.values():
        each["params"] = 1
    for case in data["cases"]:
        if case["kind"] == "params":
            assert answer(case, models)[0] == answer(case, data["models"])[0]


@published
@pytest.mark.parametrize("kind", ["train_memory", "fit", "infer_memory"])
def test_an_unknown_input_is_never_ignored(data: dict[str, Any], kind: str) -> None:
    case = copy.deepcopy(next(case for case in data["cases"] if case["kind"] == kind))
    case["inputs"]["colour"] = "green"
    assert answer(case, data["models"]) == (None, "input 'colour' is not known")


@published
def test_an_unknown_dimension_is_never_ignored(data: dict[str, Any]) -> None:
    case = copy.deepcopy(next(case for case in data["cases"] if case["id"] == "meg21-18b-params"))
    case["inputs"]["arch"]["experts"] = 8
    assert answer(case, data["models"]) == (None, "arch 'experts' is not known")


@published
@pytest.mark.parametrize(
    ("key", "value"),
    [("precision", "fp3"), ("optimizer", "Lamb"), ("recompute", "some"), ("method", "magic"), ("offload", "disk:tape")],
)
def test_an_unknown_value_is_never_ignored(data: dict[str, Any], key: str, value: str) -> None:
    case = copy.deepcopy(next(case for case in data["cases"] if case["id"] == "titan-8b-fsdp8-mem"))
    case["inputs"][key] = value
    predicted, reason = answer(case, data["models"])
    assert predicted is None
    assert repr(value) in reason


VOCABULARY = FACTS / "sizing_vocabulary.md"
# these belong to cases of time, network, storage and reinforcement learning set-ups
NOT_MEMORY = {
    *("algo", "bytes", "checkpoint_bytes", "collective", "direction", "flops_convention", "link", "lora_or_offload"),
    "writers",
}


@pytest.mark.skipif(not VOCABULARY.exists(), reason=f"no vocabulary at {VOCABULARY}")
def test_every_key_of_the_vocabulary_is_honoured_or_refused() -> None:
    keys = set(re.findall(r"^- `(\w+)`:", VOCABULARY.read_text(encoding="utf-8"), re.MULTILINE))
    assert keys - cases.KEYS == NOT_MEMORY
    assert keys | {"what"} >= cases.KEYS


@pytest.mark.skipif(not VOCABULARY.exists(), reason=f"no vocabulary at {VOCABULARY}")
@pytest.mark.parametrize("key", ["precision", "quant", "method", "optimizer", "recompute", "offload", "weight"])
def test_every_text_of_the_vocabulary_is_understood(key: str) -> None:
    line = re.search(rf"^- `{key}`: (.*)$", VOCABULARY.read_text(encoding="utf-8"), re.MULTILINE)
    assert line
    texts = re.findall(r'"([^"]*)"', line[1])
    assert texts
    for text in texts:
        case_job.job({key: text})
        case_layout.layout({key: text, "gpus": 1})


@pytest.mark.parametrize("module", [cases, case_job, case_layout, predict, predict_serving, predict_training])
def test_the_mapping_holds_no_numbers_of_its_own(module: Any) -> None:
    """Stages, counts of one or two, and powers of ten of units; nothing that could be fitted."""
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    found = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    numbers = {value for value in found if isinstance(value, int | float) and not isinstance(value, bool)}
    assert numbers <= {0, 1, 2, 3, 100, 1e9}


def test_tolerances() -> None:
    def within(tolerance: dict[str, Any], value: Any, predicted: Any) -> bool | None:
        found: bool | None = judge({"value": value, "tolerance": tolerance}, predicted)["within"]
        return found

    assert within({"rel": 0.1}, 10, 11)
    assert not within({"rel": 0.1}, 10, 11.1)
    assert within({"rel": 0.1, "lower_bound": True}, 10, 20)
    assert not within({"rel": 0.1, "lower_bound": True}, 10, 8)
    assert within({"abs": 0.5}, 0.1, 0.5)
    assert within({"factor": 2}, 10, 5)
    assert not within({"factor": 2}, 10, 4.9)
    assert within({"exact": True}, "no", False)
    assert not within({"exact": True}, "yes", False)
    assert within({"info": True}, 10, 99) is None
    assert within({"rel": 0.5}, 10, None) is False


@published
def test_a_case_that_must_fit_is_missed_on_a_smaller_card(data: dict[str, Any]) -> None:
    case = copy.deepcopy(next(case for case in data["cases"] if case.get("tolerance", {}).get("must_fit")))
    assert score({"models": data["models"], "cases": [case]})["cases"][0]["within"]
    case["inputs"]["gpu"] = "RTX 4090"
    assert score({"models": data["models"], "cases": [case]})["cases"][0]["within"] is False


def test_a_file_that_holds_no_cases_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cases.yaml"
    path.write_text("- a\n")
    with pytest.raises(InputError, match="holds no list of cases"):
        read_cases(path)


@published
def test_score_prints_json() -> None:
    command = [sys.executable, "-m", "llmhw_provision.sizing.score", str(CASES), "--json"]
    done = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert set(done) == {"cases", "kinds"}
    assert {"id", "predicted", "published", "error", "within", "reason"} <= set(done["cases"][0])


@published
def test_record_and_bands_are_current(data: dict[str, Any], result: dict[str, Any]) -> None:
    from llmhw_provision.sizing.bands import PARTS
    from llmhw_provision.sizing.measure import measurements

    found = measurements(data)
    fitted = fit_bands(found)
    assert bands()["bands"] == {kind: -int(-value * PARTS // 1) for kind, value in fitted.items()}, FILE
    path = Path(__file__).resolve().parents[2] / "docs/measurements/sizing.md"
    assert path.read_text(encoding="utf-8") == page(result, bands(), covered(found, fitted))


def measured(source: str, error: float, kind: str) -> Measurement:
    term = Term("x", 1000, "1000 B", "test", kind)  # type: ignore[arg-type]
    return Measurement(source, 1000 * (1 + error), (term,))


def test_bands_cover_sources_that_were_left_out() -> None:
    """One source errs by 2 %, another by 10 %: without the second the band would be too narrow for it."""
    found = [measured("a", 0.02, "states")] * 5 + [measured("b", 0.10, "states")] * 5
    fitted = fit_bands(found)
    assert set(fitted) == {*KINDS, "host"}
    assert fitted["states"] >= 0.10
    assert covered(found, fitted) == 1
    assert fit_bands([measured("a", 0.02, "states"), measured("b", 0.02, "states")])["states"] == pytest.approx(0.02)

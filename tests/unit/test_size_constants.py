"""Measured constants: made from runs, kept in the user's file, shown where they are used; nonsense is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from llmhw_provision.cli import main
from llmhw_provision.errors import InputError

TRAIN: dict[str, Any] = {
    "schema": 1,
    "model": "llama-3.1-8b",
    "job": "sft",
    "sequence": 4096,
    "batch": 16,
    "layout": {
        "tp": 1,
        "pp": 1,
        "cp": 1,
        "zero": 3,
        "sharder": "fsdp",
        "offload": "none",
        "micro_batch": 2,
        "recompute": "full",
    },
}
SAME = (
    *("size", "--model", "llama-3.1-8b", "--job", "sft", "--seq", "4096", "--batch", "16", "--micro-batch", "2"),
    *("--tp", "1", "--pp", "1", "--cp", "1", "--zero", "3", "--sharder", "fsdp", "--offload", "none"),
    *("--recompute", "full", "--gpu", "h100-sxm", "--gpus", "8"),
)
SERVE = {"schema": 1, "model": "llama-3.1-8b", "job": "serve", "serving": {"concurrency": 8, "context": 4096}}
ASKED = ("size", "--model", "llama-3.1-8b", "--job", "serve", "--concurrency", "8", "--context", "4096")


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, list(arguments))


def said(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def machine(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said(*arguments, "--json"))["machines"][0]
    return found


def file(folder: Path, *runs: dict[str, Any], name: str = "lab-a") -> str:
    path = folder / "measured.json"
    path.write_text(json.dumps({"schema": 1, "name": name, "runs": runs}))
    return str(path)


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    return machine(*SAME)


def measured(plain: dict[str, Any], memory: float, time: float) -> dict[str, Any]:
    """The run that `plain` predicts, with more memory and time."""
    peak = f"{plain['device_bytes'] * memory / 2**30:.6f} GiB"
    rate = plain["speed"]["tokens_per_second"] / time
    return {"gpu": "h100-sxm", "gpus": 8, "workload": TRAIN, "peak_memory": peak, "tokens_per_second": rate}


def test_a_run_is_predicted_as_it_was_measured(tmp_path: Path, plain: dict[str, Any]) -> None:
    text = said("size", "--calibrate", file(tmp_path, measured(plain, 1.2, 1.1)))
    constants = tmp_path / "lab-a.constants.json"
    assert "× 1.2" in text
    assert f"use it with --constants {constants}" in text
    found = machine(*SAME, "--constants", str(constants))
    assert found["device_bytes"] == pytest.approx(1.2 * plain["device_bytes"], rel=1e-4)
    assert found["speed"]["tokens_per_second"] == pytest.approx(plain["speed"]["tokens_per_second"] / 1.1, rel=1e-4)
    peak = max(found["moments"], key=lambda moment: moment["bytes"])
    term = next(term for term in peak["terms"] if term["name"] == "calibration")
    assert peak["bytes"] == sum(item["bytes"] for item in peak["terms"])
    assert "constants lab-a: measured over predicted, 1 run" in term["source"]
    assert any(part["name"] == "calibration" for part in found["speed"]["parts"])


def test_the_result_says_that_constants_were_used(tmp_path: Path, plain: dict[str, Any]) -> None:
    said("size", "--calibrate", file(tmp_path, measured(plain, 0.9, 1.0)), "--constants", str(tmp_path / "c.json"))
    text = said(*SAME, "--constants", str(tmp_path / "c.json"))
    assert "constants lab-a: h100-sxm training memory × 0.9 (1 run), training time × 1 (1 run)" in text
    assert "calibration" in text
    other = (*SAME[:-4], "--gpu", "h20", "--gpus", "8", "--constants", str(tmp_path / "c.json"))
    assert "constants lab-a: h20 was not measured, nothing applied" in said(*other)
    assert "calibration" in said("explain", *SAME[1:], "--constants", str(tmp_path / "c.json"))
    assert "constants" not in said(*SAME)


def test_a_larger_need_changes_the_verdict(tmp_path: Path) -> None:
    lora = ("size", "--model", "llama-3.1-70b", "--job", "sft", "--method", "lora", "--gpu", "h100-sxm", "--gpus", "4")
    fixed = (*lora, "--recompute", "full", "--micro-batch", "1", "--offload", "none")
    assert machine(*fixed)["verdict"] == "fits"
    factor = {"factor": 2.0, "runs": 1, "spread": 0.0}
    data = {"schema": 1, "name": "a", "measured": "x", "gpus": {"h100-sxm": {"training_memory": factor}}}
    (tmp_path / "c.json").write_text(json.dumps(data))
    assert machine(*fixed, "--constants", str(tmp_path / "c.json"))["verdict"] == "does not fit"


def test_the_longest_sequence_fits_with_the_constants(tmp_path: Path, plain: dict[str, Any]) -> None:
    said("size", "--calibrate", file(tmp_path, measured(plain, 1.2, 1.0)))
    used = ("--constants", str(tmp_path / "lab-a.constants.json"))

    def longest(*more: str) -> int:
        found = re.search(r"longest sequence that fits ([0-9,]+) tokens", said(*SAME, *more))
        assert found
        return int(found[1].replace(",", ""))

    most = longest(*used)
    assert most < longest()
    at_most = [word if word != "4096" else str(most) for word in SAME]
    beyond = [word if word != "4096" else str(most + 64) for word in SAME]
    card = plain["usable_bytes"]
    assert machine(*at_most, *used)["device_bytes"] <= card * 1.0001
    assert machine(*beyond, *used)["device_bytes"] > card


def test_median_of_several_runs_and_decoding(tmp_path: Path, plain: dict[str, Any]) -> None:
    served = machine(*ASKED, "--gpu", "h100-sxm")["speed"]["tokens_per_second"]
    decoding = {"gpu": "h100-sxm", "workload": SERVE, "tokens_per_second": served / 1.3}
    runs = [measured(plain, factor, 1.0) for factor in (1.0, 1.1, 1.15)]
    said("size", "--calibrate", file(tmp_path, *runs, decoding))
    found = json.loads((tmp_path / "lab-a.constants.json").read_text())["gpus"]["h100-sxm"]
    assert found["training_memory"]["factor"] == pytest.approx(1.1, abs=2e-4)
    assert found["training_memory"]["runs"] == 3
    assert found["training_memory"]["spread"] == pytest.approx(1 - 1 / 1.1, abs=1e-3)
    after = machine(*ASKED, "--gpu", "h100-sxm", "--constants", str(tmp_path / "lab-a.constants.json"))
    assert after["speed"]["tokens_per_second"] == pytest.approx(served / 1.3, rel=1e-3)
    assert after["device_bytes"] == machine(*ASKED, "--gpu", "h100-sxm")["device_bytes"]


def test_nonsense_is_refused_all_at_once(tmp_path: Path, plain: dict[str, Any]) -> None:
    base = {"gpu": "h100-sxm", "gpus": 8, "workload": TRAIN}
    path = file(
        tmp_path,
        {**base, "peak_memory": "3 GiB"},
        {**base, "peak_memory": "90 GiB"},
        {**base, "tokens_per_second": 400_000.0},
        {**base, "tokens_per_second": 4000.0},
        base,
        {**base, "gpu": "h101", "tokens_per_second": 1.0},
        {"gpu": "h100-sxm", "workload": SERVE, "peak_memory": "70 GiB"},
        measured(plain, 0.8, 1.0),
        measured(plain, 1.25, 1.0),
    )
    error = run("size", "--calibrate", path).exception
    assert isinstance(error, InputError)
    text = "\n".join(problem.message for problem in error.problems)
    for words in (
        "runs[0]: training_memory 3.0 GiB measured",
        "outside 0.5 to 2",
        "runs[1]: peak_memory 90.0 GiB exceeds the 79.6 GiB",
        "runs[2]: 400,000 tokens/s is ",
        "times the peak of NVIDIA H100",
        "runs[3]: training_time 4,000.0 tokens/s measured",
        "runs[4]: measures nothing",
        "runs[5]: gpu 'h101' is not in the catalogue",
        "runs[6]: peak_memory of vLLM says nothing",
        "runs[7] × 0.8 and runs[8] × 1.25 contradict each other",
    ):
        assert words in text
    assert not (tmp_path / "lab-a.constants.json").exists()


def test_a_file_of_something_else_is_not_replaced(tmp_path: Path, plain: dict[str, Any]) -> None:
    notes = tmp_path / "notes.json"
    notes.write_text('{"mine": true}')
    path = file(tmp_path, measured(plain, 1.1, 1.0))
    error = run("size", "--calibrate", path, "--constants", str(notes)).exception
    assert isinstance(error, InputError)
    assert "is no file of constants" in str(error)
    assert notes.read_text() == '{"mine": true}'
    said("size", "--calibrate", path)
    other = file(tmp_path, measured(plain, 1.1, 1.0), name="lab-b")
    error = run("size", "--calibrate", other, "--constants", str(tmp_path / "lab-a.constants.json")).exception
    assert "holds the constants lab-a, not lab-b" in str(error)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"factor": 3.0}, "3.0"),
        ({"factor": "nan"}, "factor"),
        ({"runs": 0}, "runs"),
        ({"colour": 1}, "colour"),
    ],
)
def test_constants_that_make_no_sense_are_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    factor = {"factor": 1.1, "runs": 1, "spread": 0.0, **change}
    data = {"schema": 1, "name": "a", "measured": "x", "gpus": {"h100-sxm": {"training_time": factor}}}
    (tmp_path / "c.json").write_text(json.dumps(data))
    error = run(*SAME, "--constants", str(tmp_path / "c.json")).exception
    assert isinstance(error, InputError)
    assert words in str(error)


def test_calibrate_takes_no_workload_beside_its_file(tmp_path: Path) -> None:
    assert run("size", "--calibrate", file(tmp_path), "--html", "page.html").exit_code == 2
    result = run(*SAME, "--calibrate", file(tmp_path))
    assert result.exit_code == 2
    assert "takes its workloads from the file" in result.output

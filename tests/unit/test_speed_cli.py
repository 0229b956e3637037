"""What `size` and `explain` say about speed, checkpoints and power."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from llmhw_provision.cli import main
from llmhw_provision.cli.speed_text import duration

TRAIN = ("--model", "llama-3.1-8b", "--job", "sft", "--seq", "8192", "--batch", "16")
SERVE = ("--model", "llama-3.1-70b", "--job", "serve", "--concurrency", "32", "--context", "8192")


def said(*arguments: str) -> str:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def told(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said("size", *arguments, "--json"))
    return found


def test_size_of_training() -> None:
    text = said("size", *TRAIN)
    for words in (
        "tokens/s ±",
        "MFU 0.",
        "by 6N+12Lhs",
        "step ",
        "checkpoint 112.4 GB every",
        "written in",
        "GB/s per GPU",
    ):
        assert words in text
    assert "10.2 kW at the wall (5.6 kW GPUs)" in text
    assert "MB/s of tokens" in text
    assert "42 CPU cores of 256" in text


def test_the_fastest_of_several_that_fit_is_marked() -> None:
    line = next(line for line in said("size", *TRAIN).splitlines() if "fastest" in line)
    assert "AlphaPro660" in line
    assert "fastest" not in said("size", *TRAIN, "--machine", "alphapro660")


def test_size_of_serving() -> None:
    text = said("size", *SERVE)
    for words in (
        "of 32 requests",
        "per token",
        "first token after",
        "prompt of 8,192 tokens",
        "kWh per billion tokens",
    ):
        assert words in text


def test_what_does_not_fit_has_no_speed_and_says_how_many_cards_hold_it() -> None:
    text = said("size", *SERVE, "--machine", "a330")
    assert "tokens/s" not in text
    assert "16 such GPUs hold it" in text
    data = told(*SERVE, "--machine", "a330")
    assert data["machines"][0]["speed"] is None


def test_json_sums_to_the_step() -> None:
    found = told(*TRAIN, "--machine", "alphapro660")["machines"][0]["speed"]
    assert sum(part["seconds"] for part in found["parts"]) == pytest.approx(found["step_seconds"])
    assert 16 * 8192 / found["step_seconds"] == pytest.approx(found["tokens_per_second"])
    assert found["mfu_convention"] == "6N+12Lhs"
    assert found["power"]["host_watts"] == 10_200
    assert found["checkpoint"]["interval_seconds"] > found["checkpoint"]["write_seconds"]


def test_explain_shows_the_arithmetic() -> None:
    text = said("explain", *TRAIN, "--machine", "alphapro660", "--zero", "3")
    for words in (
        "matrix products",
        "attention",
        "gather and reduce",
        "not hidden",
        "TFLOP/s = MFU",
        "PaLM",
        "Young 1974",
    ):
        assert words in text
    assert "layers × 80 µs" in said("explain", *SERVE, "--machine", "alphapro660")


def test_a_record_of_low_confidence_is_named() -> None:
    low = ("--gpu", "rtx-pro-6000-blackwell-ws", "--gpus", "8")
    line = "note: rests on records of low confidence: NVIDIA RTX PRO 6000 Blackwell Workstation 96GB"
    assert line in said("size", *TRAIN, *low)
    assert line in said("explain", *TRAIN, *low)
    too_large = ("--model", "llama-3.1-405b", "--job", "sft", "--offload", "none", "--gpu", "h20")
    assert "note: rests on records of medium confidence: NVIDIA H20 96GB" in said("size", *too_large)
    assert "confidence" not in said("size", *TRAIN, "--gpu", "h100-sxm", "--gpus", "8")
    assert "medium confidence: GA660M, AMD Ryzen" in said("size", *TRAIN, "--machine", "ga660m")
    assert told(*TRAIN, *low)["doubts"][0]["confidence"] == "low"


def test_hosts_without_known_adapters_are_named() -> None:
    assert "no adapter between the hosts" in said("size", *TRAIN, "--gpu", "h100-sxm", "--gpus", "8", "--nodes", "2")


def test_jobs_that_generate_and_train_in_turn_have_no_speed_yet() -> None:
    text = said("size", "--model", "llama-3.1-8b", "--job", "grpo", "--machine", "alphapro660")
    assert "speed: not predicted" in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0123, "12.3 ms"), (2.28, "2.28 s"), (119, "119 s"), (600, "10 min"), (7300, "2.03 h"), (200_000, "2.31 days")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text

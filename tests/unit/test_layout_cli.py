"""size --layouts and size --why."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from llmhw_provision.cli import entry

TRAIN = ("size", "--model", "llama-3.1-8b", "--job", "sft", "--seq", "8192", "--batch", "64")
SERVE = ("size", "--model", "llama-3.1-70b", "--job", "serve", "--concurrency", "32", "--context", "8192")


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    with pytest.raises(SystemExit) as stop:
        entry(list(arguments))
    assert stop.value.code == status
    taken = capsys.readouterr()
    return taken.out if status == 0 else taken.err


def test_the_table_is_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, *TRAIN, "--machine", "alphapro660", "--layouts", "5").splitlines()
    assert lines[2].startswith("AlphaPro660 8×: best 5 of ")
    assert [line.split()[0] for line in lines[3:]] == ["1", "2", "3", "4", "5"]
    seconds = [float(line.split()[1]) for line in lines[3:]]
    assert all(later >= earlier * 0.98 for earlier, later in pairwise(seconds))
    data = json.loads(said(capsys, *TRAIN, "--layouts", "5", "--json"))
    assert [item["machine"] for item in data["layouts"]] == ["AlphaPro660 8×", "GA660M 4×", "A330 1×"]
    assert data["layouts"][0]["layouts"][0]["seconds"] == pytest.approx(seconds[0], abs=0.01)
    assert "tokens/s" in said(capsys, *SERVE, "--machine", "alphapro660", "--layouts", "2")


def test_the_first_of_the_table_is_what_size_chooses(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (TRAIN, SERVE):
        table = json.loads(said(capsys, *arguments, "--layouts", "1", "--json"))["layouts"]
        rows = json.loads(said(capsys, *arguments, "--json"))["machines"]
        assert [item["layouts"][0]["layout"] for item in table] == [row["layout"] for row in rows]


def test_why_says_what_makes_the_difference(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, *TRAIN, "--machine", "alphapro660", "--why", "tp=8,pp=1")
    assert "% slower" in text
    assert "time    +" in text
    assert "tensor parallel +" in text
    assert "memory  " in text


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("tp=3", "cannot be: tp 3 × pp 1 × cp 1 = 3 does not divide the 4 GPUs; tp 3 does not divide the 32"),
        ("ep=2", "ep 2: Llama 3.1 8B has no experts"),
        ("pp=64", "exceeds the 32 layers"),
        ("zero=2,sharder=megatron", "zero 2 contradicts sharder megatron"),
        ("zero=0,tp=1,pp=1,cp=1", "GiB more than the 79.1 GiB of a GPU at"),
        ("tp=4", "cards are linked by NVLink bridges in pairs, further ones are reached over PCIe"),
        ("cp=4", "cp 4 leaves a rank 2,048 tokens, less than 4,096"),
    ],
)
def test_why_names_the_rule(asked: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in said(capsys, *TRAIN, "--machine", "ga660m", "--why", asked)


def test_why_of_adapters_and_of_what_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    lora = (*TRAIN, "--method", "lora", "--machine", "alphapro660")
    assert "PEFT, with which adapters are trained" in said(capsys, *lora, "--why", "tp=2")
    chosen = json.loads(said(capsys, *lora, "--json"))["machines"][0]["layout"]
    same = ",".join(f"{name}={chosen[name]}" for name in ("tp", "pp", "cp", "zero", "recompute", "micro_batch"))
    assert "it is the one that is chosen" in said(capsys, *lora, "--why", same)
    data = json.loads(said(capsys, *lora, "--why", "recompute=full", "--json"))["why"][0]
    assert data["asked"]["seconds"] - data["chosen"]["seconds"] == pytest.approx(sum(data["seconds"].values()))


def test_why_where_nothing_fits(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, *TRAIN, "--machine", "a330", "--why", "recompute=none")
    assert "cannot be" in text
    assert "\n  least " in text


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("tp", "--why: 'tp' is not one NAME=VALUE"),
        ("tp=2,tp=4", "--why: 'tp=4' is not one NAME=VALUE"),
        ("dp=2", "dp follows from the other numbers"),
        ("tp=0", "tp: 0"),
        ("speed=9", "speed"),
    ],
)
def test_wrong_layouts_are_named(asked: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in said(capsys, *TRAIN, "--why", asked, status=1)


def test_a_batch_that_cannot_be_shared_evenly_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--model", "llama-3.1-8b", "--job", "sft", "--method", "lora", "--batch", "9", "--gpu", "h100-sxm")
    assert "a step takes 16 samples, not 9" in said(capsys, "size", *options, "--gpus", "8")
    assert "samples, not" not in said(capsys, "size", *options, "--gpus", "3")

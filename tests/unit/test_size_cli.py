"""size and explain: one screen, JSON, every number with formula and source, errors without traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmhw_provision.cli import entry
from llmhw_provision.cli.workload_options import _OPTIONS

ROOT = Path(__file__).resolve().parents[2]
LORA = ("--model", "llama-3.1-70b", "--job", "sft", "--method", "lora", "--seq", "4096", "--batch", "8")
SERVE = ("--model", "llama-3.1-8b", "--job", "serve", "--concurrency", "8", "--context", "4096")


def run(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as stop:
        entry(list(arguments))
    return stop.value.code


def test_one_screen_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("size", *LORA) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 30
    assert max(len(line) for line in text.splitlines()) <= 160
    for word in ("Llama 3.1 70B · 70.6B parameters · sft · lora r=16", "AlphaPro660 8×", "FSDP over 8", "±"):
        assert word in text
    assert "A330 1×" in text
    assert "does not fit: weights bf16 alone 131.4 GiB" in text
    assert "QLoRA:" in text
    assert "longest sequence that fits" in text


def test_serving_says_what_the_cache_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("size", *SERVE, "--machine", "a330") == 0
    text = capsys.readouterr().out
    assert "longest context that fits" in text
    assert "most requests" in text
    assert "vLLM's KV cache" in text


def test_json_carries_every_term(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("size", *LORA, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    first = data["machines"][0]
    peak = max(first["moments"], key=lambda moment: moment["bytes"])
    assert first["device_bytes"] == peak["bytes"] == sum(term["bytes"] for term in peak["terms"])
    assert first["layout"]["zero"] == 3
    assert {machine["verdict"] for machine in data["machines"]} >= {"fits", "does not fit"}


def test_options_and_file_are_the_same_workload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "schema: 1\nmodel: llama-3.1-70b\njob: sft\nmethod: lora\nsequence: 4096\nbatch: 8\n"
        "training: {rank: 64, targets: all-linear}\nlayout: {tp: 4, recompute: full}\n"
    )
    (tmp_path / "workload.yaml").write_text(text)
    assert run("size", "--site", str(tmp_path), "--json") == 0
    from_file = json.loads(capsys.readouterr().out)
    options = ("--rank", "64", "--lora-targets", "all-linear", "--tp", "4", "--recompute", "full")
    assert run("size", *LORA, *options, "--json") == 0
    assert json.loads(capsys.readouterr().out) == from_file


def test_a_config_json_is_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config: dict[str, Any] = {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "torch_dtype": "bfloat16",
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert run("size", "--model", str(tmp_path / "config.json"), "--job", "sft", "--json") == 0
    assert json.loads(capsys.readouterr().out)["parameters"] == 8_030_261_248


def test_a_count_is_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("size", "--params", "7B", "--job", "sft", "--json") == 0
    assert json.loads(capsys.readouterr().out)["parameters"] == 7_000_000_000
    assert run("size", "--params", "many", "--job", "sft") == 1
    assert "error: --params 'many' is not a parameter count" in capsys.readouterr().err


def test_other_hardware(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("size", *LORA, "--gpu", "h200-sxm", "--gpus", "4", "--nodes", "2", "--host-memory", "1024 GiB") == 0
    assert "NVIDIA H200 141GB SXM 2 × 4×" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["pretrain", "sft", "dpo", "ppo", "grpo"])
def test_every_job_is_sized(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("size", "--model", "qwen2.5-7b", "--job", kind, "--machine", "alphapro660") == 0
    assert "fits" in capsys.readouterr().out


def test_explain_gives_formula_and_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", *LORA, "--machine", "alphapro660") == 0
    text = capsys.readouterr().out
    for word in (
        "q_proj",
        "8,192 × 8,192 × 80",
        "← peak",
        "parameters × 2 B / 8 ranks",
        "eager cross-entropy",
        "LoRA, Hu et al. 2021",
        "host:",
        "bands:",
        "leave one source out",
    ):
        assert word in text


def test_explain_of_vllm_gives_its_accounting(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", *SERVE, "--machine", "a330") == 0
    assert "vLLM: 28.3 GiB = 90 % of the card, less" in capsys.readouterr().out


def test_contradictions_are_named_all_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--gpu", "h100-sxm", "--gpus", "8", "--tp", "3", "--zero", "2", "--sharder", "megatron")
    assert run("size", "--model", "llama-3.1-8b", "--job", "sft", *options) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert any("tp 3 does not divide the 32 attention heads" in line for line in lines)
    assert any("zero 2 contradicts sharder megatron" in line for line in lines)


def test_options_of_training_are_refused_for_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    given = (
        "--concurrency",
        "4",
        "--context",
        "4096",
        "--optimizer",
        "sgd",
        "--recompute",
        "full",
        "--micro-batch",
        "2",
    )
    assert run("size", "--model", "llama-3.1-8b", "--job", "serve", *given) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert lines == [
        "error: training.optimizer sgd is for training; job is serve",
        "error: layout.micro_batch 2 is for training; job is serve",
        "error: layout.recompute full is for training; job is serve",
    ]
    assert run("size", "--model", "llama-3.1-8b", "--job", "serve", *given[:4], "--zero", "0", "--no-flash") == 0


def test_replicas_of_a_server_need_no_communicator(capsys: pytest.CaptureFixture[str]) -> None:
    serve = ("size", "--model", "llama-3.1-8b", "--job", "serve", "--concurrency", "64", "--context", "8192")
    for ways, there in (("1", False), ("2", True)):
        assert run(*serve, "--gpu", "h100-sxm", "--gpus", "8", "--tp", ways) == 0
        assert ("NCCL" in capsys.readouterr().out) is there


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "llama-3.1-8b", "--job", "sft", "--seq", "-5"), "options: sequence: -5"),
        (("--model", "llama-3.1-8b", "--job", "sft", "--zero", "7"), "options: layout.zero: 7"),
        (("--model", "llama-3.1-8b", "--job", "serve"), "serving: missing"),
        (("--model", "llama-3.1-8b", "--job", "sft", "--gpu", "rtx-9090"), "gpu 'rtx-9090' is not in the catalogue"),
        (("--model", "llama-3.1-8b", "--job", "sft", "--gpu", "l40s", "--gpus", "0"), "--gpus 0 is outside"),
        (
            ("--model", "llama-3.1-8b", "--job", "sft", "--gpu", "l40s", "--host-memory", "64"),
            "--host-memory: '64' is not a size",
        ),
    ],
)
def test_wrong_values_are_named(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("size", *arguments) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--site", ".", "--seq", "5"),
        ("--model", "x", "--params", "7B", "--job", "sft"),
        ("--model", "llama-3.1-8b", "--job", "sft", "--gpus", "4"),
        ("--model", "llama-3.1-8b", "--job", "sft", "--machine", "a330", "--gpu", "l40s"),
    ],
)
def test_wrong_usage_is_status_2(arguments: tuple[str, ...]) -> None:
    assert run("size", *arguments) == 2


def flags() -> list[tuple[str, list[str]]]:
    """Every option with values to try, right and wrong."""
    import click

    def probe() -> None:
        """Nothing."""

    function: Any = probe
    for option in _OPTIONS:
        function = option(function)
    found = []
    for parameter in click.command()(function).params:
        assert isinstance(parameter, click.Option)
        if parameter.is_flag:
            found.append((parameter.opts[0], [""]))
        elif isinstance(parameter.type, click.Choice):
            found.append((parameter.opts[0], list(parameter.type.choices)))
        elif parameter.type is click.INT:
            found.append((parameter.opts[0], ["-1", "0", "1", "2", "3", "8", "4096", "99999999"]))
    return found


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.sampled_from(flags()).flatmap(lambda flag: st.tuples(st.just(flag[0]), st.sampled_from(flag[1]))), max_size=8
    )
)
def test_no_combination_of_options_ends_in_a_traceback(chosen: list[tuple[str, str]]) -> None:
    arguments = ["size", "--model", "mixtral-8x7b"]
    for name, value in {"--job": "sft", **dict(chosen)}.items():
        arguments += [name, value] if value else [name]
    assert run(*arguments) in (0, 1, 2)

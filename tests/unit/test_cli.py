"""The command line as a whole: help, exit status, streams."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from llmhw_provision.cli import _VERBS, entry, main


def run(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as stop:
        entry(list(arguments))
    return stop.value.code


@pytest.mark.parametrize("verb", _VERBS)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(verb, "--help") == 0
    assert "Usage:" in capsys.readouterr().out


@pytest.mark.parametrize("verb", _VERBS)
def test_every_option_explains_itself_or_lists_its_choices(verb: str) -> None:
    command = main.get_command(click.Context(main), verb)
    assert command
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help or isinstance(parameter.type, click.Choice), parameter.name


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    text = capsys.readouterr().out
    assert all(verb in text for verb in _VERBS)


def test_unknown_verb_and_wrong_option_are_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plann") == 2
    assert run("plan", "--nope") == 2
    assert "Traceback" not in capsys.readouterr().err


def test_missing_site_is_one_error_per_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "--site", str(tmp_path)) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["error", "hint", "error", "hint"]


def test_size_prints_data_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("size", "--model", "llama-3.1-8b", "--job", "sft", "--json") == 0
    streams = capsys.readouterr()
    assert json.loads(streams.out)["parameters"] == 8_030_261_248
    assert streams.err == ""


def test_size_without_model_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("size") == 2
    assert run("size", "--site", ".", "--model", "x") == 2
    assert "leave out --model" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["workload", "site", "observed", "plan"])
def test_schema_is_json(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("schema", form) == 0
    assert json.loads(capsys.readouterr().out)["type"] == "object"


def test_help_loads_nothing_heavy() -> None:
    code = "import sys\nfrom llmhw_provision.cli import entry\ntry: entry(['--help'])\nexcept SystemExit: pass\n"
    heavy = ("yaml", "pydantic", "rich", "jinja2", "ansible", "paramiko", "pytest")
    code += f"print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"

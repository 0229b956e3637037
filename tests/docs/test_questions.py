"""docs/questions.md: every command is run, its output compared, and no figure in the answers is missing from them."""

from __future__ import annotations

import re
import shlex
import textwrap
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from llmhw_provision.cli import main

PAGE = Path(__file__).resolve().parents[2] / "docs/questions.md"
_BLOCK = re.compile(r"^( *)```console\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_FIGURE = re.compile(r"\d[\d,.]* (?:[KMGT]i?B|kW|cores)\b")


@cache
def printed(command: str) -> str:
    program, *arguments = shlex.split(command.removeprefix("$ "))
    assert program == "llmhw-provision"
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


def with_output(block: re.Match[str]) -> str:
    command = textwrap.dedent(block[2]).splitlines()[0]
    lines = ["```console", command, *printed(command).splitlines(), "```"]
    return "\n".join(f"{block[1]}{line}".rstrip() for line in lines)


def test_outputs_are_those_of_the_commands(request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text(encoding="utf-8")
    made = _BLOCK.sub(with_output, text)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(made, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == made


def test_the_five_questions_are_answered_by_commands() -> None:
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    titles = [section.splitlines()[0] for section in sections]
    for words in ("7B", "Compute or memory", "CPU cores", "eight or two of four", "RAM and storage", "four steps"):
        assert any(words in title for title in titles)
    for section in sections:
        assert _BLOCK.search(section), section.splitlines()[0]


def test_figures_of_the_answers_are_in_the_outputs() -> None:
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        prose = _BLOCK.sub("", section)
        shown = " ".join(block[2] for block in _BLOCK.finditer(section))
        classes = {"24 GB", "80 GB", "512 GB", "1 TB"}  # of cards and hosts, as they are sold
        for figure in _FIGURE.findall(prose):
            assert figure in classes or figure.removesuffix(" cores") in shown, figure

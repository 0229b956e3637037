"""The documentation names every verb, option and file that exists, and nothing that does not."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from llmhw_provision.cli import _VERBS, main

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs/guide.md").read_text(encoding="utf-8")


def options(verb: str) -> list[str]:
    command = main.get_command(click.Context(main), verb)
    assert command
    found = [name for parameter in command.params if isinstance(parameter, click.Option) for name in parameter.opts]
    return [name for name in found if name != "--site"]  # said once, at the top


@pytest.mark.parametrize("verb", _VERBS)
def test_guide_has_a_section_for_the_verb_with_all_its_options(verb: str) -> None:
    section = re.search(rf"^## {verb}\n(.*?)(?=^## |\Z)", GUIDE, re.MULTILINE | re.DOTALL)
    assert section
    assert [name for name in options(verb) if f"`{name}" not in section[1]] == []


def test_guide_names_no_option_that_does_not_exist() -> None:
    known = {name for verb in _VERBS for name in options(verb)} | {"--help", "--version", "--site"}
    assert set(re.findall(r"`(--[a-z-]+)", GUIDE)) - known == set()


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "docs/guide.md", "docs/support.md"])
def test_links_lead_somewhere(name: str) -> None:
    path = ROOT / name
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_make_targets_in_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make ([a-z-]+)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize(("mark", "room"), [("container", "tests/roles"), ("vm", "tests/rehearsal")])
def test_make_test_looks_in_the_one_room_that_has_the_mark(mark: str, room: str) -> None:
    assert f'-m "{mark} and not proof" {room}\n' in (ROOT / "Makefile").read_text(encoding="utf-8")
    marked = re.compile(rf"^pytestmark = .*\bmark\.{mark}\b|^ *@pytest\.mark\.{mark}\b", re.MULTILINE)
    having = [path for path in (ROOT / "tests").rglob("test_*.py") if marked.search(path.read_text(encoding="utf-8"))]
    assert {path.parent for path in having} == {ROOT / room}


def test_readme_site_is_planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from llmhw_provision.cli import entry

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, body in re.findall(r"```yaml\n# (workload|site)\.yaml\n(.*?)```", text, re.DOTALL):
        (tmp_path / f"{name}.yaml").write_text(body)
    with pytest.raises(SystemExit) as stop:
        entry(["plan", "--site", str(tmp_path)])
    assert stop.value.code == 0
    assert "PURCHASE PLAN" in capsys.readouterr().out

"""runs: what was done on the site so far."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from llmhw_provision.cli.options import site_folder
from llmhw_provision.documents import dump_json
from llmhw_provision.errors import InputError
from llmhw_provision.run import history, text


@click.group("runs")
def command() -> None:
    """Look at earlier runs of the site."""


@command.command("list")
@site_folder
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def list_command(folder: Path, as_json: bool) -> int:
    """One line per run, the oldest first."""
    found = history.entries(folder / "runs")
    if as_json:
        click.echo(json.dumps([asdict(entry) for entry in found], indent=2))
    else:
        for line in text.table(found):
            click.echo(line)
    return 0


@command.command("show")
@site_folder
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def show_command(folder: Path, name: str | None, as_json: bool) -> int:
    """How one apply ended, the last one unless NAME says which; with the commands that do the same by hand."""
    names = [entry.name for entry in history.entries(folder / "runs") if entry.verb == "apply"]
    chosen = name or (names[-1] if names else "")
    if chosen not in names:
        said = f"{chosen}: no such run" if chosen else "no apply has run here"
        raise InputError(f"{folder / 'runs'}: {said}", "llmhw-provision runs list names them")
    path = folder / "runs" / chosen
    result = history.result_of(path)
    if result is None:
        raise InputError(
            f"{chosen}: cut off before it wrote its result, or still at work",
            f"llmhw-provision apply --resume goes on; its log is {path / 'ansible.log'}",
        )
    if as_json:
        click.echo(dump_json(result), nl=False)
        return 0
    for line in (*text.failures(result), *text.ending(result), *text.files(path)):
        click.echo(line)
    return 0

"""report: the report of a verify that has been run, rendered again."""

from __future__ import annotations

from pathlib import Path

import click

from llmhw_provision.cli.options import site_folder
from llmhw_provision.errors import InputError
from llmhw_provision.report.folder import last_run, read_report, write_pages
from llmhw_provision.report.text import render_text


@click.command("report")
@site_folder
@click.argument("run", required=False)
def command(folder: Path, run: str | None) -> int:
    """Write the pages of the last verify again, or of the RUN that is named (a folder under runs/)."""
    runs = folder / "runs"
    chosen = _named(runs, run) if run else last_run(runs)
    report = read_report(chosen)
    page = write_pages(report, chosen)
    click.echo(render_text(report))
    click.echo(f"report: {page}  (中文: {page.with_name('report.zh.html').name})")
    return 0


def _named(runs: Path, name: str) -> Path:
    for path in (runs / name, Path(name)):
        if (path / "report.json").is_file():
            return path
    raise InputError(f"{name}: no report.json there", f"name a folder under {runs}")

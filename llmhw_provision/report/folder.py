"""The files of one verify: written together, read again by `report`."""

from __future__ import annotations

import re
from pathlib import Path

from llmhw_provision.documents import dump_json, read, write_atomic
from llmhw_provision.errors import InputError
from llmhw_provision.report.html import render_html
from llmhw_provision.report.model import Report

_RUN = re.compile(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T.*-verify(-[0-9]+)?$")


def write_report(report: Report, folder: Path) -> Path:
    """Writes report.json and both HTML pages into the run's folder; returns the English page."""
    write_atomic(folder / "report.json", dump_json(report))
    return write_pages(report, folder)


def write_pages(report: Report, folder: Path) -> Path:
    """Writes report.html and report.zh.html; returns the English page."""
    write_atomic(folder / "report.zh.html", render_html(report, "zh"))
    page = folder / "report.html"
    write_atomic(page, render_html(report, "en"))
    return page


def last_run(runs: Path) -> Path:
    """Folder of the newest verify that wrote a report; raises InputError when there is none."""
    found = [path for path in runs.glob("*-verify*") if _RUN.match(path.name) and (path / "report.json").is_file()]
    if not found:
        raise InputError(f"{runs}: no verify has written a report here", "run llmhw-provision verify first")
    return max(found, key=lambda path: path.name)


def read_report(folder: Path) -> Report:
    """The report in a run's folder."""
    return read(folder / "report.json", Report)

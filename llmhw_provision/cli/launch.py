"""llmhw-provision launch"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from llmhw_provision.cli.options import site_folder
from llmhw_provision.cli.plan import read_site
from llmhw_provision.documents import read, write_atomic
from llmhw_provision.errors import InputError
from llmhw_provision.launch.build import launch_files
from llmhw_provision.launch.files import LaunchFile
from llmhw_provision.plan.build import build_plan
from llmhw_provision.plan.model import Plan


@click.command("launch")
@site_folder
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Write the files below this folder.")
@click.option("--explain", is_flag=True, help="Every setting with its rule and source instead of the files.")
@click.option("--json", "as_json", is_flag=True, help="Print files, settings, rules and sources as JSON.")
def command(folder: Path, out: Path | None, explain: bool, as_json: bool) -> None:
    """The files that start the work, from plan.json: framework settings, scripts, units, nccl.conf."""
    files = _files(folder)
    if out is not None:
        _write(files, out)
    if as_json:
        click.echo(json.dumps([asdict(file) for file in files], indent=2, ensure_ascii=False))
    elif explain:
        click.echo("\n\n".join(_explained(file) for file in files if file.settings))
    elif out is None:
        click.echo("\n".join(_shown(file) for file in files), nl=False)
    else:
        click.echo("\n".join(f"written: {out / file.path}" for file in files))


def _files(folder: Path) -> tuple[LaunchFile, ...]:
    """The files of the site's plan; raises InputError when plan.json is not what the site's files say now."""
    path = folder / "plan.json"
    plan = read(path, Plan)
    need, site, observed = read_site(folder)
    if build_plan(need, site, observed).identity != plan.identity:
        raise InputError(
            f"{path}: is not of the present workload.yaml, site.yaml and observed/",
            "see llmhw-provision plan --diff, then run llmhw-provision plan",
        )
    return launch_files(plan, need, site)


def _write(files: tuple[LaunchFile, ...], out: Path) -> None:
    try:
        for file in files:
            write_atomic(out / file.path, file.text, mode=0o755 if file.executable else 0o644)
    except OSError as error:
        raise InputError(f"{error.filename or out}: cannot be written: {error.strerror}") from None


def _shown(file: LaunchFile) -> str:
    return f"── {file.path}\n{file.text}"


def _explained(file: LaunchFile) -> str:
    lines = [file.path]
    for item in file.settings:
        value = " ".join(map(str, item.value)) if isinstance(item.value, tuple) else item.value
        lines += [f"  {item.name} = {value}", f"      {item.rule}", f"      source: {item.source}"]
    return "\n".join(lines)

"""verify: reads the machines again and holds them to the plan."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import click

from llmhw_provision import evidence_archive
from llmhw_provision.checks.collecting import unanswered
from llmhw_provision.checks.identity import planned_host
from llmhw_provision.checks.measuring import measure, without_old
from llmhw_provision.checks.model import Level
from llmhw_provision.checks.session import Session, run
from llmhw_provision.checks.table import commands
from llmhw_provision.cli.options import become_password, site_folder
from llmhw_provision.connection import ssh_config_path
from llmhw_provision.documents import dump_json, read
from llmhw_provision.errors import InputError
from llmhw_provision.evidence import Evidence, read_site
from llmhw_provision.evidence_file import load, save
from llmhw_provision.plan.model import Plan
from llmhw_provision.report.build import build_report
from llmhw_provision.report.folder import write_report
from llmhw_provision.report.text import render_text
from llmhw_provision.run.folder import create
from llmhw_provision.site import Site


@click.command("verify")
@site_folder
@click.option(
    "--level",
    type=click.Choice(["before", "quick", "standard"]),
    default="quick",
    show_default=True,
    help="What is asked: before apply (seconds), quick (seconds), standard (minutes: the GPUs are measured).",
)
@click.option(
    "--evidence",
    "recorded",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="Judge this file of collect (or a recording under runs/) instead of reading its host; once per host.",
)
@become_password
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(folder: Path, level: str, recorded: tuple[Path, ...], password: str, as_json: bool) -> int:
    """Check the machines against plan.json; writes a report under runs/. Changes nothing on the machines.

    Level standard puts load on the GPUs, where torch for them is planned and nobody uses them.
    """
    asked = cast(Level, level)
    plan = read(folder / "plan.json", Plan)
    if plan.origin == "purchase":
        raise InputError(
            "plan.json is a purchase plan: nothing was read on a machine", "run discover, then plan, then verify"
        )
    replayed = _recordings(plan, recorded)
    for line in unanswered(plan, replayed, asked):
        click.echo(line, err=True)
    site = None if recorded else read(folder / "site.yaml", Site)
    started = time.monotonic()
    done: frozenset[str] = frozenset()
    if site and asked == "standard":
        done = measure(plan, lambda wanted: read_site(site, folder, wanted, password=password), _say)
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    out = create(folder / "runs", verb="verify").path

    def reader() -> Mapping[str, Evidence]:
        found = without_old(_read(plan, site, folder, asked, password), done) if site else replayed
        for name, evidence in found.items():
            save(evidence, out / "evidence" / f"{name}.json")
        return found

    session = Session(plan, asked, reader, ssh_config=str(ssh_config_path(folder)))
    run(session, out / "junit.xml")
    report = build_report(
        plan,
        session.evidence,
        tuple(session.findings),
        level=asked,
        date=date,
        seconds=time.monotonic() - started,
    )
    page = write_report(report, out)
    click.echo(dump_json(report) if as_json else render_text(report), nl=not as_json)
    click.echo(f"report: {page}  (中文: {page.with_name('report.zh.html').name})", err=as_json)
    bad = any(finding.status in ("fail", "could-not-run") for finding in report.findings)
    return 3 if bad or not report.findings else 0


def _say(line: str) -> None:
    click.echo(line, err=True)


def _recordings(plan: Plan, paths: tuple[Path, ...]) -> dict[str, Evidence]:
    """Recorded evidence by planned host; a host without a recording could not be read."""
    found: dict[str, Evidence] = {}
    source: dict[str, Path] = {}
    for path in paths:
        if evidence_archive.is_archive(path):
            manifest, evidence = evidence_archive.read(path)
            names: tuple[str, ...] = (manifest.host, manifest.own_name)
            for line in _doubts(plan, manifest):
                click.echo(f"warning: {path}: {line}", err=True)
        else:
            evidence = load(path)
            names = (evidence.host,)
        host = planned_host(plan, evidence, names, source=str(path))
        if host.name in found:
            raise InputError(
                f"{path}: a second recording of {host.name}, after {source[host.name]}", "give one of them"
            )
        found[host.name], source[host.name] = replace(evidence, host=host.name), path
    return {
        host.name: found.get(host.name)
        or Evidence(host.name, "machine", {}, problem=f"{host.name}: no recording of this host was given")
        for host in plan.hosts
    }


def _doubts(plan: Plan, manifest: evidence_archive.Manifest) -> Iterator[str]:
    """Why an archive may answer less than it seems to."""
    if manifest.user:
        yield f"read by user {manifest.user}, not by root: drives, kernel log and firmware did not answer"
    if manifest.plan not in ("", plan.identity):
        yield f"made for plan {manifest.plan}, judged by plan {plan.identity}"


def _read(plan: Plan, site: Site, folder: Path, level: Level, password: str) -> dict[str, Evidence]:
    known = {host.name for host in site.hosts}
    missing = [host.name for host in plan.hosts if host.name not in known]
    if missing:
        raise InputError(f"host {missing[0]!r} of plan.json is not in site.yaml", "run plan again")
    wanted = {host.name: commands(host, level) for host in plan.hosts}
    return read_site(site, folder, wanted, password=password)

"""llmhw-provision matrix"""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any, get_args

import click

from llmhw_provision.catalogue.loader import Gpu, find
from llmhw_provision.catalogue.software import Software, Supported, software
from llmhw_provision.catalogue.software_packages import Modules
from llmhw_provision.cli.plan import read_site
from llmhw_provision.cli.versions_text import explained
from llmhw_provision.documents import check
from llmhw_provision.errors import InputError, Problem, ProvisionError
from llmhw_provision.plan.build import machine_of
from llmhw_provision.plan.findings import Request
from llmhw_provision.plan.purchase import catalogue_machine
from llmhw_provision.plan.request import host_request, request_of
from llmhw_provision.plan.resolve import resolve
from llmhw_provision.plan.stack import Stack
from llmhw_provision.site import SoftwareChoices
from llmhw_provision.workload import JobName

_FAILED = 3


@click.command("matrix")
@click.option("--site", "folder", type=click.Path(file_okay=False, path_type=Path), help="Resolve a site's hosts.")
@click.option("--machine", help="Machine of the catalogue, instead of a site.")
@click.option("--gpu", help="GPU of the catalogue, instead of a machine.")
@click.option("--distro", help="Distribution, for example debian12.")
@click.option("--job", type=click.Choice(list(get_args(JobName))), help="What runs there; default sft.")
@click.option("--driver", help="Branch such as 580, or a full version.")
@click.option("--cuda", help="Toolkit, with its minor: 13.0.")
@click.option("--modules", type=click.Choice(list(get_args(Modules))), help="Kernel modules of the driver.")
@click.option("--eol-ok", is_flag=True, default=None, help="Accept what is past its end of life.")
@click.option("--date", "day", help="Judge ends of life on this day (YYYY-MM-DD); default today.")
@click.option("--check", "checks", is_flag=True, help="Find records past their end of life; exit 3 when there are any.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(day: str | None, checks: bool, as_json: bool, folder: Path | None, **options: Any) -> int:
    """Which versions fit together, and why: the matrix itself, or one set for a machine, distribution and job."""
    judged = _day(day)
    given = {key: value for key, value in options.items() if value is not None}
    if checks:
        return _check(judged, as_json)
    if folder is None and not given:
        tables = software()
        click.echo(_json(tables.model_dump(mode="json", by_alias=True)) if as_json else _overview(tables, judged))
        return 0
    if folder is not None and given:
        raise click.UsageError(f"--site says it all; leave out {', '.join('--' + key for key in sorted(given))}")
    stacks = _of_site(folder, judged) if folder is not None else [resolve(_asked(judged, given))]
    if as_json:
        click.echo(_json([stack.model_dump(mode="json") for stack in stacks]))
    else:
        click.echo("\n\n".join(explained(stack) for stack in stacks))
    return 0


def _day(text: str | None) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text) if text else datetime.datetime.now(datetime.UTC).date()
    except ValueError:
        raise click.UsageError(f"--date {text!r} is not a day; write for example 2026-11-30") from None


def _asked(day: datetime.date, given: dict[str, Any]) -> Request:
    """The request that options describe; raises UsageError or InputError."""
    if ("machine" in given) == ("gpu" in given):
        raise click.UsageError("name either --machine or --gpu, or --site")
    if "distro" not in given:
        raise click.UsageError(f"name --distro, one of {', '.join(software().distros)}")
    keys = {"distro", "driver", "cuda", "modules", "eol_ok"}
    chosen = {key: value for key, value in given.items() if key in keys}
    choices = check(chosen, SoftwareChoices, path=Path("matrix"))
    job: JobName = given.get("job", "sft")
    if "machine" in given:
        machine = catalogue_machine(given["machine"])
        return request_of(given["machine"], machine, job=job, choices=choices, raid0=False, day=day)
    gpu = find("gpus", given["gpu"], Gpu)
    return Request(
        host=given["gpu"],
        distro=given["distro"],
        job=job,
        day=day,
        gpu=gpu,
        gpus=8 if gpu.nvswitch else 1,
        nvswitch=gpu.nvswitch,
        choices=choices,
    )


def _of_site(folder: Path, day: datetime.date) -> list[Stack]:
    """One stack per host; raises InputError with the problems of all hosts."""
    need, site, observed = read_site(folder)
    stacks: list[Stack] = []
    problems: list[Problem] = []
    for host in sorted(site.hosts, key=lambda item: item.name):
        try:
            stacks.append(resolve(host_request(host, machine_of(host, observed), site, need, day)))
        except ProvisionError as error:
            problems += error.problems
    if problems:
        raise InputError.of(problems)
    return stacks


def _check(day: datetime.date, as_json: bool) -> int:
    """Prints the records that are offered although their support is over on `day`; 3 when there are any."""
    past = [(name, record) for name, record in software().supported() if not record.ended and record.past(day)]
    if as_json:
        found = [{"record": name, **record.model_dump(mode="json")} for name, record in past]
        click.echo(_json({"date": day.isoformat(), "past": found}))
    else:
        lines = [f"{name}: support ended with {record.end_of_life} ({record.source})" for name, record in past]
        click.echo("\n".join(lines) or f"nothing that is offered is past its end of life on {day}")
    return _FAILED if past else 0


def _json(data: object) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False)


def _overview(tables: Software, day: datetime.date) -> str:
    """The matrix on one screen; every record with its source is in --json."""
    lines = [
        f"as of {tables.catalogue.as_of}; support judged on {day}",
        "",
        "driver  kind  support       CUDA  modules",
    ]
    for name, branch in tables.drivers.items():
        mark = "  ← default" if name == tables.catalogue.default_driver else ""
        modules = ", ".join(branch.modules)
        lines.append(f"{name:<8}{branch.kind:<6}{_support(branch, day):<14}{branch.max_cuda_major:<6}{modules}{mark}")
    lines += ["", "CUDA    bundled with driver"]
    lines += [f"{name:<8}{record.driver}" for name, record in tables.cuda.items()]
    lines += ["", "GPU             compute     from CUDA  from driver  modules"]
    for name, item in tables.architectures.items():
        compute = ", ".join(item.compute)
        lines.append(f"{name:<16}{compute:<12}{item.first_cuda:<11}{item.min_driver:<13}{', '.join(item.modules)}")
    lines += ["", "distribution  support       kernel  Python      Slurm"]
    for name, distro in tables.distros.items():
        slurm = tables.slurm.get(name)
        state = f"{slurm.version}{'' if slurm.cgroup_v2 else ' (refused)'}" if slurm else "own packages"
        lines.append(f"{name:<14}{_support(distro, day):<14}{distro.kernel:<8}{', '.join(distro.pythons):<12}{state}")
    lines += ["", "environment   Python  CUDA  packages"]
    for name, locked in tables.environments.items():
        held = ", ".join(f"{package} {version}" for package, version in list(locked.packages.items())[:4])
        lines.append(f"{name:<14}{locked.python:<8}{locked.cuda:<6}{held}")
    return "\n".join(lines)


def _support(record: Supported, day: datetime.date) -> str:
    if record.over(day):
        return "over"
    return f"to {record.end_of_life}" if record.end_of_life else "not recorded"

"""llmhw-provision plan"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TypeVar

import click

from llmhw_provision.cli.options import site_folder
from llmhw_provision.cli.plan_text import explain, summary
from llmhw_provision.documents import dump_json, read, write_atomic
from llmhw_provision.errors import InputError, MachineError, Problem
from llmhw_provision.inventory import write_inventory
from llmhw_provision.machine import Machine
from llmhw_provision.plan.base import require_files
from llmhw_provision.plan.build import build_plan
from llmhw_provision.plan.difference import differences
from llmhw_provision.plan.gpu_stack import software_files
from llmhw_provision.plan.model import Plan
from llmhw_provision.plan.versions import ended_since
from llmhw_provision.site import Site
from llmhw_provision.sizing.models import resolve_model
from llmhw_provision.sizing.need import Need, need
from llmhw_provision.workload import Workload

_DIFFERS = MachineError.exit_code


@click.command("plan")
@site_folder
@click.option("--explain", "why", is_flag=True, help="Show every choice: rule, inputs, source; write nothing.")
@click.option("--diff", is_flag=True, help="Show what differs from plan.json, or between OLD and NEW; write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.argument("plans", nargs=-1, metavar="[OLD NEW]", type=click.Path(path_type=Path))
def command(folder: Path, why: bool, diff: bool, as_json: bool, plans: tuple[Path, ...]) -> None:
    """Decide everything: reads workload.yaml, site.yaml and observed/, writes plan.json and inventory/.

    --diff ends with 0 when nothing differs and 3 when something does.
    """
    if sum((why, diff, as_json)) > 1:
        raise click.UsageError("name one of --explain, --diff and --json")
    if len(plans) != 2 * bool(plans) or (plans and not diff):
        raise click.UsageError("two plans go with --diff: --diff OLD NEW")
    target = folder / "plan.json"
    if plans:
        _compare(read(plans[0], Plan), read(plans[1], Plan))
        return
    plan = make_plan(folder)
    if plan.stacks:
        for text in ended_since(plan.stacks, datetime.datetime.now(datetime.UTC).date()):
            click.echo(f"warning: {text}", err=True)
    if diff:
        _compare(read(target, Plan), plan)
        return
    if why:
        click.echo(explain(plan))
        return
    write_atomic(target, dump_json(plan))
    write_inventory(plan, folder / "inventory")
    click.echo(dump_json(plan) if as_json else summary(plan, target), nl=not as_json)


def _compare(old: Plan, new: Plan) -> None:
    lines = differences(old, new)
    click.echo("\n".join(lines) if lines else "no difference")
    if lines:
        raise click.exceptions.Exit(_DIFFERS)


def make_plan(folder: Path) -> Plan:
    """The plan of the site in `folder`; raises InputError with the problems of all its files at once."""
    return build_plan(*read_site(folder))


def read_site(folder: Path) -> tuple[Need, Site, dict[str, Machine]]:
    """What runs, the site and its observed machines; raises InputError with the problems of all files at once."""
    problems: list[Problem] = []
    workload = _read(folder / "workload.yaml", Workload, problems)
    site = _read(folder / "site.yaml", Site, problems)
    observed: dict[str, Machine] = {}
    for host in site.hosts if site else ():
        path = folder / "observed" / f"{host.name}.json"
        machine = _read(path, Machine, problems) if path.exists() else None
        if machine is not None:
            observed[host.name] = machine
    if site is not None:
        try:
            require_files(site.site_base, folder, software_files(site.software))
        except InputError as error:
            problems.extend(error.problems)
    if problems or workload is None or site is None:
        raise InputError.of(problems)
    return need(workload, resolve_model(workload.model, folder)), site, observed


Model = TypeVar("Model", Workload, Site, Machine)


def _read(path: Path, model: type[Model], problems: list[Problem]) -> Model | None:
    try:
        return read(path, model)
    except InputError as error:
        problems.extend(error.problems)
        return None

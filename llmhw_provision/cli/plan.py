"""llmhw-provision plan"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import click

from llmhw_provision.cli.options import site_folder
from llmhw_provision.documents import dump_json, read, write_atomic
from llmhw_provision.errors import InputError, Problem
from llmhw_provision.hostlist import compress
from llmhw_provision.inventory import write_inventory
from llmhw_provision.machine import Machine
from llmhw_provision.plan.base import require_files
from llmhw_provision.plan.build import build_plan
from llmhw_provision.plan.cluster_model import Cluster
from llmhw_provision.plan.difference import differences
from llmhw_provision.plan.model import ExpectedDisk, HostPlan, Note, Plan
from llmhw_provision.plan.stack import Stack
from llmhw_provision.plan.versions import ended_since
from llmhw_provision.site import Site
from llmhw_provision.sizing.models import resolve_model
from llmhw_provision.sizing.need import Need, need
from llmhw_provision.units import disk
from llmhw_provision.workload import Workload


@click.command("plan")
@site_folder
@click.option("--diff", is_flag=True, help="Show what differs from plan.json and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def command(folder: Path, diff: bool, as_json: bool) -> None:
    """Decide everything: reads workload.yaml, site.yaml and observed/, writes plan.json and inventory/."""
    plan = make_plan(folder)
    target = folder / "plan.json"
    if plan.stacks:
        for text in ended_since(plan.stacks, datetime.datetime.now(datetime.UTC).date()):
            click.echo(f"warning: {text}", err=True)
    if diff:
        lines = differences(read(target, Plan), plan)
        click.echo("\n".join(lines) if lines else "no difference")
        return
    write_atomic(target, dump_json(plan))
    write_inventory(plan, folder / "inventory")
    click.echo(dump_json(plan) if as_json else summary(plan, target), nl=not as_json)


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
            require_files(site.site_base, folder)
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


def summary(plan: Plan, path: Path) -> str:
    """One screen: what will be created, erased, kept, and why."""
    lines = [f"site {plan.site} · {len(plan.hosts)} host{'s' * (len(plan.hosts) != 1)} · plan {plan.identity}"]
    lines.append(f"for {plan.workload}")
    if plan.origin == "purchase":
        lines.append("PURCHASE PLAN from catalogue machines: apply refuses it until discover has read the machines")
    notes: dict[str, list[Note]] = {}
    for note in plan.notes:
        notes.setdefault(note.host, []).append(note)
    lines += _cluster(plan.cluster, notes.get("", [])) if plan.cluster else []
    alike: dict[tuple[str, ...], list[HostPlan]] = {}
    for host in plan.hosts:
        alike.setdefault(tuple(_said_of(host, plan.stacks, notes.get(host.name, []))), []).append(host)
    for said, hosts in alike.items():
        names, address = compress(host.name for host in hosts), hosts[0].address
        where = address if len(hosts) == 1 else f"{len(hosts)} hosts alike"
        lines += [f"\n{names}  {where}  {said[0]}", *said[1:]]
    lines.append(f"\nwritten: {path}, {path.parent / 'inventory'}")
    return "\n".join(lines)


def _cluster(cluster: Cluster, notes: list[Note]) -> list[str]:
    """Who does what, and why."""
    roles = [f"controller {', '.join(cluster.controllers)}"] if cluster.controllers else []
    roles += [f"accounting {cluster.accounting}"] if cluster.accounting else []
    roles += [f"login {cluster.logins}"] if cluster.logins else []
    found = [f"\ncluster  {'; '.join((*roles, f'compute {cluster.computes}'))}"]
    found += [f"  files    {', '.join(cluster.files)} in plan.json; the role that installs Slurm is to come"] * bool(
        cluster.files
    )
    return [*found, *(f"  why      {note.rule}: {note.choice}" for note in notes)]


def _said_of(host: HostPlan, stacks: tuple[Stack, ...], notes: list[Note]) -> Iterator[str]:
    """What is said of a host without its name and address; hosts alike in it are said together."""
    mark = "  REHEARSAL (virtual machine)" if host.rehearsal else ""
    yield f"{host.os or host.machine or ''}{mark}"
    yield from (f"  creates  {text}" for text in host.creates)
    yield from (f"  ERASES   {text}" for text in host.erases)
    kept = [item for item in host.disks if item.purpose in ("system", "kept")]
    yield from (f"  keeps    {_name(item)}: {item.reason}" for item in kept)
    for stack in (stack for stack in stacks if host.name in stack.hosts):
        yield f"  versions {_versions(stack)}"
        yield from (f"  warning  {text}" for text in stack.warnings)
    yield from (f"  why      {note.rule}: {note.choice}" for note in notes)


def _versions(stack: Stack) -> str:
    """`driver 580.159.03 (open), CUDA 13.0, train-lf on CPython 3.12`."""
    parts = [f"driver {stack.driver.version} ({stack.driver.modules})"] if stack.driver else []
    parts += [f"fabric manager {stack.fabric_manager}"] if stack.fabric_manager else []
    parts += [f"CUDA {stack.cuda}"] if stack.cuda else []
    parts += [f"Slurm {stack.slurm}"] if stack.slurm else []
    parts += [f"{item.name} on CPython {item.python}" for item in stack.environments]
    return f"{', '.join(parts) or 'nothing to choose'}; why: llmhw-provision matrix --site"


def _name(item: ExpectedDisk) -> str:
    """Model and serial; a virtual disk may have neither."""
    return f"{item.model} {item.serial}".strip() or f"a disk of {disk(item.size_bytes)}"

"""discover: reads every host of the site into observed/<host>.json."""

from __future__ import annotations

import json
from pathlib import Path

import click

from llmhw_provision.cli.options import site_folder
from llmhw_provision.discover import COMMANDS, enrol, observe
from llmhw_provision.documents import dump_json, read, write_atomic
from llmhw_provision.errors import MachineError, Problem
from llmhw_provision.evidence import Evidence, read_site, save
from llmhw_provision.machine import Disk, Machine
from llmhw_provision.site import Host, Site
from llmhw_provision.units import disk as disk_text
from llmhw_provision.units import memory


@click.command("discover")
@site_folder
@click.option("--accept-host-keys", is_flag=True, help="Accept the ssh keys of new hosts without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print the machines as JSON.")
def command(folder: Path, accept_host_keys: bool, as_json: bool) -> int:
    """Read the site's machines: system, memory, disks and what they hold, GPUs. Changes nothing on them."""
    site = read(folder / "site.yaml", Site)
    readings = _read(site, folder, accept_host_keys)
    machines, problems = _observed(readings)
    for name, evidence in readings.items():
        if evidence.results:
            save(evidence, folder / "evidence" / f"{name}.discover.json")
    for name, machine in machines.items():
        write_atomic(folder / "observed" / f"{name}.json", dump_json(machine))
    if as_json:
        click.echo(json.dumps([machine.model_dump(mode="json", by_alias=True) for machine in machines.values()]))
    else:
        for machine in machines.values():
            click.echo(summary(machine))
    if problems:
        raise MachineError.of(problems)
    return 0


def _read(site: Site, folder: Path, accept: bool) -> dict[str, Evidence]:
    """One reading per host; hosts whose key cannot be fetched are evidence saying so."""
    failed: dict[str, Evidence] = {}
    for host in site.hosts:
        try:
            enrol(host, folder, confirm=_accepted if accept else _asked)
        except MachineError as error:
            problem = error.problems[0]
            failed[host.name] = Evidence(host.name, "machine", {}, problem=problem.message, hint=problem.hint)
    wanted = {host.name: COMMANDS for host in site.hosts if host.name not in failed}
    return {**read_site(site, folder, wanted), **failed}


def _accepted(host: Host, shown: str) -> bool:
    click.echo(f"{host.name} ({host.address}): host key {shown} accepted", err=True)
    return True


def _asked(host: Host, shown: str) -> bool:
    click.echo(f"{host.name} ({host.address}) shows the host key {shown}", err=True)
    return click.confirm("Is that the machine's key?", default=False, err=True)


def _observed(readings: dict[str, Evidence]) -> tuple[dict[str, Machine], list[Problem]]:
    machines: dict[str, Machine] = {}
    problems: list[Problem] = []
    for name, evidence in sorted(readings.items()):
        try:
            if evidence.problem:
                raise MachineError(evidence.problem, evidence.hint)
            machines[name] = observe(evidence)
        except MachineError as error:
            problems += [
                Problem(text if text.startswith(name) else f"{name}: {text}", item.hint)
                for item in error.problems
                for text in (item.message,)
            ]
    return machines, problems


def summary(machine: Machine) -> str:
    """The machine in one line."""
    cpu = machine.cpu
    parts = [
        machine.os.pretty_name if machine.os else "unknown system",
        f"{cpu.sockets}× {cpu.model}, {cpu.cores} cores",
        memory(machine.memory_bytes),
        *(f"{gpus.count}× {gpus.kind}" for gpus in machine.gpus),
        disks(machine.disks),
    ]
    if not machine.gpus:
        parts.insert(3, "no GPU")
    virtual = f" · virtual ({machine.virtualization}): a rehearsal" if machine.virtual else ""
    return f"{machine.name}  " + " · ".join(parts) + virtual


def disks(found: tuple[Disk, ...]) -> str:
    """The disks in words; equal ones are counted together."""
    counted: dict[str, int] = {}
    for disk in found:
        text = f"{disk_text(disk.size_bytes)} {_holds(disk)}"
        counted[text] = counted.get(text, 0) + 1
    listed = ", ".join(f"{count}× {text}" if count > 1 else text for text, count in counted.items())
    return f"disks: {listed or 'none'}"


def _holds(disk: Disk) -> str:
    if disk.system:
        return "system"
    if not disk.contents:
        return "empty"
    shown = []
    for content in disk.contents:
        label = f" {content.label!r}" if content.label else ""
        where = f" at {', '.join(content.mounts)}" if content.mounts else ""
        shown.append(f"{content.type}{label}{where}")
    return f"with {' + '.join(shown)}"

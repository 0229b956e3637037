"""discover: reads every host of the site into observed/<host>.json."""

from __future__ import annotations

import json
from pathlib import Path

import click

from llmhw_provision.cli.options import become_password, secret, site_folder
from llmhw_provision.connection import write_ssh_config
from llmhw_provision.discover import COMMANDS, observe
from llmhw_provision.documents import dump_json, read, write_atomic
from llmhw_provision.errors import MachineError, Problem
from llmhw_provision.evidence import Evidence, read_site
from llmhw_provision.evidence_file import save
from llmhw_provision.first_contact import enrol, let_key_in
from llmhw_provision.machine import Disk, Machine
from llmhw_provision.site import Host, Site
from llmhw_provision.units import disk as disk_text
from llmhw_provision.units import memory


@click.command("discover")
@site_folder
@click.option("--accept-host-keys", is_flag=True, help="Accept the ssh keys of new hosts without asking.")
@click.option("--ask-password", is_flag=True, help="First contact: let the site's key in by a password login.")
@click.option("--password-fd", type=int, metavar="N", help="Read that password from file descriptor N instead.")
@become_password
@click.option("--json", "as_json", is_flag=True, help="Print the machines as JSON.")
def command(
    folder: Path, accept_host_keys: bool, ask_password: bool, password_fd: int | None, password: str, as_json: bool
) -> int:
    """Read the site's machines: system, memory, disks and what they hold, GPUs.

    Changes nothing on them, except that --ask-password adds the site's public key to the user's authorized_keys.
    """
    site = read(folder / "site.yaml", Site)
    login = secret("login password", ask=ask_password, descriptor=password_fd)
    reached, failed = _meet(site, folder, accept_host_keys, login)
    readings = {**read_site(site, folder, dict.fromkeys(reached, COMMANDS), password=password), **failed}
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


def _meet(site: Site, folder: Path, accept: bool, login: str) -> tuple[list[str], dict[str, Evidence]]:
    """Hosts whose key is known now, and for the others evidence that says why not."""
    confirm = _accepted if accept else _asked
    via = None
    if site.jump:
        jump = Host(name="jump", address=site.jump.address, port=site.jump.port)
        enrol(jump, folder, confirm=confirm)
        via = write_ssh_config(site, folder)
    reached: list[str] = []
    failed: dict[str, Evidence] = {}
    for host in site.hosts:
        try:
            enrol(host, folder, confirm=confirm, via=via)
            if login:
                let_key_in(host, folder, login, via=via)
            reached.append(host.name)
        except MachineError as error:
            problem = error.problems[0]
            failed[host.name] = Evidence(host.name, "machine", {}, problem=problem.message, hint=problem.hint)
    return reached, failed


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

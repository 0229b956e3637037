"""rollback: says what was kept on the hosts, asks, and goes back to it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from llmhw_provision.cli.apply import carry_out, refuse_without_terminal, say
from llmhw_provision.cli.options import become_password, site_folder
from llmhw_provision.content import content_root
from llmhw_provision.errors import InputError, Problem
from llmhw_provision.plan.model import HostPlan, Plan
from llmhw_provision.run import apply, orders, progress, text
from llmhw_provision.run.command import Choice


@click.command("rollback")
@site_folder
@click.option("--host", "hosts", multiple=True, metavar="HOST", help="Only this host (repeatable).")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--check", is_flag=True, help="Alter nothing; list what would change.")
@click.option("--allow-reboot", is_flag=True, help="Reboot hosts that want it, once, at the end.")
@become_password
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    folder: Path,
    hosts: tuple[str, ...],
    yes: bool,
    check: bool,
    allow_reboot: bool,
    password: str,
    as_json: bool,
) -> int:
    """Go back to the GPU driver before the last change.

    The packages of the old version lie on each host since apply changed it; no mirror is asked.
    Driver, libraries and fabric manager go back together, are held again, and want a restart like any change.
    """
    asked = orders.prepare(folder, choice=Choice(limit=hosts), allow_reboot=allow_reboot, password=password)
    order = replace(asked, verb="rollback", choice=Choice(limit=_with_driver(asked.plan, asked.hosts, named=hosts)))
    if not check and not yes:
        refuse_without_terminal("rollback")
    looking = replace(order, choice=replace(order.choice, check=True), allow_reboot=False)
    content = content_root()
    if check:
        return carry_out(looking, content=content, as_json=as_json)
    found = apply.run(looking, progress.Lines(io.StringIO()), content=content)
    say(text.failures(found))
    if found.exit_code:
        say(["nothing was changed"])
        return found.exit_code
    say(text.changes(found))
    say(_planned(order.hosts))
    if not yes:
        click.confirm("Continue?", abort=True, err=True, prompt_suffix=" ")
    return carry_out(order, content=content, as_json=as_json)


def _with_driver(plan: Plan, wanted: Sequence[HostPlan], *, named: Sequence[str]) -> tuple[str, ...]:
    """Names of the wanted hosts whose driver is ours; raises InputError for one that was named and has none."""
    found = tuple(host.name for host in wanted if host.roles.nvidia_driver is not None)
    problems = [
        Problem(f"{name}: the plan has no driver for it, so none was kept", "see software.install in site.yaml")
        for name in named
        if name not in found
    ]
    if problems or not found:
        raise InputError.of(problems or [Problem(f"site {plan.site}: the plan has no driver for any host", "")])
    return found


def _planned(hosts: Sequence[HostPlan]) -> list[str]:
    """That the next apply would go forward again."""
    versions = {host.roles.nvidia_driver.version for host in hosts if host.roles.nvidia_driver}
    listed = ", ".join(sorted(versions))
    advice = "before the next apply write the one you keep as software.driver in site.yaml and run plan"
    return [f"the plan still wants driver {listed}: {advice}"]

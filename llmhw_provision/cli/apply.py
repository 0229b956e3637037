"""apply: looks, says what will happen, asks, carries the plan out, says how it ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from llmhw_provision.cli.options import become_password, site_folder
from llmhw_provision.cli.plan import make_plan
from llmhw_provision.content import content_root
from llmhw_provision.documents import dump_json, read
from llmhw_provision.errors import InputError, MachineError
from llmhw_provision.run import apply, estimate, history, orders, preflight, progress, text
from llmhw_provision.run.command import Choice
from llmhw_provision.site import Site


@click.command("apply")
@site_folder
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--check", is_flag=True, help="Alter nothing; list what apply would change.")
@click.option("--diff", is_flag=True, help="Show the lines that change.")
@click.option("--allow-reboot", is_flag=True, help="Reboot hosts that want it, once, after the last role.")
@click.option("--allow-interrupt", is_flag=True, help="Go on although somebody uses the machine or has set it up.")
@click.option("--resume", is_flag=True, help="Go on with the last run, which did not finish: same plan, what is left.")
@click.option("--limit", multiple=True, metavar="HOST", help="Only this host (repeatable).")
@click.option("--tags", multiple=True, metavar="TAG", help="Only tasks with this tag, for example a role (repeatable).")
@become_password
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    folder: Path,
    yes: bool,
    check: bool,
    diff: bool,
    allow_reboot: bool,
    allow_interrupt: bool,
    resume: bool,
    limit: tuple[str, ...],
    tags: tuple[str, ...],
    password: str,
    as_json: bool,
) -> int:
    """Carry the plan out on the machines.

    First all of them are looked at: whatever stands against the start is said at once, and nothing is changed.
    A run that was stopped or failed is finished by the next one. The record lies in runs/ of the site.
    """
    choice = Choice(check=check, diff=diff, limit=limit, tags=tags)
    resumes = ""
    if resume:
        if check or limit or tags:
            raise click.UsageError("--resume takes up what the last run was asked; leave --check, --limit, --tags out")
        left = history.unfinished(folder, allow_reboot=allow_reboot)
        choice, allow_reboot, resumes = left.choice(diff=diff), left.allow_reboot, left.run
    order = orders.prepare(folder, choice=choice, allow_reboot=allow_reboot, password=password, resumes=resumes)
    refuse_outdated(order)
    announce(order)
    if not check and not yes:
        refuse_without_terminal()
    content = content_root()
    site = read(order.site / "site.yaml", Site)
    first = preflight.look(preflight.Look(order, site, content, allow_interrupt))
    say(text.preflight(first))
    if first.refusals:
        raise MachineError.of(first.refusals)
    warn_again(order)
    if not check and not yes:
        click.confirm("Continue?", abort=True, err=True, prompt_suffix=" ")
    return carry_out(order, content=content, as_json=as_json)


def refuse_outdated(order: orders.Order) -> None:
    """Raises InputError when the site's files have changed since they gave plan.json."""
    if not (order.site / "site.yaml").is_file():
        return
    fresh = make_plan(order.site)
    if fresh != order.plan:
        raise InputError(
            f"{order.site / 'plan.json'}: plan {order.plan.identity} is not what the site's files give now "
            f"({fresh.identity})",
            "see what differs with llmhw-provision plan --diff, then run llmhw-provision plan",
        )


def announce(order: orders.Order) -> None:
    """Says what will happen, loudest what cannot be undone."""
    if order.resumes:
        click.echo(f"going on with {order.resumes}", err=True)
    say(text.overview(order.plan, order.hosts, check=order.choice.check, allow_reboot=order.allow_reboot))
    warn_again(order)


def warn_again(order: orders.Order) -> None:
    """The lines about what cannot be undone; they stand last before the question."""
    for line in text.erasures(order.hosts):
        click.secho(line, err=True, bold=True, fg="red", color=False if os.environ.get("NO_COLOR") else None)


def refuse_without_terminal(verb: str = "apply") -> None:
    """Raises InputError where nobody can be asked."""
    if not sys.stdin.isatty():
        raise InputError(
            f"{verb} asks before it alters machines, but standard input is no terminal",
            "add --yes, or look first with --check; nothing was started",
        )


def carry_out(order: orders.Order, *, content: Path, as_json: bool) -> int:
    """Runs the order with the playbooks below `content` and says how it ended; the exit status."""
    runs = order.site / "runs"
    earlier = estimate.earlier(runs, verb=order.verb, plan=order.plan.identity, choice=order.choice)
    roles = {host.name: text.roles(host) for host in order.hosts}
    watcher = progress.watcher(sys.stderr, roles=roles, earlier=earlier)
    result = apply.run(order, watcher, content=content)
    if as_json:
        click.echo(dump_json(result), nl=False)
    elif order.choice.check or order.choice.diff:
        for line in text.changes(result):
            click.echo(line)
    say(text.failures(result))
    say(text.ending(result))
    return result.exit_code


def say(lines: Iterable[str]) -> None:
    """Prints messages, which go to standard error."""
    for line in lines:
        click.echo(line, err=True)

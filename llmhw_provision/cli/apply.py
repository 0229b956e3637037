"""apply: says what will happen, asks, carries the plan out, says how it ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from llmhw_provision.cli.options import site_folder
from llmhw_provision.cli.plan import make_plan
from llmhw_provision.content import content_root
from llmhw_provision.documents import dump_json
from llmhw_provision.errors import InputError
from llmhw_provision.run import apply, estimate, progress, text
from llmhw_provision.run.command import Choice


@click.command("apply")
@site_folder
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--check", is_flag=True, help="Alter nothing; list what apply would change.")
@click.option("--diff", is_flag=True, help="Show the lines that change.")
@click.option("--allow-reboot", is_flag=True, help="Reboot hosts that want it, once, after the last role.")
@click.option("--limit", multiple=True, metavar="HOST", help="Only this host (repeatable).")
@click.option("--tags", multiple=True, metavar="TAG", help="Only tasks with this tag, for example a role (repeatable).")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    folder: Path,
    yes: bool,
    check: bool,
    diff: bool,
    allow_reboot: bool,
    limit: tuple[str, ...],
    tags: tuple[str, ...],
    as_json: bool,
) -> int:
    """Carry the plan out on the machines.

    A run that was stopped or failed is finished by the next one. The record lies in runs/ of the site.
    """
    choice = Choice(check=check, diff=diff, limit=limit, tags=tags)
    order = apply.prepare(folder, choice=choice, allow_reboot=allow_reboot)
    refuse_outdated(order)
    announce(order)
    if not check and not yes:
        ask()
    return carry_out(order, content=content_root(), as_json=as_json)


def refuse_outdated(order: apply.Order) -> None:
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


def announce(order: apply.Order) -> None:
    """Says what will happen, loudest what cannot be undone."""
    say(text.overview(order.plan, order.hosts, check=order.choice.check))
    for line in text.erasures(order.hosts):
        click.secho(line, err=True, bold=True, fg="red", color=False if os.environ.get("NO_COLOR") else None)


def ask() -> None:
    """Returns when the user agrees; raises InputError where nobody can be asked."""
    if not sys.stdin.isatty():
        raise InputError(
            "apply asks before it alters machines, but standard input is no terminal",
            "add --yes, or look first with --check; nothing was started",
        )
    click.confirm("Continue?", abort=True, err=True, prompt_suffix=" ")


def carry_out(order: apply.Order, *, content: Path, as_json: bool) -> int:
    """Runs the order with the playbooks below `content` and says how it ended; the exit status."""
    runs = order.site / "runs"
    earlier = estimate.earlier(runs, verb="apply", plan=order.plan.identity, choice=order.choice)
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

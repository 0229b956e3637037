"""drift: what differs from the plan now; alters nothing, and its exit status tells cron."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import click

from llmhw_provision.cli.options import become_password, site_folder
from llmhw_provision.content import content_root
from llmhw_provision.documents import dump_json, read
from llmhw_provision.run import drift, orders, progress, text
from llmhw_provision.run.command import Choice
from llmhw_provision.site import Site


@click.command("drift")
@site_folder
@click.option("--limit", multiple=True, metavar="HOST", help="Only this host (repeatable).")
@click.option("--quiet", is_flag=True, help="Print nothing when all hosts are as planned, and no progress: for cron.")
@become_password
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(folder: Path, limit: tuple[str, ...], quiet: bool, password: str, as_json: bool) -> int:
    """Say what differs from the plan: the quick checks, and what apply would change. Alters nothing.

    Exit status: 0 all hosts are as planned, 3 a host differs or cannot be reached, 4 Ansible itself failed, 1 the
    site's files are wrong.
    """
    order = orders.prepare(folder, choice=Choice(check=True, diff=True, limit=limit), password=password)
    site = read(order.site / "site.yaml", Site)
    names = {host.name: text.roles(host) for host in order.hosts}
    lines = progress.Lines(io.StringIO())  # shown to nobody
    watcher = lines if quiet else progress.watcher(sys.stderr, roles=names, earlier=None)
    found = drift.look(order, site, content=content_root(), watcher=watcher)
    if as_json:
        click.echo(dump_json(found), nl=False)
    else:
        for line in drift.words(found, quiet=quiet):
            click.echo(line)
    return found.exit_code

"""collect: reads the machine it runs on into one file, to be judged on another computer."""

from __future__ import annotations

import hmac
import os
import platform
from pathlib import Path
from typing import cast

import click

from llmhw_provision import evidence_archive
from llmhw_provision.checks.collecting import wanted
from llmhw_provision.checks.model import Level
from llmhw_provision.documents import dump_json, read
from llmhw_provision.errors import InputError
from llmhw_provision.evidence import limit_s, read_here
from llmhw_provision.plan.model import HostPlan, Plan

_MACHINE_ID = Path("/etc/machine-id")
_APPLICATION = bytes.fromhex("8f6f4f1e1d8a4d3c9f0b6f8d6f1a7c52")  # ours alone, as machine-id(5) asks for


@click.command("collect")
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="plan.json: ask what it asks of this host. Without it, what every machine can be asked.",
)
@click.option("--host", "name", metavar="NAME", help="This machine's name in the plan, where its own differs.")
@click.option(
    "--level",
    type=click.Choice(["before", "quick", "standard"]),
    default="quick",
    show_default=True,
    help="The level of verify that is to be answered; needs --plan.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    show_default="this folder",
    help="Folder that the file is written to.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what the file holds as JSON.")
def command(plan_file: Path | None, name: str | None, level: str, out: Path, as_json: bool) -> int:
    """Read this machine into one file, without any network; `verify --evidence FILE` judges it elsewhere.

    Nothing is changed here. Run it as root: much is hidden from other users. Passwords in addresses are left out.
    """
    own = platform.node()
    plan = read(plan_file, Plan) if plan_file else None
    host = _host(plan, name or own) if plan else None
    if host is None and level != "quick":
        raise InputError(f"--level {level} without --plan: its questions depend on the plan", "add --plan plan.json")
    asked = wanted(host, cast(Level, level))
    if os.geteuid():
        click.echo("warning: not root: drives, kernel log and firmware will mostly not answer", err=True)
    click.echo(f"reading {len(asked)} answers, in {limit_s(asked)} s at most", err=True)
    evidence = read_here(host.name if host else name or own, asked)
    stamp = evidence.read_at.replace("-", "").replace(":", "")
    path = out / f"{evidence.host}-{stamp}{evidence_archive.SUFFIX}"
    manifest = evidence_archive.write(
        evidence,
        path,
        own_name=own,
        machine_id=_machine_id(),
        level=level,
        plan=plan.identity if plan else "",
        user=os.geteuid(),
    )
    silent = [key for key, result in evidence.results.items() if result.rc]
    click.echo(
        f"{len(asked) - len(silent)} answers, {len(silent)} commands failed or are not installed, "
        f"{path.stat().st_size / 1000:.0f} kB",
        err=True,
    )
    click.echo(dump_json(manifest) if as_json else str(path), nl=not as_json)
    return 0


def _host(plan: Plan, name: str) -> HostPlan:
    short = name.partition(".")[0]
    found = next((host for host in plan.hosts if host.name in (name, short)), None)
    if found is None:
        raise InputError(
            f"host {name!r} is not in the plan",
            f"name it with --host; hosts of the plan: {', '.join(host.name for host in plan.hosts)}",
        )
    return found


def _machine_id() -> str:
    """The machine-id in the form that may leave the machine; empty when there is none."""
    try:
        secret = bytes.fromhex(_MACHINE_ID.read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        return ""
    return hmac.new(secret, _APPLICATION, "sha256").hexdigest()[:32] if secret else ""

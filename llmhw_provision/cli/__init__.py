"""The command line: one small module per verb, loaded only when that verb is called."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from llmhw_provision import __version__
from llmhw_provision.errors import ProvisionError

# verb -> what `--help` says of it; the module cli/<verb>.py holds its click command as `command`
_VERBS = {
    "size": "what a workload needs per GPU and host, and whether it fits",
    "explain": "every number of size: formula with values, and source",
    "compare": "a workload over machines and tiers: fewest GPUs, then power",
    "claims": "what the source articles promise, and whether it holds",
    "matrix": "which versions fit together, and why",
    "discover": "read the site's machines into observed/<host>.json",
    "plan": "decide everything; write plan.json and the inventory",
    "launch": "print or write the files that start the work",
    "apply": "carry the plan out on the machines",
    "rollback": "back to the driver before the last change",
    "runs": "list earlier runs, show how one ended",
    "verify": "check the machines against the plan",
    "collect": "read this machine into one file, to be judged elsewhere",
    "drift": "what differs from the plan now; for cron",
    "report": "write the report of the last verify as HTML, JSON and JUnit",
    "schema": "print the form of workload.yaml, site.yaml, observed or plan",
}


class _Verbs(click.Group):
    """A group that knows its verbs by name and imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _VERBS:
            return None
        module = importlib.import_module(f"llmhw_provision.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Verbs"):
            formatter.write_dl(list(_VERBS.items()))


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="llmhw-provision")
def main() -> None:
    """From a workload to a commissioned LLM server: size, discover, plan, apply, verify, report."""


def entry(arguments: list[str] | None = None) -> None:
    """Runs the command line; prints a ProvisionError as `error:` and `hint:` lines and exits with its code."""
    try:
        sys.exit(_run(arguments))
    except ProvisionError as error:
        show(error)
        sys.exit(error.exit_code)


def _run(arguments: list[str] | None) -> int:
    try:
        result: Any = main.main(args=arguments, standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("stopped", err=True)
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return result if isinstance(result, int) else 0


def show(error: ProvisionError) -> None:
    """Prints every problem of `error` on standard error."""
    for problem in error.problems:
        click.echo(f"error: {problem.message}", err=True)
        if problem.hint:
            click.echo(f"hint: {problem.hint}", err=True)

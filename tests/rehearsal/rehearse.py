"""`make rehearse`: a fresh machine to a finished report, with the product's own command line."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from tests.rehearsal.errors import RehearsalError
from tests.rehearsal.machine import Machine
from tests.rehearsal.settings import STATE
from tests.rehearsal.site import close, product, write_site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# verbs in order; the options are what an engineer who has read the plan would type
STEPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("size", ()),
    ("discover", ("--accept-host-keys",)),
    ("plan", ()),
    ("apply", ("--yes", "--allow-reboot")),
    ("verify", ("--level", "quick")),
    ("report", ()),
)


@dataclass
class Clock:
    """Seconds of each step, in order."""

    steps: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Counts the time spent inside, also when it fails."""
        click.secho(f"\n── {name}", bold=True)
        start = time.monotonic()
        try:
            yield
        finally:
            self.steps[name] = round(time.monotonic() - start, 1)
            click.echo(f"── {name}: {self.steps[name]:.0f} s")


def rehearse() -> Path:
    """Path of the report; raises RehearsalError naming the step that failed. The machine is gone afterwards."""
    site = STATE / "site"
    shutil.rmtree(site, ignore_errors=True)
    clock = Clock()
    with Machine() as machine:
        with clock.step("machine"):
            machine.up()
        write_site(site, address=machine.address, port=machine.port, user=machine.user, identity=machine.identity_file)
        try:
            for verb, options in STEPS:
                with clock.step(verb):
                    _call(verb, site, options)
        finally:
            close(site)
    (STATE / "times.json").write_text(json.dumps(clock.steps, indent=1) + "\n", encoding="utf-8")
    click.echo(f"\ntimes: {', '.join(f'{name} {seconds:.0f} s' for name, seconds in clock.steps.items())}")
    return max((site / "runs").glob("*-verify")) / "report.html"


def _call(verb: str, site: Path, options: tuple[str, ...]) -> None:
    command = product(verb, site, *options)
    click.echo(f"$ llmhw-provision {' '.join(command[1:])}")
    with subprocess.Popen(command) as process:
        try:
            status = process.wait()
        except BaseException:
            process.terminate()  # it ends Ansible as well, which a kill would leave behind
            raise
    if status:
        raise RehearsalError(f"{verb} ended with exit status {status}", f"its record lies in {site / 'runs'}")

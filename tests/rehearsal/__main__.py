"""``python -m tests.rehearsal``: what the Makefile and a person call."""

import os
import shutil
import signal
import subprocess
import sys
import time
from types import FrameType

import click

from tests.rehearsal import accel, box, host, layout, rehearse
from tests.rehearsal.errors import RehearsalError
from tests.rehearsal.machine import Machine
from tests.rehearsal.settings import cache_dir, load_env_file

PACKAGES = (
    "ca-certificates", "dnsmasq-base", "e2fsprogs", "gpg", "gpg-agent", "gpgconf", "iproute2", "iptables",
    "libvirt-clients", "libvirt-daemon-system", "mmdebstrap", "nftables", "openssh-client", "qemu-system-x86",
    "qemu-utils", "systemd-container", "vagrant", "vagrant-libvirt",
)  # fmt: skip


@click.group(help=__doc__)
def main() -> None:
    load_env_file()
    signal.signal(signal.SIGTERM, _terminated)


def _terminated(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(143)


@main.command()
def packages() -> None:
    """Install the Debian packages that the rehearsal and containers need and that are missing."""
    query = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}\n", *PACKAGES]
    listed = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    present = {line.split()[0] for line in listed.splitlines() if " ii" in line}
    absent = [name for name in PACKAGES if name not in present]
    if not absent:
        return
    if os.geteuid() != 0:
        raise RehearsalError(f"missing packages: {' '.join(absent)}", "run this as root (sudo)")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], check=True, env=environment)
    install = ["apt-get", "install", "-y", "--no-install-recommends", *absent]
    subprocess.run(install, check=True, env=environment)


@main.command(name="box")
def box_command() -> None:
    """Have a box: the public one where it can be downloaded, else one built here."""
    start = time.monotonic()
    built = box.current()
    if built.file.exists():
        click.echo(f"box: {built.file}")
        return
    chosen = os.environ.get("LLMHW_BOX")
    if chosen != "local" and box.download(chosen or layout.PUBLIC_BOX):
        click.echo(f"box: {chosen or layout.PUBLIC_BOX}")
        return
    if chosen not in (None, "local"):
        raise RehearsalError(f"box {chosen} cannot be downloaded", "unset LLMHW_BOX to build one")
    click.echo("the public box cannot be downloaded: building one with mmdebstrap", err=True)
    click.echo(f"box: {box.build().file} ({time.monotonic() - start:.0f} s)")


@main.command()
@click.option("--product", type=click.Choice(layout.PRODUCTS), help="Show the GPU board of this machine.")
def up(product: str | None) -> None:
    """Create the machine and leave it running (see ``down``)."""
    start = time.monotonic()
    machine = Machine(product=product)
    machine.up()
    click.echo(f"up after {time.monotonic() - start:.0f} s ({accel.choice()}): ssh -F {machine.ssh_config} rehearsal")


@main.command()
def down() -> None:
    """Remove the machine, its drives, its network and the libvirt daemons started for it."""
    Machine().destroy()


@main.command(name="rehearse")
def rehearse_command() -> None:
    """A fresh machine to a finished report; the machine is gone afterwards."""
    report = rehearse.rehearse()
    click.secho(f"report: {report}  (中文: {report.with_name('report.zh.html').name})", bold=True)


@main.command()
def status() -> None:
    """What exists: machine, box, acceleration."""
    built = box.current()
    click.echo(f"machine: {host.domain_state() or 'none'}")
    click.echo(f"box: {built.file if built.file.exists() else 'not built'}")
    click.echo(f"acceleration: {accel.choice()}")
    for drive in layout.drives():
        click.echo(f"drive {drive.serial}: slot {drive.slot:#x}, {'in' if drive.inserted else 'pulled'}")


@main.command()
@click.option("--cache", is_flag=True, help="Also delete built boxes and downloaded packages.")
def clean(cache: bool) -> None:
    """Reap whatever a killed run left."""
    Machine().destroy()
    if cache:
        shutil.rmtree(cache_dir(), ignore_errors=True)


if __name__ == "__main__":
    try:
        main()
    except RehearsalError as error:
        click.echo(f"error: {error.message}\nhint: {error.hint}", err=True)
        sys.exit(1)

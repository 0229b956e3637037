"""What `verify --level quick` costs the controller and each host at 1, 8 and 32 hosts, containers on this machine.

Asked twice: without an open connection, and over the one that the first left open. Seconds are those of the verb as a
whole process; CPU seconds those of it and all it waited for (ssh, the checks within pytest). Logins are
counted by each host's sshd. The hosts are planned, not applied: most checks fail, which costs the same reading.
Limits (exit status 1 beyond them): 3 logins a host, 10 s for one host.
Run as root: python -m benchmarks.verify_fleet [COUNT...]
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fleet import LISTEN, counted
from tests.containers.container import Container
from tests.containers.lab import Lab
from tests.containers.site import Site

MOST_CONNECTIONS, MOST_SECONDS = 3, 10.0


@dataclass(frozen=True)
class Cost:
    """One verify; logins are the mean per host."""

    hosts: int
    connection: str
    seconds: float
    cpu: float
    logins: float
    findings: int

    def row(self) -> str:
        """A row of the table."""
        spent = f"{self.seconds:.1f} | {self.seconds / self.hosts:.2f} | {self.cpu:.1f} | {self.cpu / self.hosts:.2f}"
        asked = f"{self.logins:.1f} | {self.findings}"
        return f"| {self.hosts} | {self.connection} | {spent} | {asked} |"

    def beyond(self) -> bool:
        """Whether a limit is passed."""
        slow = self.hosts == 1 and self.seconds > MOST_SECONDS
        return slow or self.logins > MOST_CONNECTIONS


def main(counts: Sequence[int]) -> int:
    """Measures at each number of hosts and prints a table; 1 when a limit is passed."""
    names = ("hosts", "connection", "s", "s per host", "CPU s", "CPU s per host", "logins per host")
    print(f"| {' | '.join(names)} | findings |\n|{'---|' * (len(names) + 1)}")
    beyond = False
    for count in counts:
        with Lab() as lab, tempfile.TemporaryDirectory() as folder:
            machines = lab.start_many(count)
            for machine in machines:
                machine.run(LISTEN)
            site = Site(Path(folder) / "site", machines).planned()
            for machine in machines:
                _close(site, machine)
            for connection in ("new", "open"):
                cost = _measure(site, machines, connection)
                print(cost.row(), flush=True)
                beyond |= cost.beyond()
    return int(beyond)


def _close(site: Site, machine: Container) -> None:
    """Ends the connection that `discover` left open; it is an error when there is none."""
    command = ("ssh", "-F", str(site.folder / "ssh_config"), "-O", "exit", machine.name)
    subprocess.run(command, capture_output=True, check=True)


def _measure(site: Site, machines: Sequence[Container], connection: str) -> Cost:
    before, began = [counted(machine) for machine in machines], time.perf_counter()
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = site.call("verify", "--level", "quick", "--json", timeout=1800)
    seconds, now = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 3):
        raise SystemExit(done.stderr)
    report = json.loads(done.stdout)
    unread = [host["name"] for host in report["hosts"] if host["problem"]]
    if unread or len(report["hosts"]) != len(machines):
        raise SystemExit(f"could not be read: {', '.join(unread)}")
    after = [counted(machine) for machine in machines]
    logins = sum(new[1] - old[1] for new, old in zip(after, before, strict=True)) / len(machines)
    cpu = now.ru_utime + now.ru_stime - spent.ru_utime - spent.ru_stime
    return Cost(len(machines), connection, seconds, cpu, logins, len(report["findings"]))


if __name__ == "__main__":
    sys.exit(main([int(word) for word in sys.argv[1:]] or [1, 8, 32]))

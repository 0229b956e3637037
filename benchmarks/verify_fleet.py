"""What `verify --level quick` costs the controller and each host at 1, 8 and 32 hosts, containers on this machine.

Asked twice: without an open connection, and over the one that the first left open. Seconds are those of the verb as a
whole process; CPU seconds those of it and all it waited for (ssh, the checks within pytest). Logins and
sessions are counted by each host's sshd. The hosts are planned, not applied: most checks fail, which costs the same
reading. Limits (exit status 1 beyond them): 3 logins and sessions a host, 10 s for one host.
Run as root: python -m benchmarks.verify_fleet [COUNT...]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fleet import LISTEN, spent
from tests.containers.container import Container
from tests.containers.lab import Lab
from tests.containers.site import Site

MOST_CONNECTIONS, MOST_SECONDS = 3, 10.0


@dataclass(frozen=True)
class Cost:
    """One verify; per host the mean of sessions and logins."""

    hosts: int
    connection: str
    seconds: float
    cpu: float
    sessions: float
    logins: float
    findings: int

    def row(self) -> str:
        """A row of the table."""
        times = f"{self.seconds:.1f} | {self.seconds / self.hosts:.2f} | {self.cpu:.1f} | {self.cpu / self.hosts:.2f}"
        asked = f"{self.sessions:.1f} | {self.logins:.1f} | {self.findings}"
        return f"| {self.hosts} | {self.connection} | {times} | {asked} |"

    def beyond(self) -> bool:
        """Whether a limit is passed."""
        slow = self.hosts == 1 and self.seconds > MOST_SECONDS
        return slow or max(self.sessions, self.logins) > MOST_CONNECTIONS


def main(counts: Sequence[int]) -> int:
    """Measures at each number of hosts and prints a table; 1 when a limit is passed."""
    names = ("hosts", "connection", "s", "s per host", "CPU s", "CPU s per host", "sessions per host", "logins a host")
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
    found = spent(site, machines, "verify", "--level", "quick", "--json", timeout=1800)
    if found.done.returncode not in (0, 3):
        raise SystemExit(found.done.stderr)
    report = json.loads(found.done.stdout)
    unread = [host["name"] for host in report["hosts"] if host["problem"]]
    if unread or len(report["hosts"]) != len(machines):
        raise SystemExit(f"could not be read: {', '.join(unread)}")
    cost = (found.seconds, found.cpu, found.sessions, found.logins)
    return Cost(len(machines), connection, *cost, len(report["findings"]))


if __name__ == "__main__":
    sys.exit(main([int(word) for word in sys.argv[1:]] or [1, 8, 32]))

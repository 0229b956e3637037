"""What apply costs the controller and each host at 1, 8 and 32 hosts, which are containers on this machine.

CPU seconds are those of apply and all it waited for (Ansible and its workers, ssh); the containers' own are not among
them, but they share the cores, so elapsed seconds say little. Sessions are counted by each host's sshd.
Run as root: python -m benchmarks.fleet [COUNT...]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.containers.container import Container
from tests.containers.lab import Lab
from tests.containers.site import Site

LISTEN = "echo 'LogLevel VERBOSE' >>/etc/ssh/sshd_config && systemctl restart ssh"
_SESSIONS = "journalctl -u ssh --no-pager | grep -c 'Starting session'; journalctl -u ssh | grep -c 'Accepted '"


def main(counts: Sequence[int]) -> int:
    """Measures first and second apply at each number of hosts and prints a table."""
    print("| hosts | apply | s | CPU s of the controller | per host | ssh sessions per host | logins per host |")
    print("|---|---|---|---|---|---|---|")
    for count in counts:
        with Lab() as lab, tempfile.TemporaryDirectory() as folder:
            machines = lab.start_many(count)
            for machine in machines:
                machine.run(LISTEN)
            site = Site(Path(folder) / "site", machines).planned()
            for which in ("first", "second"):
                print(f"| {count} | {which} | {_row(site, machines)} |", flush=True)
    return 0


def _row(site: Site, machines: Sequence[Container]) -> str:
    before, began = [counted(machine) for machine in machines], time.perf_counter()
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = site.call("apply", "--yes", timeout=3600)
    seconds, now = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = now.ru_utime + now.ru_stime - spent.ru_utime - spent.ru_stime
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    after = [counted(machine) for machine in machines]
    # Each look counts one session of our own; the connection for it is there already.
    sessions = sum(new[0] - old[0] - 1 for new, old in zip(after, before, strict=True)) / len(machines)
    logins = sum(new[1] - old[1] for new, old in zip(after, before, strict=True)) / len(machines)
    return f"{seconds:.0f} | {cpu:.1f} | {cpu / len(machines):.2f} | {sessions:.1f} | {logins:.1f}"


def counted(machine: Container) -> tuple[int, int]:
    """Sessions and logins so far, by the journal of the host's sshd."""
    sessions, logins, *_ = machine.run(_SESSIONS, check=False).stdout.split()
    return int(sessions), int(logins)


if __name__ == "__main__":
    sys.exit(main([int(word) for word in sys.argv[1:]] or [1, 8, 32]))

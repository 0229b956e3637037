"""What apply costs the controller and each host at 1, 8 and 32 hosts, which are containers on this machine.

CPU seconds are those of apply and all it waited for (Ansible and its workers, ssh); the containers' own are not among
them, but they share the cores, so elapsed seconds say little. Sessions are counted by each host's sshd.
Run as root: python -m benchmarks.fleet [COUNT...]
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.containers.container import Container
from tests.containers.lab import Lab
from tests.containers.site import Site

LISTEN = "echo 'LogLevel VERBOSE' >>/etc/ssh/sshd_config && systemctl restart ssh"
# At this level sshd also logs "Accepted key" at each look at a key; a login is "Accepted publickey for".
_SAID = "journalctl --no-pager --output cat -u ssh"
_COUNTS = f"journalctl --sync; {_SAID} | grep -c '^Starting session'; {_SAID} | grep -cE '^Accepted [a-z/-]+ for '"


@dataclass(frozen=True)
class Spent:
    """One verb: how it ended, seconds, the controller's CPU seconds, sessions and logins as means per host."""

    done: subprocess.CompletedProcess[str]
    seconds: float
    cpu: float
    sessions: float
    logins: float


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
    found = spent(site, machines, "apply", "--yes", timeout=3600)
    if found.done.returncode != 0:
        raise SystemExit(found.done.stderr)
    each = found.cpu / len(machines)
    return f"{found.seconds:.0f} | {found.cpu:.1f} | {each:.2f} | {found.sessions:.1f} | {found.logins:.1f}"


def spent(site: Site, machines: Sequence[Container], *words: str, timeout: float) -> Spent:
    """What one verb costs; the hosts' sshd must have been told to LISTEN."""
    before, began = _counted(machines), time.perf_counter()
    old = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = site.call(*words, timeout=timeout)
    seconds, new = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    after, again = _counted(machines), _counted(machines)  # differ by what looking adds: 0, if its connection is older
    sessions, logins = (2 * mid - first - last for first, mid, last in zip(before, after, again, strict=True))
    cpu = new.ru_utime + new.ru_stime - old.ru_utime - old.ru_stime
    return Spent(done, seconds, cpu, sessions / len(machines), logins / len(machines))


def _counted(machines: Sequence[Container]) -> tuple[int, int]:
    """Sessions and logins of all hosts so far, by the journals of their sshd."""
    answers = [machine.run(_COUNTS, check=False).stdout.split() for machine in machines]
    return sum(int(sessions) for sessions, _ in answers), sum(int(logins) for _, logins in answers)


if __name__ == "__main__":
    sys.exit(main([int(word) for word in sys.argv[1:]] or [1, 8, 32]))

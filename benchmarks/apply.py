"""apply on the rehearsal machine: beside a no-op playbook of equal length, and beside a script written by hand.

Two lives of the machine: in the first `apply`, `apply` again and the no-op playbook, in the second the script.
Run as root: python -m benchmarks.apply [--json FILE]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from llmhw_provision.run.command import ansible_playbook
from tests.rehearsal.layout import EMPTY_SERIALS
from tests.rehearsal.machine import Machine
from tests.rehearsal.site import HOST, run, write_site

HERE = Path(__file__).resolve().parent
REPEATS = 3


def main() -> int:
    """Measures, prints a table and writes the figures as JSON where asked."""
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        with Machine() as machine:
            machine.up()
            figures = _ours(machine, site)
        print(figures, file=sys.stderr)
        with Machine() as machine:
            machine.up()
            figures["script by hand, first"] = [_by_hand(machine)]
    print("| what | median s | all s |\n|---|---|---|")
    for name, seconds in figures.items():
        print(f"| {name} | {statistics.median(seconds):.1f} | {', '.join(f'{value:.1f}' for value in seconds)} |")
    if len(sys.argv) == 3 and sys.argv[1] == "--json":
        Path(sys.argv[2]).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


def _ours(machine: Machine, site: Path) -> dict[str, list[float]]:
    write_site(site, address=machine.address, port=machine.port, user=machine.user, identity=machine.identity_file)
    run("discover", site, "--accept-host-keys")
    run("plan", site)
    figures: dict[str, list[float]] = {"apply, first": [_timed_apply(site)]}
    tasks = _tasks(site)
    playbook = site / "noop.yml"
    playbook.write_text(_noop(tasks), encoding="utf-8")
    again, nothing = f"apply, second ({tasks} tasks)", f"no-op playbook of {tasks} tasks"
    figures |= {again: [], nothing: []}
    for _ in range(REPEATS):
        figures[again].append(_timed_apply(site))
        figures[nothing].append(_timed_noop(site, playbook))
    return figures


def _timed_apply(site: Path) -> float:
    start = time.perf_counter()
    run("apply", site, "--yes")
    return round(time.perf_counter() - start, 1)


def _tasks(site: Path) -> int:
    """Tasks that the last apply really ran on the host."""
    record = max((site / "runs").glob("*-apply")) / "result.json"
    host = json.loads(record.read_text(encoding="utf-8"))["hosts"][0]
    return int(host["tasks"])


def _noop(tasks: int) -> str:
    lines = ["- hosts: all", "  gather_facts: false", "  tasks:"]
    lines += [f"    - {{name: nothing {number}, ansible.builtin.ping: }}" for number in range(tasks)]
    return "\n".join(lines) + "\n"


def _timed_noop(site: Path, playbook: Path) -> float:
    environment = {**os.environ, "ANSIBLE_PIPELINING": "true", "ANSIBLE_HOME": str(site / ".ansible")}
    command = [str(ansible_playbook()), "-i", "inventory/hosts.yml", "--limit", HOST, str(playbook)]
    start = time.perf_counter()
    subprocess.run(command, cwd=site, env=environment, check=True, capture_output=True)
    return round(time.perf_counter() - start, 1)


def _by_hand(machine: Machine) -> float:
    script = (HERE / "by_hand.sh").read_text(encoding="utf-8")
    start = time.perf_counter()
    command = ["ssh", "-F", str(machine.ssh_config), HOST, "sudo", "sh", "-s", "--", *EMPTY_SERIALS]
    subprocess.run(command, input=script, text=True, check=True, capture_output=True)
    return round(time.perf_counter() - start, 1)


if __name__ == "__main__":
    sys.exit(main())

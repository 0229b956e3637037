"""apply of the GPU stack on the rehearsal machine, beside a script written by hand that installs the same packages.

Two lives of an AlphaPro660 with a signed repository of generated packages: in the first `apply`, `apply` again and
`apply --allow-reboot`, in the second `gpu_by_hand.sh`, the same again and a reboot. Transactions, packages, ssh
sessions and logins are counted in the machine's own logs. apply runs with the tags of playbook gpu.yml and of the
initramfs, preflight and closing record included; the script gets the versions that apply has installed.
Run as root: python -m benchmarks.gpu_apply [--json FILE]
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from benchmarks import machine_logs
from benchmarks.machine_logs import Peer
from llmhw_provision.documents import read
from llmhw_provision.plan.model import Plan, RoleConfigs
from tests.rehearsal.gpu.site import GpuSite, gpu_site
from tests.rehearsal.machine import Machine
from tests.rehearsal.site import close, run

SCRIPT = Path(__file__).resolve().parent / "gpu_by_hand.sh"
PRODUCT, DRIVER, GPUS = "AlphaPro660", "580.159.03", 8
TAGS = ("package_sources", "nvidia_driver", "cuda", "nccl", "initramfs")
# A file of its own that is read before sshd_config's own words, and a journal that a reboot leaves.
LISTEN = (
    "sudo sh -c 'echo LogLevel VERBOSE >/etc/ssh/sshd_config.d/00-listen.conf && systemctl restart ssh"
    " && mkdir -p /var/log/journal && systemctl restart systemd-journald && journalctl --flush'"
)
_LOGS = ("/var/log/apt/history.log", "/var/log/dpkg.log")
_PACKAGES = "dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\\n'"
_SSHD = "sudo sh -c 'journalctl --sync; journalctl --no-pager --output cat -u ssh'"


class Host(Protocol):
    """A machine under an alias of an OpenSSH configuration; `run` takes a shell line."""

    @property
    def alias(self) -> str: ...

    @property
    def ssh_config(self) -> Path: ...

    def run(self, command: str, *, check: bool = True) -> subprocess.CompletedProcess[str]: ...


@dataclass(frozen=True)
class Logs:
    """The logs at one moment, and the connection over which they were read."""

    history: str
    dpkg: str
    sshd: str
    own: Peer


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What one run cost: seconds; apt's transactions, in all and by source; dpkg's work; ssh, None where not counted.

    `changes`: tasks that changed something; `packages`: how many were unpacked; `unpacked_lines`: dpkg.log's.
    """

    what: str
    seconds: float
    changes: int | None
    transactions: int
    by_source: Mapping[str, int]
    packages: int
    unpacked_lines: int
    dpkg_runs: int
    sessions: int | None
    logins: int | None


@dataclass(frozen=True)
class State:
    """Packages and their versions, and the names on hold."""

    packages: Mapping[str, str]
    held: frozenset[str]

    def since(self, before: State) -> State:
        """What has come or changed since."""
        new = {name: version for name, version in self.packages.items() if before.packages.get(name) != version}
        return State(new, self.held - before.held)


@dataclass(frozen=True)
class Life:
    """What a machine's runs cost, what they left, and the packages that its plan asked for as NAME=VERSION."""

    spent: tuple[Spent, ...]
    left: State
    asked: tuple[str, ...]


def main() -> int:
    """Measures, prints a table and writes the figures as JSON where asked."""
    with tempfile.TemporaryDirectory() as folder:
        ours = _life(Path(folder) / "ours", _apply)
        hand = _life(Path(folder) / "hand", lambda machine, site: _by_hand(machine, site, ours.asked))
    spent = (*ours.spent, *hand.spent)
    differences = list(unlike(ours.left, hand.left))
    print("\n".join(table(spent)))
    print(f"\nend states: {'; '.join(differences) or 'the same packages in the same versions, the same on hold'}")
    if len(sys.argv) == 3 and sys.argv[1] == "--json":
        found = {"runs": [asdict(one) for one in spent], "asked": ours.asked, "differences": differences}
        Path(sys.argv[2]).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


def _life(folder: Path, work: Callable[[Machine, GpuSite], Iterator[Spent]]) -> Life:
    """A machine of its own, from its start to the driver in force."""
    _say("starting a machine")
    with Machine(product=PRODUCT) as machine:
        machine.up()
        with gpu_site(machine, folder, driver=DRIVER) as site:
            machine.run(LISTEN)
            before = state(machine)
            spent = tuple(work(machine, site))
            _require_driver(machine)
            after = state(machine)
            asked = wanted(_roles(site), after.packages) if (site.folder / "plan.json").exists() else ()
            return Life(spent, after.since(before), asked)


def _apply(machine: Machine, site: GpuSite) -> Iterator[Spent]:
    run("discover", site.folder, "--accept-host-keys")
    run("plan", site.folder)
    tags = [word for tag in TAGS for word in ("--tags", tag)]

    def apply(*options: str) -> int:
        result = json.loads(run("apply", site.folder, "--yes", "--json", *tags, *options).stdout)
        return len(result["changes"])

    for what, options in (("first", ()), ("second", ()), ("third, with the reboot", ("--allow-reboot",))):
        close(site.folder)  # each run logs in by itself
        yield measured(machine, f"apply, {what}", partial(apply, *options))


def _by_hand(machine: Machine, site: GpuSite, asked: Sequence[str]) -> Iterator[Spent]:
    uri = site.repository.uri
    words = [uri, f"{uri}{site.repository.key_file.name}", DRIVER, *asked]
    for what in ("first", "second"):
        yield measured(machine, f"script by hand, {what}", partial(by_hand, machine, words))
    yield replace(measured(machine, "reboot by hand", partial(_reboot, machine)), sessions=None, logins=None)


def by_hand(host: Host, words: Sequence[str]) -> None:
    """Sends the script to the host, as root, over a connection of its own; raises RuntimeError when it fails."""
    alone = ["-o", "ControlMaster=no", "-o", "ControlPath=none"]
    command = ["ssh", "-F", str(host.ssh_config), *alone, host.alias, shlex.join(["sudo", "sh", "-s", "--", *words])]
    done = subprocess.run(command, input=SCRIPT.read_text("utf-8"), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{SCRIPT.name}: exit {done.returncode}\n{done.stdout}{done.stderr}")


def _reboot(machine: Machine) -> None:
    """As apply's reboot: it has ended when systemd has started everything."""
    machine.reboot()
    machine.run("systemctl is-system-running --wait", check=False)


def measured(host: Host, what: str, work: Callable[[], int | None]) -> Spent:
    """Does the work, which may say how many tasks changed something; what it cost by clock and logs."""
    _say(what)
    before = look(host)
    _disconnect(host)  # a connection that the work's reboot would cut
    began = time.monotonic()
    changes = work()
    seconds = round(time.monotonic() - began, 1)
    after = look(host)
    done = machine_logs.transactions(machine_logs.added(before.history, after.history))
    names = sorted({name for one in done for name in one.packages})
    policy = host.run(f"LC_ALL=C apt-cache policy {' '.join(names)}").stdout if names else ""
    dpkg = machine_logs.added(before.dpkg, after.dpkg)
    lines, packages = machine_logs.unpacked(dpkg)
    sshd = machine_logs.added(before.sshd, after.sshd)
    sessions, logins = machine_logs.sessions_and_logins(sshd, {before.own, after.own})
    spent = Spent(
        what=what,
        seconds=seconds,
        changes=changes,
        transactions=len(done),
        by_source=machine_logs.by_source(done, machine_logs.sources(policy)),
        packages=packages,
        unpacked_lines=lines,
        dpkg_runs=machine_logs.dpkg_runs(dpkg),
        sessions=sessions,
        logins=logins,
    )
    *_, row = table([spent])
    _say(row)
    return spent


def look(host: Host) -> Logs:
    """The logs as they stand. sshd of `host` must have been told to LISTEN."""
    own = host.run("echo $SSH_CONNECTION").stdout.split()
    history, dpkg = (host.run(f"sudo cat {path} 2>/dev/null", check=False).stdout for path in _LOGS)
    return Logs(history, dpkg, host.run(_SSHD).stdout, (own[0], own[1]))


def _disconnect(host: Host) -> None:
    command = ["ssh", "-F", str(host.ssh_config), "-O", "exit", host.alias]
    subprocess.run(command, capture_output=True, check=False)


def state(host: Host) -> State:
    """The installed packages and those on hold."""
    rows = (line.split() for line in host.run(_PACKAGES).stdout.splitlines())
    packages = {row[0]: row[1] for row in rows if row[2][1] == "i"}
    return State(packages, frozenset(host.run("apt-mark showhold").stdout.split()))


def _roles(site: GpuSite) -> RoleConfigs:
    (host,) = read(site.folder / "plan.json", Plan).hosts
    return host.roles


def wanted(roles: RoleConfigs, installed: Mapping[str, str]) -> tuple[str, ...]:
    """NAME=VERSION of all that the plan asks for, as it is installed; raises KeyError where it is not."""
    driver, cuda, nccl = roles.nvidia_driver, roles.cuda, roles.nccl
    if driver is None or cuda is None or nccl is None:
        raise KeyError("the plan has no GPU stack")
    profilers = [entry for entry in cuda.profiler if entry.partition("=")[0] in installed]
    entries = [*driver.needs, *(item.name for item in driver.packages), *cuda.packages, *profilers[:1], *nccl.packages]
    names = [re.split("[>=]", entry)[0] for entry in entries]
    return tuple(f"{name}={installed[name]}" for name in names)


def unlike(ours: State, hand: State) -> Iterator[str]:
    """In what two end states differ, in words."""
    for name in sorted({*ours.packages, *hand.packages}):
        one, other = ours.packages.get(name, "none"), hand.packages.get(name, "none")
        if one != other:
            yield f"{name}: {one} by apply, {other} by hand"
    for side, names in (("apply", ours.held - hand.held), ("hand", hand.held - ours.held)):
        if names:
            yield f"on hold by {side} alone: {', '.join(sorted(names))}"


def table(spent: Sequence[Spent]) -> Iterator[str]:
    """A Markdown table, a row for each run."""
    yield "| what | s | tasks changed | apt transactions | by source | packages | dpkg runs | ssh sessions | logins |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for one in spent:
        sources = ", ".join(f"{source} {count}" for source, count in one.by_source.items())
        counts = [one.changes, one.transactions, sources, one.packages, one.dpkg_runs, one.sessions, one.logins]
        cells = ["-" if count in (None, "") else str(count) for count in counts]
        yield f"| {one.what} | {one.seconds:.1f} | {' | '.join(cells)} |"


def _require_driver(machine: Machine) -> None:
    """Raises RuntimeError unless the driver is in force: who installs faster and ends without it has won nothing."""
    version = machine.run("cat /sys/module/nvidia/version", check=False).stdout.strip()
    gpus = machine.run("nvidia-smi -L | grep -c H100", check=False).stdout.strip()
    if (version, gpus) != (DRIVER, str(GPUS)):
        raise RuntimeError(f"module nvidia {version or 'is not loaded'}, {gpus} GPUs; expected {DRIVER}, {GPUS}")


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""The role nvme_raid0 beside a public mdadm role and a one-liner: what each does to drives that are not simply empty.

WIPES THE DRIVES it is given, again and again; it takes QEMU's emulated drives only. Needs a Debian to throw away with
ssh, sudo, mdadm, xfsprogs, lvm2, cryptsetup and four spare NVMe drives of one size (`--odd`: one of another size).
The public role and an ansible-playbook with the collections it needs are given by path; nothing of either is kept here:

    python -m benchmarks.storage_peers --ssh-config FILE --host NAME --drives S0,S1,S2,S3 --odd S4 \
        --peer-role FOLDER --peer-ansible FILE --json FILE
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.storage_outcome import Run, classify, parse
from benchmarks.storage_scenarios import BY_ID, MOUNT, PRELUDE, READ, RESET, SCENARIOS, Scenario
from llmhw_provision.content import content_root
from llmhw_provision.run.command import ansible_playbook

MODEL = "QEMU NVMe Ctrl"
LIMIT_S = 600
ONE_LINER = (
    "yes | mdadm --create {wish} --level=0 --raid-devices={count} {disks} && mkfs.xfs -f {wish} && mkdir -p {mount}"
    " && mount {wish} {mount} && mdadm --detail --scan >> /etc/mdadm/mdadm.conf"
    " && echo '{wish} {mount} xfs defaults,nofail 0 0' >> /etc/fstab"
)


class LostError(Exception):
    """The connection to the machine failed: nothing can be said about the tool."""


@dataclass(frozen=True)
class Host:
    """The machine to throw away, reached through an ssh configuration."""

    ssh_config: Path
    name: str

    def sh(self, script: str, *, shell: str = "sh") -> subprocess.CompletedProcess[str]:
        """What a script run as root printed."""
        command = ["ssh", "-F", str(self.ssh_config), self.name, "sudo", shell, "-s"]
        return subprocess.run(command, input=script, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    def reboot(self) -> Run:
        """Restarts the machine and waits until its start has ended."""
        boot, start = self._boot(), time.perf_counter()
        self.sh("systemd-run --quiet --on-active=1 systemctl reboot")
        while time.perf_counter() - start < LIMIT_S:
            time.sleep(2)
            if self._boot() not in ("", boot):
                self.sh("systemctl is-system-running --wait")
                return Run(0, time.perf_counter() - start)
        return Run(1, time.perf_counter() - start, ("the machine did not come back",))

    def _boot(self) -> str:
        return self.sh("cat /proc/sys/kernel/random/boot_id").stdout.strip()


@dataclass(frozen=True)
class Wish:
    """What is asked for: a RAID0 of that name over these disks, mounted."""

    name: str
    disks: tuple[str, ...]


@dataclass(frozen=True)
class Tool:
    """One way to get there: its array's usual name, where the device is, and how it is run."""

    title: str
    name: str
    folder: str
    run: Callable[[Host, Wish], Run]


def tools(options: argparse.Namespace) -> dict[str, Tool]:
    """The three ways by their short names."""

    def ours(host: Host, wish: Wish) -> Run:
        content = content_root()
        roles = {"ANSIBLE_ROLES_PATH": str(content / "roles")}
        inventory = _inventory(host, "nvme_raid0", {"nvme_raid0_config": _config(wish)})
        words = [str(ansible_playbook()), "--tags", "nvme_raid0", str(content / "playbooks/storage.yml")]
        return _ansible(words, inventory, roles)

    def public(host: Host, wish: Wish) -> Run:
        array = {"name": wish.name, "devices": list(wish.disks), "level": "0", "state": "present"}
        array |= {"filesystem": "xfs", "mountpoint": MOUNT}
        play = [{"hosts": "all", "roles": [str(options.peer_role.resolve())], "vars": {"mdadm_arrays": [array]}}]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(play, file)
            file.flush()
            return _ansible([str(options.peer_ansible), file.name], _inventory(host, "all", {}), {})

    def one_liner(host: Host, wish: Wish) -> Run:
        path, disks = "/dev/" + wish.name, " ".join(wish.disks)
        line = ONE_LINER.format(wish=path, count=len(wish.disks), disks=disks, mount=MOUNT)
        start = time.perf_counter()
        done = host.sh(line, shell="bash")
        return Run(done.returncode, time.perf_counter() - start, tuple(reversed(_lines(done.stderr))))

    return {
        "ours": Tool("`nvme_raid0`", "scratch", "/dev/md/", ours),
        "public": Tool("public role", "md0", "/dev/", public),
        "one-liner": Tool("one-liner", "md0", "/dev/", one_liner),
    }


def _config(wish: Wish) -> dict[str, Any]:
    volume = {"name": wish.name, "level": "raid0", "members": list(wish.disks), "chunk_kib": 512, "mount": MOUNT}
    volume |= {"filesystem": "xfs", "mount_options": ["noatime", "nofail"], "device_timeout_s": 20, "trim": "weekly"}
    volume |= {"read_ahead_kib": 1024, "ephemeral": False, "owner": "root", "group": "root", "mode": "0755"}
    return {"volumes": [volume], "directories": [], "wipe": [], "max_wear_percent": 90}


def _inventory(host: Host, group: str, values: dict[str, Any]) -> dict[str, Any]:
    connection = {"ansible_ssh_common_args": f"-F {host.ssh_config.resolve()}", "ansible_become": True}
    return {group: {"hosts": {host.name: {**connection, "ansible_python_interpreter": "/usr/bin/python3", **values}}}}


def _ansible(words: Sequence[str], inventory: dict[str, Any], extra: dict[str, str]) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "hosts.json").write_text(json.dumps(inventory), encoding="utf-8")
        environment = {
            **os.environ,
            "ANSIBLE_HOME": folder,
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_TIMEOUT": "120",
            **extra,
        }
        command = [words[0], "-i", "hosts.json", *words[1:]]
        start = time.perf_counter()
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        seconds = time.perf_counter() - start
    if "UNREACHABLE!" in done.stdout or "privilege escalation prompt" in done.stdout:
        raise LostError(_lines(done.stdout)[-1])
    return Run(done.returncode, seconds, _failure(done.stdout) or tuple(_lines(done.stderr)))


def _failure(output: str) -> tuple[str, ...]:
    """What the first failed task said: the error output of its command, last line first, or else its message."""
    for line in output.splitlines():
        head, arrow, result = line.partition("=> {")
        if arrow and head.startswith(("fatal:", "failed:")):
            found = json.loads("{" + result)
            errors = _lines(found.get("stderr", ""))
            return tuple(reversed(errors)) or tuple(_lines(found.get("msg", "")))
    return ()


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def main() -> int:
    """Runs every scenario with every tool, keeps the results in the JSON file, prints the tables."""
    options = _options()
    host = Host(options.ssh_config, options.host)
    serials = dict(zip(("d0", "d1", "d2", "d3", "odd"), [*options.drives, *options.odd], strict=False))
    wrong = refuse(host, serials.values())
    if wrong:
        print("\n".join("error: " + line for line in wrong), file=sys.stderr)
        return 1
    results = json.loads(options.json.read_text(encoding="utf-8")) if options.json.exists() else {}
    ways = tools(options)
    for way in options.tools or ways:
        data = ""
        for scenario in SCENARIOS:
            if (options.only and scenario.key not in options.only) or not set(scenario.drives) <= set(serials):
                continue
            try:
                outcome, data = measure(host, ways[way], scenario, serials, data)
            except LostError as error:
                print(way, scenario.key, "not measured:", error, file=sys.stderr, flush=True)
                continue
            print(
                way, scenario.key, outcome["outcome"], outcome["seconds"], outcome["said"], file=sys.stderr, flush=True
            )
            results.setdefault(scenario.key, {})[way] = outcome
            options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        host.sh(_prelude(ways[way], SCENARIOS[0], serials) + RESET)
    print(table(results, {way: tool.title for way, tool in ways.items()}))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")  # noqa: E731
    for name in ("--ssh-config", "--peer-role", "--peer-ansible", "--json"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--drives", type=words, required=True, help="four serial numbers")
    parser.add_argument("--odd", type=words, default=[], help="serial number of a drive of another size")
    parser.add_argument("--only", type=words, default=[], help="keys of scenarios")
    parser.add_argument("--tools", type=words, default=[], help="ours, public, one-liner")
    return parser.parse_args()


def refuse(host: Host, serials: Sequence[str] | Any) -> list[str]:
    """Why these drives may not be wiped: all but an emulated drive without the system on it."""
    found = []
    for serial in serials:
        link = shlex.quote(BY_ID + serial)
        script = f'cat "/sys/block/$(basename $(realpath {link}))/device/model"; lsblk -nro MOUNTPOINT {link}'
        model, *mounts = host.sh(script).stdout.splitlines() or [""]
        if model.strip() != MODEL:
            found.append(f"drive {serial} of {host.name}: expected the model {MODEL}, found {model.strip() or 'none'}")
        if {"/", "/boot", "/boot/efi"} & set(mounts):
            found.append(f"drive {serial} of {host.name} holds the system")
    return found


def _prelude(tool: Tool, scenario: Scenario, serials: dict[str, str]) -> str:
    name = scenario.name or tool.name
    block = name.removeprefix("md") if tool.folder == "/dev/" else name
    values = {key: BY_ID + serial for key, serial in serials.items()} | {"by_id": BY_ID}
    values |= {
        "drives": " ".join(values[key] for key in ("d0", "d1", "d2", "d3")),
        "serials": " ".join(serials.values()),
    }
    values |= {"odd": values.get("odd", ""), "wish": tool.folder + name, "name": block}
    return "".join(f"{key}={shlex.quote(value)}\n" for key, value in values.items()) + PRELUDE


def measure(
    host: Host, tool: Tool, scenario: Scenario, serials: dict[str, str], data: str
) -> tuple[dict[str, Any], str]:
    """The outcome of one tool in one scenario, and the hash of the data there for a scenario that continues it."""
    prelude = _prelude(tool, scenario, serials)
    state = f"( set -e\n{scenario.state}\n) > /dev/null\n[ $? = 0 ] || exit 9\n"
    made = host.sh(prelude + ("" if scenario.continues else RESET) + state + READ)
    if made.returncode == 9:
        said = next(reversed(_lines(made.stderr)), "")
        return {"outcome": "the state could not be made", "seconds": 0.0, "status": 9, "said": said}, data
    before = parse(made.stdout)
    if scenario.continues and not before.data:
        before = replace(before, data=data)
    wish = Wish(scenario.name or tool.name, tuple(BY_ID + serials[key] for key in scenario.drives))
    run = host.reboot() if scenario.reboot else tool.run(host, wish)
    read = host.sh(prelude + READ + f"( {scenario.probe or ':'}\n) > /dev/null\n")
    after, culprit = parse(read.stdout), serials.get(scenario.culprit, "")
    text = classify(before, after, run, serials=[serials[key] for key in scenario.drives], culprit=culprit)
    said = next((line for line in run.said if culprit and culprit in line), next(iter(run.said), ""))
    outcome = {"outcome": text, "seconds": round(run.seconds, 1), "status": run.status, "said": said}
    return outcome | {"before": made.stdout.splitlines(), "after": read.stdout.splitlines()}, before.data


def table(results: dict[str, Any], titles: dict[str, str]) -> str:
    """Two Markdown tables: outcome and seconds by scenario and tool; what each said where it failed."""
    lines = ["| scenario | wanted | " + " | ".join(titles.values()) + " |", "|---|---|" + "---|" * len(titles)]
    said = ["", "| scenario | tool | exit status | what it says |", "|---|---|---|---|"]
    for scenario in SCENARIOS:
        row = results.get(scenario.key, {})
        cells = [f"{row[way]['outcome']} ({row[way]['seconds']} s)" if way in row else "not run" for way in titles]
        lines.append(f"| {scenario.title} | {scenario.wanted} | " + " | ".join(cells) + " |")
        for way, title in titles.items():
            if way in row and row[way]["status"]:
                text = row[way]["said"][:160].replace("|", "\\|")
                said.append(f"| {scenario.title} | {title} | {row[way]['status']} | {text} |")
    return "\n".join(lines + said)


if __name__ == "__main__":
    sys.exit(main())

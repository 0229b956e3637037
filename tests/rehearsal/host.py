"""libvirt on this machine: its daemons, our domain and our network, and how all of it disappears again."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from tests.rehearsal import accel
from tests.rehearsal.errors import RehearsalError
from tests.rehearsal.layout import DOMAIN, NETWORK

URI = "qemu:///system"
RUN = Path("/run/llmhw-rehearsal")
_RECORD = RUN / "host.json"
_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
_VOLUME = f"{DOMAIN}.img"
_BASE_VOLUMES = "llmhw-VAGRANTSLASH-rehearsal-"


def virsh(*arguments: str, check: bool = True) -> str:
    """What virsh prints."""
    command = ["virsh", "-q", "-c", URI, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise RehearsalError(f"virsh {' '.join(arguments)}: {done.stderr.strip()}", "see .rehearsal/up.log")
    return done.stdout.strip()


def reachable() -> bool:
    """Whether a libvirt daemon answers."""
    done = subprocess.run(["virsh", "-q", "-c", URI, "list"], capture_output=True, check=False)
    return done.returncode == 0


def domain_state() -> str | None:
    """``running``, ``shut off``, ...; None when there is no such domain or no daemon."""
    return virsh("domstate", DOMAIN, check=False) or None


def start() -> None:
    """Have a libvirt daemon; what was started here is recorded, so that ``stop`` ends that and no more."""
    if reachable():
        return
    RUN.mkdir(exist_ok=True)
    record: dict[str, object] = {"ip_forward": _FORWARD.read_text().strip(), "chains": _libvirt_chains()}
    if Path("/run/systemd/system").is_dir():
        _RECORD.write_text(json.dumps({**record, "systemd": True}))
        subprocess.run(["systemctl", "start", "virtlogd.socket", "libvirtd.service"], check=True)
    else:
        _RECORD.write_text(json.dumps({**record, "daemons": ["virtlogd", "libvirtd"]}))
        for daemon in ("virtlogd", "libvirtd"):
            _spawn(daemon)
    deadline = time.monotonic() + 30
    while not reachable():
        if time.monotonic() > deadline:
            raise RehearsalError("libvirtd does not answer after 30 s", "run libvirtd by hand and read its output")
        time.sleep(0.2)


def _spawn(daemon: str) -> None:
    command = f"exec {daemon} -d -p {RUN / daemon}.pid"
    namespace = []
    if daemon == "libvirtd" and accel.choice() == "tcg" and Path("/dev/kvm").exists():
        # libvirt probes QEMU under a KVM that does not work again at each start: 12 s. Hide it from libvirt.
        namespace = ["unshare", "--mount", "--propagation", "slave"]
        command = f"mount --bind /dev/null /dev/kvm; {command}"
    subprocess.run([*namespace, "sh", "-c", command], check=True, stdin=subprocess.DEVNULL)


def remove_machine() -> None:
    """Destroy our domain, its disk and its network, whatever state they are in."""
    if not reachable():
        return
    virsh("destroy", DOMAIN, check=False)
    virsh("undefine", DOMAIN, "--nvram", check=False)
    if _VOLUME in virsh("vol-list", "default", check=False):
        virsh("vol-delete", "--pool", "default", _VOLUME, check=False)
    virsh("net-destroy", NETWORK["name"], check=False)
    virsh("net-undefine", NETWORK["name"], check=False)


def prune_base_images(keep: str) -> None:
    """Delete the pool's copies of boxes older than ``keep`` (each has about 1 GB)."""
    for line in virsh("vol-list", "default", check=False).splitlines():
        name = line.split()[0] if line.strip() else ""
        if name.startswith(_BASE_VOLUMES) and not name.startswith(keep.replace("/", "-VAGRANTSLASH-")):
            virsh("vol-delete", "--pool", "default", name, check=False)


def stop() -> None:
    """End the daemons that ``start`` started and undo what they did to the machine."""
    if not _RECORD.is_file():
        return
    record = json.loads(_RECORD.read_text())
    for network in virsh("net-list", "--name", check=False).split():
        virsh("net-destroy", network, check=False)
    if record.get("systemd"):
        units = ["libvirtd.service", "libvirtd.socket", "libvirtd-ro.socket", "libvirtd-admin.socket"]
        subprocess.run(["systemctl", "stop", *units, "virtlogd.socket", "virtlogd.service"], check=False)
    for daemon in reversed(record.get("daemons", [])):
        end(RUN / f"{daemon}.pid", daemon)
    if not record["chains"]:
        _remove_libvirt_chains()
    _FORWARD.write_text(record["ip_forward"])
    shutil.rmtree(RUN, ignore_errors=True)


def end(pid_file: Path, name: str) -> None:
    """End the process of ``pid_file`` if it still is a ``name``: politely, then for good."""
    try:
        pid = int(pid_file.read_text())
    except (FileNotFoundError, ValueError):
        return
    for number, patience in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0)):
        if not _is(pid, name):
            break
        os.kill(pid, number)
        deadline = time.monotonic() + patience
        while _is(pid, name) and time.monotonic() < deadline:
            time.sleep(0.05)
    pid_file.unlink(missing_ok=True)


def clean() -> None:
    """Remove everything a killed run may have left: machine, network, daemons, firewall chains."""
    if not reachable() and (_RECORD.is_file() or Path(f"/run/libvirt/qemu/{DOMAIN}.pid").exists()):
        start()
    remove_machine()
    stop()


def _is(pid: int, name: str) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.startswith(f"Name:\t{name[:15]}\n") and "\nState:\tZ" not in status


def _tables() -> list[tuple[str, str]]:
    tools = [tool for tool in ("iptables", "ip6tables") if shutil.which(tool)]
    return [(tool, table) for tool in tools for table in ("filter", "nat", "mangle")]


def _rules(tool: str, table: str) -> list[str]:
    done = subprocess.run([tool, "-w", "-t", table, "-S"], capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if "LIBVIRT_" in line]


def _libvirt_chains() -> bool:
    return any(_rules(tool, table) for tool, table in _tables())


def _remove_libvirt_chains() -> None:
    for tool, table in _tables():
        rules = _rules(tool, table)
        jumps = [rule for rule in rules if rule.startswith("-A") and not rule.startswith("-A LIBVIRT_")]
        chains = [rule.split()[1] for rule in rules if rule.startswith("-N")]
        commands = [["-D", *jump.split()[1:]] for jump in jumps]
        commands += [["-F", chain] for chain in chains] + [["-X", chain] for chain in chains]
        for command in commands:
            subprocess.run([tool, "-w", "-t", table, *command], capture_output=True, check=False)

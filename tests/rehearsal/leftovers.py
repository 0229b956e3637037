"""What a rehearsal can leave on the host; equal before and after, or it did not clean up."""

import subprocess
from pathlib import Path

from tests.rehearsal.layout import DOMAIN

_DAEMONS = ("libvirtd", "virtlogd", "dnsmasq", "vagrant")


def snapshot() -> dict[str, object]:
    """Processes, mounts, loop devices, bridges, firewall chains and forwarding, comparable with ``==``."""
    rules = subprocess.run(["iptables-save"], capture_output=True, text=True, check=False).stdout
    return {
        "processes": _processes(),
        "mounts": sorted(line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()),
        "loops": sorted(str(path.parent) for path in Path("/sys/block").glob("loop*/loop")),
        "links": sorted(path.name for path in Path("/sys/class/net").iterdir()),
        "libvirt chains": sorted({word for word in rules.split() if word.startswith(":LIBVIRT")}),
        "ip_forward": Path("/proc/sys/net/ipv4/ip_forward").read_text().strip(),
        "run": Path("/run/llmhw-rehearsal").exists(),
    }


def _processes() -> list[str]:
    """Names of the processes that a rehearsal may start, zombies left out."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "status").read_text()
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        name = status.partition("\n")[0].removeprefix("Name:\t")
        if "\nState:\tZ" not in status and (name in _DAEMONS or DOMAIN in line):
            found.append(name)
    return sorted(found)

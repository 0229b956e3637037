"""Stand-in of the rehearsal machine for nv-fabricmanager: compares its release with the loaded module's, looks for
switches, and stays. That it lives is what makes the fabric state of the GPUs Completed."""

from __future__ import annotations

import os
import sys
import syslog
import time
from pathlib import Path

from .background import background

VERSION = "@VERSION@"
RUN = Path("/run/nvidia-fabricmanager")
LOG = Path("/var/log/fabricmanager.log")
_MATCH = "don't match with driver version"
_CONFIGURED = (
    "Successfully configured all the available NVSwitches to route GPU NVLink traffic. NVLink Peer-to-Peer support "
    "will be enabled once the GPUs are successfully registered with the NVLink fabric."
)


def obstacle(root: Path) -> str:
    """Why the fabric cannot be managed, in the vendor's words; nothing when it can."""
    loaded = root / "sys/module/nvidia/version"
    if not loaded.is_file():
        return "failed to open connection to NVSwitch driver: NVIDIA driver is not loaded"
    version = loaded.read_text().strip()
    if version != VERSION:
        what = f"fabric manager NVIDIA GPU driver interface version {VERSION} {_MATCH} {version}."
        return f"{what} Please update with matching NVIDIA driver package."
    if not switches(root):
        what = "request to query NVSwitch device information from NVSwitch driver failed with error"
        return f"{what}:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]"
    return ""


def switches(root: Path) -> int:
    """Switches that the driver has, or, from NVLink 5 on, that the running NVLSM manages."""
    devices = root / "proc/driver/nvidia-nvswitch/devices"
    found = len(list(devices.iterdir())) if devices.is_dir() else 0
    return found or int(_alive(root, root / "run/nvidia-fabricmanager/nvlsm.pid", "nvlsm"))


def _alive(root: Path, pid: Path, name: str) -> bool:
    """Whether the daemon of a pid file runs."""
    try:
        line = (root / "proc" / pid.read_text().strip() / "cmdline").read_bytes()
    except OSError:
        return False
    return any(Path(os.fsdecode(word)).name == name for word in line.split(b"\0"))


def _log(level: str, said: str) -> None:
    syslog.syslog(syslog.LOG_ERR if level == "ERROR" else syslog.LOG_NOTICE, said)
    now = time.strftime("%b %d %Y %H:%M:%S")
    with LOG.open("a") as log:
        log.write(f"[{now}] [{level}] [tid {os.getpid()}] {said}\n")


def main(words: list[str]) -> int:
    """Goes into the background once the fabric is managed."""
    if "-v" in words or "--version" in words:
        print(f"Fabric Manager version is : {VERSION}")
        return 0
    syslog.openlog("nv-fabricmanager", syslog.LOG_PID, syslog.LOG_DAEMON)
    wrong = obstacle(Path("/"))
    if wrong:
        print(wrong, file=sys.stderr)
        _log("ERROR", wrong)
        return 1
    return background(RUN / "nv-fabricmanager.pid", _configure)


def _configure() -> None:
    for said in ("Connected to 1 node.", _CONFIGURED):
        _log("INFO", said)

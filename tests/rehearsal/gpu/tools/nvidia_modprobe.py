"""Stand-in of the rehearsal machine for nvidia-modprobe: loads the modules, makes the device nodes.

Without options: the module and the nodes of every GPU; -u: unified memory; -m: modeset; -c N: the node of minor N;
-f FILE: the node of a capability. Only root gets anything done (the real one is set-user-id).
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import time
from pathlib import Path

VERSION = "@VERSION@"
FRONTEND, CONTROL, MODESET = 195, 255, 254


def _node(path: Path, major: int, minor: int, mode: int = 0o666) -> None:
    wanted = os.makedev(major, minor)
    try:
        found = path.lstat()
        if stat.S_ISCHR(found.st_mode) and found.st_rdev == wanted:
            return
        path.unlink()
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.mknod(path, stat.S_IFCHR | mode, wanted)
    except FileExistsError:  # udev and a program at the same time
        return
    path.chmod(mode)


def _major(name: str, *, wait_s: float = 0.0) -> int | None:
    """The major number that the kernel gave a driver; udev calls while the module is still being started."""
    until = time.monotonic() + wait_s
    while True:
        for line in Path("/proc/devices").read_text().splitlines():
            words = line.split()
            if len(words) == 2 and words[1] == name:
                return int(words[0])
        if time.monotonic() >= until:
            return None
        time.sleep(0.1)


def _load(module: str) -> bool:
    if Path("/sys/module", module.replace("-", "_")).is_dir():
        return True
    done = subprocess.run(("/sbin/modprobe", module), capture_output=True, check=False)
    return done.returncode == 0


def minors() -> list[int]:
    """The minor numbers of the GPUs that the driver has."""
    found = []
    for path in Path("/proc/driver/nvidia/gpus").glob("*/information"):
        match = re.search(r"^Device Minor:\s*(\d+)", path.read_text(), re.M)
        found += [int(match[1])] if match else []
    return sorted(found)


def _unified() -> bool:
    major = _major("nvidia-uvm", wait_s=5) if _load("nvidia-uvm") else None
    if major is None:
        return False
    _node(Path("/dev/nvidia-uvm"), major, 0)
    _node(Path("/dev/nvidia-uvm-tools"), major, 1)
    return True


def _capability(file: str) -> bool:
    match = re.search(r"^DeviceFileMinor: (\d+)", Path(file).read_text(), re.M)
    major = _major("nvidia-caps")
    if match is None or major is None:
        return False
    _node(Path(f"/dev/nvidia-caps/nvidia-cap{match[1]}"), major, int(match[1]), 0o444)
    return True


def main(words: list[str]) -> int:
    """0 when what was asked for is there."""
    if "-v" in words or "--version" in words:
        print(f"nvidia-modprobe:  version {VERSION}")
        return 0
    if not _load("nvidia"):
        return 1
    switches = _major("nvidia-nvswitch")
    found = sorted(Path("/proc/driver/nvidia-nvswitch/devices").glob("*"))
    if found and switches is not None:
        _node(Path("/dev/nvidia-nvswitchctl"), switches, 255)
        for minor in range(len(found)):
            _node(Path(f"/dev/nvidia-nvswitch{minor}"), switches, minor)
    _node(Path("/dev/nvidiactl"), FRONTEND, CONTROL)
    asked = [int(words[place + 1]) for place, word in enumerate(words[:-1]) if word in ("-c", "--create")]
    for minor in asked or minors():
        _node(Path(f"/dev/nvidia{minor}"), FRONTEND, minor)
    good = True
    if any(word in words for word in ("-u", "--unified-memory")):
        good = _unified()
    if any(word in words for word in ("-m", "--modeset")):
        good = _load("nvidia-modeset") and good
        _node(Path("/dev/nvidia-modeset"), FRONTEND, MODESET)
    for place, word in enumerate(words[:-1]):
        if word == "-f":
            good = _capability(words[place + 1]) and good
    return 0 if good else 1

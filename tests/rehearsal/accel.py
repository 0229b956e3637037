"""Hardware virtualisation or software emulation: decided by trying to boot, because /dev/kvm may lie."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from tests.rehearsal import box
from tests.rehearsal.errors import RehearsalError
from tests.rehearsal.settings import cache_dir

Accelerator = Literal["kvm", "tcg"]
_QEMU = "qemu-system-x86_64"
# A working KVM passes the firmware in under a second and answers ssh in under ten.
FIRMWARE_SECONDS = 8.0
SSH_SECONDS = 60.0


def choice() -> Accelerator:
    """``kvm`` where a trial boot of the box answers in time, else ``tcg``; remembered until the next boot."""
    forced = os.environ.get("LLMHW_REHEARSAL_ACCEL")
    if forced:
        if forced not in ("kvm", "tcg"):
            raise RehearsalError(f"LLMHW_REHEARSAL_ACCEL is {forced!r}", "use kvm or tcg")
        return "kvm" if forced == "kvm" else "tcg"
    built = box.current()
    memory = cache_dir() / "accelerator.json"
    key = f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {built.folder.name}"
    if memory.is_file() and (known := json.loads(memory.read_text())).get("key") == key:
        return "kvm" if known["accelerator"] == "kvm" else "tcg"
    decided: Accelerator = "kvm" if trial(built if built.file.exists() else None) else "tcg"
    memory.parent.mkdir(parents=True, exist_ok=True)
    memory.write_text(json.dumps({"key": key, "accelerator": decided}))
    return decided


def trial(built: box.Box | None) -> bool:
    """Whether KVM boots ``built`` to ssh before the deadlines (without a box: passes the firmware)."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK) or shutil.which(_QEMU) is None:
        return False
    with tempfile.TemporaryDirectory(prefix="llmhw-trial-") as name:
        folder = Path(name)
        port = _free_port()
        with (folder / "qemu.log").open("w") as log:
            process = subprocess.Popen(_command(folder, built, port), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            log_file, marker = folder / "firmware.log", b"enter handle_19"
            if not _until(lambda: marker in _read(log_file), FIRMWARE_SECONDS, process):
                return False
            return built is None or _until(lambda: _ssh_banner(port), SSH_SECONDS, process)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


def _command(folder: Path, built: box.Box | None, port: int) -> list[str]:
    drive = folder / "nvme.img"
    with drive.open("wb") as stream:
        stream.truncate(64 << 20)
    command = [
        _QEMU, "-accel", "kvm", "-cpu", "host", "-machine", "pc", "-m", "1024", "-smp", "2",
        "-nodefaults", "-no-user-config", "-display", "none", "-serial", "null",
        "-chardev", f"file,id=firmware,path={folder / 'firmware.log'}",
        "-device", "isa-debugcon,iobase=0x402,chardev=firmware",
        "-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22",
        "-device", "virtio-net-pci,netdev=net,romfile=",
        "-drive", f"file={drive},if=none,id=nv,format=raw",
        "-device", "nvme,drive=nv,serial=TRIAL,bus=pci.0,addr=0x10",
    ]  # fmt: skip
    if built:
        with tarfile.open(built.file) as tar:
            member = tar.getmember("box.img")
        command += [
            "-drive",
            (
                "if=virtio,snapshot=on,driver=qcow2,file.driver=raw,file.file.driver=file,"
                f"file.offset={member.offset_data},file.size={member.size},file.file.filename={built.file}"
            ),
        ]
    return command


def _until(condition: Callable[[], bool], seconds: float, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        if condition():
            return True
        time.sleep(0.2)
    return False


def _ssh_banner(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.settimeout(2)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""

"""A file system as the kernel and the packages of a GPU machine show it, for the stand-ins and what reads them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_LIBRARIES = "usr/lib/x86_64-linux-gnu"


@dataclass(frozen=True)
class Board:
    """PCI device ids of the GPUs, and whether NVSwitches (of NVLink 4 or 5) join them."""

    gpus: tuple[str, ...]
    switches: int = 0
    managed: int = 0  # management functions of NVLink 5 switches


ALPHAPRO660 = Board(("2330",) * 8, switches=4)
GA660M = Board(("2331",) * 4)
A330 = Board(("2b85",))
B200 = Board(("2901",) * 8, managed=2)


def write(path: Path, text: str | bytes) -> None:
    """Writes a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def machine(root: Path, board: Board, *, loaded: str = "580.159.03", library: str = "580.159.03") -> Path:
    """The machine of a board with a driver; `loaded` or `library` may be empty."""
    for number, device in enumerate(board.gpus):
        _function(root, f"0001:{number + 1:02x}:00.0", "10de", device, "0x030200", number // 4)
    for number in range(board.switches):
        _function(root, f"0001:{number + 0x21:02x}:00.0", "10de", "22a3", "0x068000", 0)
    for number in range(board.managed):
        folder = _function(root, f"0001:{number + 0x41:02x}:00.0", "15b3", "1021", "0x020700", 0)
        write(folder / "vpd", b"\x82\x20\x00NVLink SW_MNG\x78")
    for node in (0, 1):
        write(root / f"sys/devices/system/node/node{node}/cpulist", f"{node * 64}-{node * 64 + 63}\n")
    if loaded:
        load(root, board, loaded)
    if library:
        install(root, library)
    return root


def _function(root: Path, address: str, vendor: str, device: str, kind: str, node: int) -> Path:
    place = root / "sys/devices/pci0001:00" / address
    files = {"vendor": f"0x{vendor}", "device": f"0x{device}", "class": kind, "numa_node": str(node)}
    files |= {f"{which}_link_speed": "32.0 GT/s PCIe" for which in ("current", "max")}
    files |= {f"{which}_link_width": "16" for which in ("current", "max")}
    for name, text in files.items():
        write(place / name, f"{text}\n")
    write(place / "config", bytes.fromhex(vendor)[::-1] + bytes.fromhex(device)[::-1] + bytes(60))
    link = root / "sys/bus/pci/devices" / address
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(place)
    return place


def load(root: Path, board: Board, version: str) -> None:
    """The kernel module is loaded."""
    write(root / "sys/module/nvidia/version", f"{version}\n")
    for number, _ in enumerate(board.gpus):
        told = {
            "GPU UUID": f"GPU-{number:08x}-0000-4000-8000-{number:012x}",
            "Video BIOS": "96.00.89.00.01",
            "Device Minor": str(number),
        }
        text = "".join(f"{name}: \t {value}\n" for name, value in told.items())
        write(root / f"proc/driver/nvidia/gpus/0001:{number + 1:02x}:00.0/information", text)
    for number in range(board.switches):
        write(root / f"proc/driver/nvidia-nvswitch/devices/0001:{number + 0x21:02x}:00.0/information", "BIOS\n")


def install(root: Path, version: str) -> None:
    """The library package of a release, in place of an older one."""
    link = root / _LIBRARIES / "libnvidia-ml.so.1"
    write(link.with_name(f"libnvidia-ml.so.{version}"), "")
    link.unlink(missing_ok=True)
    link.symlink_to(f"libnvidia-ml.so.{version}")


def lose(root: Path, number: int) -> None:
    """A GPU falls off the bus: its configuration space reads as ones."""
    write(root / f"sys/devices/pci0001:00/0001:{number + 1:02x}:00.0/config", b"\xff" * 64)


def runs(root: Path, pid_file: str, *words: str, pid: int = 700) -> None:
    """A daemon runs, as its pid file says."""
    write(root / "run" / pid_file, f"{pid}\n")
    write(root / f"proc/{pid}/cmdline", "\0".join(words) + "\0")


def persistence(root: Path, *options: str) -> None:
    """The persistence daemon runs."""
    words = ("/usr/bin/python3", "-IS", "/usr/bin/nvidia-persistenced", *options)
    runs(root, "nvidia-persistenced/nvidia-persistenced.pid", *words, pid=701)


def fabric_manager(root: Path) -> None:
    """The fabric manager runs."""
    words = ("/usr/bin/python3", "-IS", "/usr/bin/nv-fabricmanager", "-c", "fabricmanager.cfg")
    runs(root, "nvidia-fabricmanager/nv-fabricmanager.pid", *words, pid=702)

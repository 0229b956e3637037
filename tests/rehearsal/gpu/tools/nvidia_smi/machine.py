"""What the machine under `root` shows of its GPUs: /proc/driver/nvidia, sysfs, the installed library, daemons."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .cards import CUDA, Card, card

_GENERATIONS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}
_LIBRARY = "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"


def read(path: Path) -> str:
    """A file's text, stripped; nothing when it is not there."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


@dataclass(frozen=True)
class Gpu:
    """One GPU that the driver has, in the order of the bus."""

    index: int
    address: str  # as sysfs names it
    information: dict[str, str]
    folder: Path
    machine: Machine

    @property
    def bus_id(self) -> str:
        """As nvidia-smi writes it: eight digits of domain, capitals."""
        domain, _, rest = self.address.partition(":")
        return f"{int(domain, 16):08X}:{rest.upper()}"

    @cached_property
    def card(self) -> Card:
        return card(self.hex("device"))

    @property
    def name(self) -> str:
        return self.card.name

    @property
    def uuid(self) -> str:
        return self.information.get("GPU UUID", "")

    @property
    def minor(self) -> str:
        return self.information.get("Device Minor", "")

    @property
    def vbios(self) -> str:
        return self.information.get("Video BIOS", "").upper()

    @property
    def serial(self) -> str:
        """A number of the card's own, out of its UUID."""
        return str(16 * 10**11 + int(self.uuid[4:12] or "0", 16)) if self.card.ecc else "0"

    def hex(self, name: str) -> str:
        """A number of sysfs without its 0x."""
        return read(self.folder / name).removeprefix("0x")

    @property
    def lost(self) -> bool:
        """Whether its configuration space answers no more."""
        try:
            head = (self.folder / "config").read_bytes()[:4]
        except OSError:
            return True
        return head == b"\xff\xff\xff\xff"

    def generation(self, which: str) -> int:
        """PCIe generation of its link, `current` or `max`."""
        speed = read(self.folder / f"{which}_link_speed").split(" ")[0]
        return _GENERATIONS.get(speed, self.card.generation)

    def width(self, which: str) -> int:
        """Lanes of its link, `current` or `max`."""
        found = read(self.folder / f"{which}_link_width")
        return int(found) if found.isdecimal() and found != "0" else 16

    @property
    def node(self) -> int:
        """Its NUMA node; -1 where the firmware does not tell."""
        return int(read(self.folder / "numa_node") or -1)


@dataclass(frozen=True)
class Machine:
    """The machine whose files lie under `root`."""

    root: Path

    @cached_property
    def driver(self) -> str:
        """The release of the loaded module; nothing when none is."""
        return read(self.root / "sys/module/nvidia/version")

    @cached_property
    def library(self) -> str:
        """The release of the NVML library that programs find; nothing without one."""
        link = self.root / _LIBRARY
        return link.readlink().name.partition(".so.")[2] if link.is_symlink() else ""

    @property
    def cuda(self) -> str:
        return CUDA.get(self.library.split(".")[0], "N/A")

    @cached_property
    def gpus(self) -> tuple[Gpu, ...]:
        found = sorted((self.root / "proc/driver/nvidia/gpus").glob("*/information"))
        return tuple(self._gpu(index, path) for index, path in enumerate(found))

    def _gpu(self, index: int, path: Path) -> Gpu:
        pairs = (line.partition(":") for line in read(path).splitlines())
        told = {name.strip(): value.strip() for name, _, value in pairs}
        address = path.parent.name
        return Gpu(index, address, told, self.root / "sys/bus/pci/devices" / address, self)

    @cached_property
    def persistence(self) -> bool:
        """Whether the persistence daemon holds the GPUs."""
        words = self._daemon("run/nvidia-persistenced/nvidia-persistenced.pid", "nvidia-persistenced")
        return bool(words) and "--no-persistence-mode" not in words

    @cached_property
    def fabric(self) -> str:
        """Of the GPUs on a board with switches: Completed, In Progress; N/A on other boards."""
        if not self._switches():
            return "N/A"
        managed = self._daemon("run/nvidia-fabricmanager/nv-fabricmanager.pid", "nv-fabricmanager")
        return "Completed" if managed else "In Progress"

    def _switches(self) -> bool:
        for folder in (self.root / "sys/bus/pci/devices").glob("*"):
            vendor, kind = read(folder / "vendor"), read(folder / "class")
            if vendor == "0x10de" and kind.startswith("0x0680"):
                return True
            if vendor == "0x15b3" and "SW_MNG" in read(folder / "vpd"):
                return True
        return False

    def _daemon(self, pid: str, name: str) -> list[str]:
        """The words of a daemon's command line; none when it does not run."""
        number = read(self.root / pid)
        line = read(self.root / "proc" / number / "cmdline") if number.isdecimal() else ""
        words = line.split("\0")
        return words if any(Path(word).name == name for word in words) else []

    @cached_property
    def adapters(self) -> tuple[tuple[str, Path], ...]:
        """RDMA devices: name and PCI folder."""
        found = sorted((self.root / "sys/class/infiniband").glob("*"), key=lambda path: _natural(path.name))
        return tuple((path.name, (path / "device").resolve()) for path in found)

    def processors(self, node: int) -> str:
        """The processors of a NUMA node, as a list of ranges."""
        listed = read(self.root / f"sys/devices/system/node/node{node}/cpulist") if node >= 0 else ""
        return listed or "N/A"


def _natural(name: str) -> list[int | str]:
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]

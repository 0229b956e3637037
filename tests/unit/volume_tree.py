"""Copies of the kernel's tree for the volume watch: a machine of two arrays, and ways to spoil it."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "roles/nvme_raid0/files"
sys.path.insert(0, str(FOLDER))
state: Any = importlib.import_module("volume_state")
watch: Any = importlib.import_module("volume_watch")

LINKS = [f"/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_LAB{number}" for number in range(4)]
SCRATCH = {
    "name": "scratch",
    "level": "raid0",
    "members": LINKS[:2],
    "mount": "/scratch",
    "mount_options": ["noatime", "nofail"],
}
PROJECT = {
    "name": "project",
    "level": "raid1",
    "members": LINKS[2:],
    "mount": "/project",
    "mount_options": ["noatime", "nofail"],
}
DATA = {
    "name": "data",
    "level": "single",
    "members": LINKS[:1],
    "mount": "/data",
    "mount_options": ["noatime", "nofail"],
}


class Tree:
    """A machine of two arrays (md127 over nvme0n1 and nvme1n1, md126 over the next two), as sysfs shows it."""

    def __init__(self, root: Path, *volumes: dict[str, Any]) -> None:
        self.root = root
        self.write("/etc/llmhw/volumes.json", json.dumps({"volumes": volumes}))
        self.write("/proc/uptime", "321.09 600.00")
        (root / "run/llmhw").mkdir(parents=True)
        (root / "run/motd.d").mkdir()
        for number, link in enumerate(LINKS):
            self.write(f"/sys/class/block/nvme{number}n1/dev", f"259:{number}")
            self.link(link, f"../../nvme{number}n1")
        mounts = []
        for volume in volumes:
            mounts.append(f"30 1 {self.device(volume)} / {volume['mount']} ro - xfs /dev/x rw,attr2")
            (root / volume["mount"].lstrip("/")).mkdir()
        self.write("/proc/self/mountinfo", "\n".join(mounts))

    def device(self, volume: dict[str, Any]) -> str:
        if volume["level"] == "single":
            return "259:0"
        array, number, first = ("md127", "9:127", 0) if volume["level"] == "raid0" else ("md126", "9:126", 2)
        self.write(f"/sys/class/block/{array}/dev", number)
        self.link(f"/dev/md/{volume['name']}", f"../{array}")
        self.md(array, array_state="clean")
        if volume["level"] == "raid1":
            self.md(array, degraded="0", sync_action="idle", sync_completed="none")
        for index in (first, first + 1):
            self.member(array, f"nvme{index}n1")
        return number

    def write(self, path: str, text: str) -> None:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text + "\n")

    def link(self, path: str, target: str) -> None:
        link = self.root / path.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)

    def md(self, array: str, **values: str) -> None:
        for name, value in values.items():
            self.write(f"/sys/class/block/{array}/md/{name}", value)

    def member(self, array: str, name: str) -> None:
        self.link(f"/sys/class/block/{name}/holders/{array}", f"../../{array}")
        self.write(f"/sys/class/block/{array}/md/dev-{name}/state", "in_sync")
        self.link(f"/sys/class/block/{array}/md/dev-{name}/block", f"../../../{name}")

    def pull(self, number: int) -> None:
        """A drive leaves while in use: its device and its link go, what md keeps of it points nowhere."""
        shutil.rmtree(self.root / f"sys/class/block/nvme{number}n1")
        (self.root / LINKS[number].lstrip("/")).unlink()

    def plug(self, number: int, *, link: str = "") -> None:
        """It comes back under its name: a new device, which nobody holds."""
        self.write(f"/sys/class/block/nvme{number}n1/dev", f"259:1{number}")
        self.link(link or LINKS[number], f"../../nvme{number}n1")

    def unmount(self) -> None:
        self.write("/proc/self/mountinfo", "1 0 254:1 / / rw - ext4 /dev/vda1 rw")

    def run(self) -> tuple[int, str, str]:
        """Exit status, what the journal gets, and the report."""
        said = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
            patch.setenv("JOURNAL_STREAM", "1:2")
            status: int = watch.main(["--root", str(self.root)])
        report = self.root / "run/llmhw/volume-faults"
        text = report.read_text() if report.exists() else ""
        login = self.root / "run/motd.d/llmhw-volume-faults"
        assert (login.read_text() if login.exists() else "") == text
        assert text.isascii()
        return status, said.getvalue(), text

    def kept(self) -> Any:
        return json.loads((self.root / "run/llmhw/volume-watch.json").read_text())

    def keep(self, **changes: Any) -> None:
        """Alters what the last look left about the one fault."""
        found = self.kept()
        (name,) = found["faults"]
        found["faults"][name].update(changes)
        self.write("/run/llmhw/volume-watch.json", json.dumps(found))


def broken(tree: Tree) -> None:
    tree.md("md127", array_state="broken")


def back(tree: Tree) -> None:
    tree.pull(1)
    tree.plug(1)
    broken(tree)


def none_left(tree: Tree) -> None:
    tree.pull(0)
    tree.pull(1)


def inactive(tree: Tree) -> None:
    """Booted without a drive."""
    tree.pull(1)
    shutil.rmtree(tree.root / "sys/class/block/md127/md/dev-nvme1n1")
    tree.md("md127", array_state="inactive")
    tree.unmount()


def no_array(tree: Tree) -> None:
    for number in (0, 1):
        shutil.rmtree(tree.root / f"sys/class/block/nvme{number}n1/holders")
    shutil.rmtree(tree.root / "sys/class/block/md127")
    tree.unmount()


def degraded(tree: Tree) -> None:
    tree.pull(3)
    tree.md("md126", degraded="1")


def faulty(tree: Tree) -> None:
    tree.write("/sys/class/block/md126/md/dev-nvme3n1/state", "faulty,write_error")
    tree.md("md126", degraded="1")


def filling(tree: Tree) -> None:
    """A new drive stands in the place of the dead one."""
    tree.pull(3)
    tree.plug(4, link="/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_NEW")
    tree.member("md126", "nvme4n1")
    tree.md("md126", degraded="1", sync_action="recover", sync_completed="512 / 2048")


def filled(tree: Tree) -> None:
    filling(tree)
    tree.md("md126", degraded="0", sync_action="idle", sync_completed="none")


def half_inactive(tree: Tree) -> None:
    tree.pull(3)
    tree.md("md126", array_state="inactive")
    tree.unmount()


def both_gone(tree: Tree) -> None:
    tree.pull(2)
    tree.pull(3)


def read_only(tree: Tree) -> None:
    tree.write("/proc/self/mountinfo", "30 1 259:0 / /data ro - ext4 /dev/nvme0n1 ro,errors=remount-ro")


def foreign(tree: Tree) -> None:
    tree.write("/proc/self/mountinfo", "30 1 0:55 / /data rw - tmpfs tmpfs rw")

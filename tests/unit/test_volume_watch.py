"""The volume watch against copies of the kernel's tree: what it sees, what it says, and when it says it again."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.volume_tree import (
    DATA,
    FOLDER,
    PROJECT,
    SCRATCH,
    Tree,
    back,
    both_gone,
    broken,
    degraded,
    faulty,
    filled,
    filling,
    foreign,
    half_inactive,
    inactive,
    no_array,
    none_left,
    read_only,
    state,
)


def test_whole_volumes_leave_nothing_to_read(tmp_path: Path) -> None:
    tree = Tree(tmp_path, SCRATCH, PROJECT)
    assert tree.run() == (0, "", "")
    assert tree.kept() == {"faults": {}, "format": 1, "stuck": {}, "uptime_s": 321, "volumes": ["project", "scratch"]}
    assert Tree(tmp_path / "single", DATA).run() == (0, "", "")
    meant = Tree(tmp_path / "meant", DATA | {"mount_options": ["ro", "nofail"]})
    read_only(meant)
    assert meant.run() == (0, "", "")


def test_the_program_as_it_is_installed(tmp_path: Path) -> None:
    """Under its own name beside its two modules; by hand, lines have no priority. It leaves no compiled files."""
    tree = Tree(tmp_path / "root", SCRATCH)
    broken(tree)
    bin_ = tmp_path / "lib"
    shutil.copytree(FOLDER, bin_, ignore=shutil.ignore_patterns("__pycache__", "*.timer"))
    (bin_ / "volume_watch.py").rename(bin_ / "volume-watch")
    (bin_ / "volume-watch").chmod(0o755)
    words = [bin_ / "volume-watch", "--root", tree.root]
    done = subprocess.run(words, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("volume scratch (raid0, /scratch): the kernel calls the array (md127) broken")
    assert sorted(path.name for path in bin_.iterdir()) == ["volume-watch", "volume_fault.py", "volume_state.py"]


def test_a_stripe_without_one_drive(tmp_path: Path) -> None:
    """What a person on site reads, word by word."""
    tree = Tree(tmp_path, SCRATCH, PROJECT)
    tree.pull(1)
    (tmp_path / "dev/md/scratch").unlink()  # udev takes it away with the first drive
    status, journal, report = tree.run()
    assert status == 1
    assert journal == (
        "<3>volume scratch (raid0, /scratch): drive nvme-QEMU_NVMe_Ctrl_LAB1 (serial LAB1) is gone. "
        "Lost: everything on /scratch if the drive is dead; no other drive can restore it. "
        "Nothing if it only lost contact. Next: write nothing, create nothing; "
        "find nvme-QEMU_NVMe_Ctrl_LAB1 (serial LAB1) and reseat it. "
        "Runbook: storage-replace-drive\n"
    )
    assert re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "YYYY-MM-DD HH:MM", report) == (
        "*** FAULT: volume scratch, RAID0 over 2 drives, /scratch\n"
        "    what:     drive nvme-QEMU_NVMe_Ctrl_LAB1 (serial LAB1) is gone\n"
        "    since:    YYYY-MM-DD HH:MM UTC\n"
        "    lost:     everything on /scratch if the drive is dead; no other drive can restore it. Nothing if it only "
        "lost contact\n"
        "    not lost: everything outside /scratch; the machine runs without this volume\n"
        "    next:     write nothing, create nothing; find nvme-QEMU_NVMe_Ctrl_LAB1 (serial LAB1) and reseat it\n"
        "    runbook:  docs/runbooks/storage-replace-drive.md of llmhw-provision\n"
        "\n"
    )


DRIVE = "drive nvme-QEMU_NVMe_Ctrl_LAB{} (serial LAB{}) "
NOT_PART = "is there, but no part of the array"


CASES = [
    (SCRATCH, lambda tree: tree.pull(1), DRIVE.format(1, 1) + "is gone", "everything on /scratch if", "reseat it"),
    (SCRATCH, none_left, DRIVE.format(0, 0) + "is gone", "/scratch if one of them is dead; no", "reseat them"),
    (SCRATCH, broken, "the kernel calls the array (md127) broken", "what was being written", "mdadm --stop /dev/md127"),
    (SCRATCH, back, DRIVE.format(1, 1) + NOT_PART, "everything on /scratch if", "stop the array"),
    (SCRATCH, inactive, "the array (md127) does not run", "everything on /scratch if", "reseat it"),
    (SCRATCH, no_array, "there is no array", "nothing that is known", "create nothing; mdadm --assemble --scan"),
    (SCRATCH, Tree.unmount, "nothing is mounted on /scratch", "nothing: the volume", "the mount unit of /scratch"),
    (PROJECT, degraded, "fewer drives", "nothing yet", "replace nvme-QEMU_NVMe_Ctrl_LAB3 (serial LAB3)"),
    (PROJECT, faulty, DRIVE.format(3, 3) + "has failed", "nothing yet", "replace nvme-QEMU_NVMe_Ctrl_LAB3"),
    (PROJECT, lambda tree: tree.pull(3), DRIVE.format(3, 3) + "is gone", "nothing yet", "replace nvme-"),
    (
        PROJECT,
        lambda tree: tree.md("md126", degraded="1"),
        "fewer drives",
        "nothing yet",
        "replace the drive that mdadm",
    ),
    (PROJECT, filling, "the mirror is being filled: 25 % done", "nothing yet", "wait; cat /proc/mdstat"),
    (
        PROJECT,
        filled,
        "nvme4n1 is in the array, but not in the plan",
        "nothing: the mirror",
        "name the new drive in site",
    ),
    (PROJECT, half_inactive, "the array (md126) does not run", "nothing yet", "mdadm --run /dev/md126; then start the"),
    (PROJECT, both_gone, DRIVE.format(2, 2) + "is gone", "/project if all of them are dead", "reseat them"),
    (PROJECT, Tree.unmount, "nothing is mounted on /project", "nothing: the volume", "the mount unit of /project"),
    (DATA, lambda tree: tree.pull(0), DRIVE.format(0, 0) + "is gone", "everything on /data if the drive", "reseat it"),
    (DATA, read_only, "/data does not work: it has become read-only", "perhaps", "dmesg for errors"),
    (DATA, foreign, "something else is mounted on /data", "now goes elsewhere", "findmnt /data"),
    (DATA, lambda tree: (tree.root / "data").rmdir(), "does not work: No such file", "perhaps", "dmesg for errors"),
]


@pytest.mark.parametrize(
    ("volume", "spoil", "what", "lost", "step"), CASES, ids=[f"{case[0]['level']}: {case[2]}" for case in CASES]
)
def test_every_state(tmp_path: Path, volume: dict[str, Any], spoil: Any, what: str, lost: str, step: str) -> None:
    tree = Tree(tmp_path, volume)
    assert tree.run()[0] == 0
    spoil(tree)
    status, journal, report = tree.run()
    assert status == 1
    rows = [line[4:].partition(":")[::2] for line in report.splitlines() if line.startswith("    ")]
    of = {label: [text.strip() for name, text in rows if name == label] for label in ("what", "lost", "next")}
    assert any(what in text for text in of["what"])
    assert lost in of["lost"][0]
    assert step in of["next"][0]
    assert journal.startswith(f"<3>volume {volume['name']} ({volume['level']}, {volume['mount']}): ")
    assert journal.count("\n") == 1
    runbook = report.split("docs/runbooks/")[1].split(".md")[0]
    assert (FOLDER.parents[2] / f"docs/runbooks/{runbook}.md").is_file()


def test_a_fresh_mirror_that_synchronises_is_no_fault(tmp_path: Path) -> None:
    tree = Tree(tmp_path, PROJECT)
    tree.md("md126", sync_action="resync", sync_completed="512 / 2048", array_state="active")
    assert tree.run() == (0, "", "")


def test_the_journal_is_told_of_news_and_once_a_day(tmp_path: Path) -> None:
    tree = Tree(tmp_path, PROJECT)
    filling(tree)
    assert "25 % done" in tree.run()[1]
    begin = int(time.time()) - 90000
    tree.keep(since=begin)
    tree.md("md126", sync_completed="1024 / 2048")
    status, journal, report = tree.run()
    assert (status, journal) == (1, "")
    assert "50 % done" in report
    assert tree.kept()["faults"]["project"]["since"] == begin

    tree.keep(logged=begin)
    assert "50 % done" in tree.run()[1]
    assert tree.run()[1] == ""
    tree.keep(logged=int(time.time()) + 9999)  # the clock was set back
    assert "50 % done" in tree.run()[1]

    tree.unmount()
    assert "nothing is mounted on /project" in tree.run()[1]
    assert tree.kept()["faults"]["project"]["since"] == begin


def test_the_end_of_a_fault_is_told_once_and_the_report_goes(tmp_path: Path) -> None:
    tree = Tree(tmp_path, SCRATCH)
    broken(tree)
    tree.run()
    tree.keep(since=int(time.time()) - 7500)
    tree.md("md127", array_state="clean")
    assert tree.run() == (0, "<5>volume scratch (raid0, /scratch): the fault has ended; it lasted 2 h 5 min\n", "")
    assert tree.run() == (0, "", "")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"volumes": [{"name": "x"}]}'])
def test_what_cannot_be_looked_at_is_no_pass(tmp_path: Path, text: str) -> None:
    tree = Tree(tmp_path, SCRATCH)
    broken(tree)
    before = tree.run()[2]
    tree.write("/etc/llmhw/volumes.json", text)
    status, journal, report = tree.run()
    assert status == 2
    assert journal.startswith("<3>the volumes could not be looked at: ")
    assert report == before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 0, "faults": {"scratch": 1}}'])
def test_a_memory_that_cannot_be_read_costs_one_line(tmp_path: Path, text: str) -> None:
    tree = Tree(tmp_path, SCRATCH)
    broken(tree)
    tree.run()
    tree.write("/run/llmhw/volume-watch.json", text)
    assert tree.run()[1].startswith("<3>volume scratch")
    assert tree.run()[1] == ""


def silent(path: str) -> None:  # noqa: ARG001
    time.sleep(60)


def shut_down(path: str) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO), path)


def test_a_file_system_that_refuses_or_is_silent(tmp_path: Path) -> None:
    assert state.answer(str(tmp_path)) == ("fine", None)
    assert state.answer(str(tmp_path), touch=shut_down) == ("Input/output error", None)
    begin = time.monotonic()
    assert state.answer(str(tmp_path), 0.2, silent) == ("no answer within 0.2 s", None)
    assert time.monotonic() - begin < 5


def test_a_question_that_hangs_is_not_asked_again(tmp_path: Path) -> None:
    tree = Tree(tmp_path, DATA)
    with subprocess.Popen(["sleep", "60"]) as hangs:
        me = [hangs.pid, int(Path(f"/proc/{hangs.pid}/stat").read_text().rpartition(")")[2].split()[19])]
        kept = {"format": 1, "faults": {}, "stuck": {"/data": me}, "uptime_s": 1, "volumes": ["data"]}
        tree.write("/run/llmhw/volume-watch.json", json.dumps(kept))
        assert "/data does not work: no answer since an earlier look" in tree.run()[1]
        assert tree.kept()["stuck"] == {"/data": me}
        hangs.kill()
    assert "the fault has ended" in tree.run()[1]
    assert tree.kept()["stuck"] == {}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nvme-Micron_7500_S6XYZ", "nvme-Micron_7500_S6XYZ (serial S6XYZ)"),
        ("nvme-Micron_7500_S6XYZ_1", "nvme-Micron_7500_S6XYZ_1"),  # a namespace number is no serial
        ("nvme-eui.0025385b71b0a3f2", "nvme-eui.0025385b71b0a3f2"),
        ("wwn-0x5000c500a0b1c2d3", "wwn-0x5000c500a0b1c2d3"),
        ("ata-ST8000NM_ZA1", "ata-ST8000NM_ZA1 (serial ZA1)"),
        ("virtio-LAB5", "virtio-LAB5 (serial LAB5)"),
    ],
)
def test_a_drive_is_named_as_on_its_sticker(name: str, text: str) -> None:
    assert state.Drive("/dev/disk/by-id/" + name, "gone").text == text

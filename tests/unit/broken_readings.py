"""The recorded reading, broken in one way after the other: what each check must say then."""

from __future__ import annotations

import re
from collections.abc import Callable

from llmhw_provision.evidence import Evidence, Result
from tests.unit.recordings import changed, recorded, replaced, swapped

GOOD = recorded("provisioned")


def sub(pattern: str, new: str) -> Callable[[bytes], bytes]:
    return lambda raw: re.sub(pattern.encode(), new.encode(), raw)


def edited(key: str, pattern: str, new: str) -> Evidence:
    return changed(GOOD, key, sub(pattern, new))


UUID = "a699eef7-6f79-4dbc-99f8-e9c3e8e0cbbc"
ARRAY = "5ba4af44:c448bf71:608e4c18:4173d90f"
# check → list of (broken reading, status, what the finding must say)
BROKEN: dict[str, list[tuple[Evidence, str, str]]] = {
    "host-os": [(edited("os-release", "bookworm|12", "13"), "fail", "13")],
    "host-memory": [
        (edited("meminfo", r"MemTotal: +\d+", "MemTotal: 1900000"), "fail", "1.8 GiB"),
        (edited("meminfo", r"MemTotal: +\d+", "MemTotal: 2400000"), "warn", "2.3 GiB"),
    ],
    "host-nature": [(replaced(GOOD, "virt", Result(1, b"none\n", b"", 0.1)), "fail", "a machine of its own")],
    "host-units": [(changed(GOOD, "failed-units", lambda _: b"a.service loaded failed failed A\n"), "warn", "a.serv")],
    "host-trim": [
        (edited("fstrim", "ActiveState=active", "ActiveState=inactive"), "fail", "enabled, inactive"),
        (edited("fstrim", "LoadState=loaded", "LoadState=masked"), "fail", "masked"),
    ],
    "disk-present": [
        (swapped(GOOD, "lsblk", '"serial": "LAB1"', '"serial": "LAB9"'), "fail", "everything on /scratch is lost"),
        (
            swapped(GOOD, "lsblk", '"serial": "LAB2"', '"serial": "LAB9"'),
            "fail",
            "/srv/project runs without its mirror",
        ),
        (edited("lsblk", '"size": 2147483648', '"size": 1073741824'), "fail", "1.1 GB"),
        (recorded("missing-drive"), "fail", "no disk with serial LAB1"),
    ],
    "array-name": [
        (swapped(GOOD, "mdadm-detail", "any:scratch", "any:other"), "fail", "no array of that name"),
        (recorded("missing-drive"), "fail", "md126 is inactive"),
    ],
    "array-level": [(swapped(GOOD, "mdadm-detail", "MD_LEVEL=raid0", "MD_LEVEL=linear"), "fail", "linear")],
    "array-chunk": [(swapped(GOOD, "md-sysfs", "chunk_size:524288", "chunk_size:65536"), "fail", "64 KiB")],
    "array-members": [
        (recorded("missing-drive"), "fail", "missing LAB1: everything on /scratch is lost"),
        (recorded("pulled-drive"), "fail", "missing LAB1"),
        (swapped(GOOD, "lsblk", '"serial": "LAB1"', '"serial": "LAB9"'), "fail", "not in the plan: LAB9"),
        (swapped(GOOD, "mdstat", "nvme3n1[1]", "nvme3n1[1](F)"), "fail", "missing LAB3: /srv/project runs without"),
    ],
    "array-state": [
        (recorded("pulled-drive"), "fail", "broken"),
        (swapped(GOOD, "md-sysfs", "sync_action:idle", "sync_action:resync"), "warn", "clean, resync running"),
        (swapped(GOOD, "md-sysfs", "degraded:0", "degraded:1"), "fail", "clean, 1 member missing"),
    ],
    "array-conf": [
        (edited("mdadm-conf", f"ARRAY /dev/md/scratch.*{ARRAY}", "# gone"), "fail", "0 lines with that UUID"),
        (changed(GOOD, "mdadm-conf", lambda raw: raw + f"ARRAY /dev/md0 UUID={ARRAY}\n".encode()), "fail", "2 lines"),
        (swapped(GOOD, "mdadm-conf", "ARRAY /dev/md/scratch", "ARRAY /dev/md127"), "fail", "ARRAY /dev/md127"),
        (
            changed(GOOD, "mdadm-conf", lambda raw: raw + b"ARRAY /dev/md/scratch UUID=" + b"0" * 32 + b"\n"),
            "fail",
            "another line for /dev/md/scratch",
        ),
    ],
    "array-boot": [(edited("initramfs", f"ARRAY /dev/md/scratch.*{ARRAY}", "# gone"), "fail", "0 lines")],
    "array-came-back": [(edited("boot-times", "initramfs .", "initramfs 2"), "warn", "after the last boot")],
    "fs-mounted": [
        (recorded("missing-drive"), "fail", "nothing is mounted on /scratch"),
        (swapped(GOOD, "findmnt", '"source": "/dev/md127"', '"source": "/dev/vda"'), "fail", "/dev/vda is mounted"),
        (swapped(GOOD, "findmnt", "rw,noatime,attr2", "rw,relatime,attr2"), "fail", "lacks noatime"),
        (swapped(GOOD, "findmnt", '"fstype": "xfs"', '"fstype": "ext4"'), "fail", "ext4"),
    ],
    "fs-uuid": [
        (swapped(GOOD, "mount-unit:/scratch", UUID, "0" * 8), "fail", "unit 00000000"),
        (swapped(GOOD, "findmnt", UUID, "0" * 8), "fail", "mount 00000000"),
    ],
    "fs-geometry": [
        (swapped(GOOD, "xfs:/scratch", "sunit=128    swidth=256", "sunit=0      swidth=0"), "fail", "su=0 KiB sw=0"),
        (swapped(GOOD, "xfs:/scratch", "swidth=256", "swidth=512"), "fail", "sw=4"),
    ],
    "fs-trim": [
        (edited("trim", "ExecStart=.*/scratch.*\n", ""), "fail", "/sbin/fstrim --listed-in /etc/fstab"),
        (edited("trim", "ExecStart=.*\n", ""), "fail", "it runs nothing"),
    ],
    "fs-bare": [
        (swapped(GOOD, "bare:/scratch", "----i---", "--------"), "fail", "can be written to"),
        (changed(GOOD, "bare:/scratch", lambda raw: raw + b"model.bin\n"), "fail", "holds model.bin"),
    ],
    "fs-unit": [
        (swapped(GOOD, "mount-unit:/scratch", "UnitFileState=enabled", "UnitFileState=disabled"), "fail", "disabled"),
        (swapped(GOOD, "mount-unit:/scratch", "USec=30s", "USec=infinity"), "fail", "boot waits for ever"),
        (swapped(GOOD, "mount-unit:/scratch", "USec=30s", "USec=1min 30s"), "fail", "boot waits 90 s"),
        (
            swapped(
                GOOD, "mount-unit:/scratch", "RequiredBy=\nWantedBy=local", "RequiredBy=local-fs.target\nWantedBy="
            ),
            "fail",
            "boot stops without it",
        ),
        (swapped(GOOD, "mount-unit:/scratch", "NeedDaemonReload=no", "NeedDaemonReload=yes"), "fail", "has not read"),
        (edited("mount-unit:/scratch", "FileWhat=.*", "FileWhat="), "fail", "no unit file"),
    ],
    "fs-folder": [(swapped(GOOD, "folders", "/scratch|root|root|1777", "/scratch|root|root|755"), "fail", "0755")],
    "fs-directory": [
        (
            edited("folders", r"/srv/project/team\|.*", "stat: cannot statx '/srv/project/team': No"),
            "fail",
            "not there",
        ),
        (
            swapped(GOOD, "folders", "team|root|root|2775|directory", "team|root|root|2775|regular file"),
            "fail",
            "a reg",
        ),
        (swapped(GOOD, "folders", "team|root|root", "team|root|users"), "fail", "root:users 2775"),
    ],
    "fs-read-ahead": [(edited("read-ahead", "(md127.*):4096", r"\g<1>:128"), "fail", "128 KiB")],
    "volume-watch": [
        (
            recorded("missing-drive"),
            "fail",
            "drive nvme-QEMU_NVMe_Ctrl_LAB1 (serial LAB1) is gone; the array (md127) does",
        ),
        (recorded("pulled-drive"), "fail", "volume scratch (raid0, /scratch): drive nvme-QEMU_NVMe_Ctrl_LAB1"),
        (edited("volume-watch", "State=enabled", "State=disabled"), "fail", "watch.timer is disabled, active"),
        (edited("volume-watch", "State=active", "State=inactive"), "fail", "watch.timer is enabled, inactive"),
        (edited("volume-watch", "LoadState=loaded(.*\n)*.*enabled", "LoadState=not-found"), "fail", "is not-found"),
        (edited("volume-watch", "Uptime=.*", "Uptime=1000.1"), "fail", "its last look was 8 min ago"),
        (edited("volume-watch", "Look=(.|\n)*", "Look=\nUptime=901.1\n"), "fail", "it has never looked"),
        (edited("volume-watch", "Look=.*", "Look="), "could-not-run", "no look yet, 500 s after"),
        (edited("volume-watch", '"project", ', ""), "fail", "does not look at project"),
        (edited("volume-watch", '"faults": ..', '"faults": {"scratch": {}}'), "could-not-run", "fault is not text"),
        (edited("volume-watch", '"faults": ..', '"faults": null'), "could-not-run", "no volumes or faults"),
    ],
    "tmpfs-mounted": [
        (swapped(GOOD, "findmnt", '"target": "/mnt/hot"', '"target": "/mnt/cold"'), "fail", "not mounted"),
        (swapped(GOOD, "findmnt", "size=262144k", "size=524288k"), "fail", "512.0 MiB"),
        (swapped(GOOD, "findmnt", "size=262144k", "size=131072k"), "fail", "128.0 MiB"),
        (swapped(GOOD, "findmnt", ",size=262144k", ""), "fail", "without limit"),
        (swapped(GOOD, "findmnt", "rw,nosuid,nodev,relatime,size=262144k", "rw,size=262144k"), "fail", "lacks nosuid"),
    ],
    "tmpfs-mode": [(swapped(GOOD, "folders", "/mnt/hot|root|root|1777", "/mnt/hot|root|root|755"), "fail", "0755")],
    "tmpfs-unit": [
        (swapped(GOOD, "mount-unit:/mnt/hot", "UnitFileState=enabled", "UnitFileState="), "fail", "loaded"),
        (swapped(GOOD, "mount-unit:/mnt/hot", "NeedDaemonReload=no", "NeedDaemonReload=yes"), "fail", "has not read"),
    ],
}

"""The role nvme_raid0 run on the rehearsal machine by plain ansible-playbook, and what it did in values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from llmhw_provision.content import content_root
from tests.rehearsal.machine import Machine

BY_ID = "/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_"
# Prints one hash of all that the role could change beside the content of disks.
STATE = r"""sudo sh -c "
find /etc/systemd /etc/udev /etc/mdadm /proving /scratch -xdev -printf '%p %m %s %l\n' 2>&1 | sort
cat /proc/mdstat /etc/mdadm/mdadm.conf 2>/dev/null
dpkg -l; findmnt -rn; lsblk -rno NAME,TYPE,MOUNTPOINTS" | sha256sum"""


class Played(NamedTuple):
    """What a run of the role did: the actions of every task that changed something, and the failure."""

    changed: dict[str, list[str]]
    failed: str


def volume(**changed: Any) -> dict[str, Any]:
    """A RAID0 over the last three of the eight empty drives, with changes."""
    return {
        "name": "proving",
        "level": "raid0",
        "members": members("LLMHW0006", "LLMHW0007", "LLMHW0008"),
        "chunk_kib": 256,
        "filesystem": "xfs",
        "mount": "/proving",
        "mount_options": ["noatime", "nofail"],
        "device_timeout_s": 120,  # emulated and beside other work, udev may take long to show a new file system
        "read_ahead_kib": 1024,
        "trim": "weekly",
        "ephemeral": False,
        "owner": "root",
        "group": "root",
        "mode": "0755",
        **changed,
    }


def members(*serials: str) -> list[str]:
    """The links that drives have by their serial numbers."""
    return [BY_ID + serial for serial in serials]


@dataclass(frozen=True)
class Play:
    """Runs of the role; `folder` holds the inventory and Ansible's own files."""

    machine: Machine
    folder: Path

    def __call__(self, *volumes: dict[str, Any], wipe: tuple[dict[str, str], ...] = (), check: bool = False) -> Played:
        config = _config(volumes, wipe)
        words = ["--check" if check else "--diff", "--tags", "nvme_raid0"]
        return self._playbook("storage.yml", "nvme_raid0", config, words)

    def cut(self, *volumes: dict[str, Any]) -> subprocess.Popen[bytes]:
        """A run under way, to be cut off by the caller."""
        command, environment = self._command("storage.yml", "nvme_raid0", _config(volumes, ()), [])
        silent = subprocess.DEVNULL
        return subprocess.Popen(command, cwd=self.folder, env=environment, stdout=silent, stderr=silent)

    def rebuild_initramfs(self) -> Played:
        """A run of the role initramfs, for the reasons that are there."""
        config = {"initramfs_config": {"kernels": "running", "prove_by_boot": False}}
        return self._playbook("initramfs.yml", "initramfs", config, [])

    def _playbook(self, name: str, group: str, config: dict[str, Any], words: list[str]) -> Played:
        events = self.folder / "events"
        events.unlink(missing_ok=True)
        command, environment = self._command(name, group, config, words)
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        found = [json.loads(line) for line in events.read_text().splitlines()] if events.exists() else []
        failed = [event["result"]["msg"] for event in found if event["status"] == "failed"]
        assert found, done.stdout + done.stderr
        assert (done.returncode != 0) == bool(failed), done.stdout + done.stderr
        changed = {e["task"]: e["result"].get("actions", []) for e in found if e["status"] == "changed"}
        return Played(changed, "\n".join(failed))

    def _command(
        self, name: str, group: str, config: dict[str, Any], words: list[str]
    ) -> tuple[list[str | Path], dict[str, str]]:
        content = content_root()
        host = {
            "ansible_ssh_common_args": f"-F {self.machine.ssh_config}",
            "ansible_user": self.machine.user,
            "ansible_become": True,
            "ansible_python_interpreter": "/usr/bin/python3",
            **config,
        }
        (self.folder / "hosts.json").write_text(json.dumps({group: {"hosts": {Machine.alias: host}}}))
        program = Path(sys.executable).with_name("ansible-playbook")
        environment = {
            **os.environ,
            "ANSIBLE_ROLES_PATH": str(content / "roles"),
            "ANSIBLE_HOME": str(self.folder / "home"),
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).parents[1] / "containers/callback"),
            "ANSIBLE_CALLBACKS_ENABLED": "llmhw_record",
            "LLMHW_RECORD": str(self.folder / "events"),
        }
        return [program, "-i", "hosts.json", *words, content / "playbooks" / name], environment


def _config(volumes: tuple[dict[str, Any], ...], wipe: tuple[dict[str, str], ...]) -> dict[str, Any]:
    config = {"volumes": list(volumes or (volume(),)), "directories": [], "wipe": list(wipe), "max_wear_percent": 90}
    return {"nvme_raid0_config": config}


def converge(play: Play, *volumes: dict[str, Any], **wish: Any) -> Played:
    """What apply did, after a look that check foresaw exactly that and that nothing is left to do."""
    foreseen, done = play(*volumes, **wish, check=True), play(*volumes, **wish)
    assert foreseen.failed == done.failed == ""
    assert foreseen.changed == done.changed
    assert play(*volumes, **wish) == Played({}, "")
    return done


def refused(play: Play, *volumes: dict[str, Any], wipe: tuple[dict[str, str], ...] = ()) -> list[str]:
    """The lines of a refusal, after a look that it has changed nothing."""
    machine = play.machine
    before = machine.drive_hashes(), machine.run(STATE).stdout
    done = play(*volumes, wipe=wipe)
    assert done == Played({}, done.failed)
    assert (machine.drive_hashes(), machine.run(STATE).stdout) == before
    assert "hint: nothing was changed." in done.failed
    return done.failed.splitlines()


def actions(done: Played) -> list[str]:
    """The first word of everything that was done to the disks."""
    return [text.split()[0] for text in done.changed.get("nvme_raid0 : Make or adopt the volumes", [])]

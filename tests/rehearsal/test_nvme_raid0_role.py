"""The role nvme_raid0 on a real kernel: refusals leave the drives as they are, interrupted runs are finished.

Three empty drives are used and left empty again. How the whole product uses the role, over a reboot and with a drive
pulled, is in test_thin_path.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from llmhw_provision.content import content_root
from tests.rehearsal.machine import Machine

pytestmark = [pytest.mark.vm, pytest.mark.proof]

BY_ID = "/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_"
DRIVES = ("LLMHW0006", "LLMHW0007", "LLMHW0008")
CUSTOMER = "LLMHWKEEP1"
STATE = r"""sudo sh -c "find /etc/systemd /etc/udev /etc/mdadm /proving -xdev -printf '%p %m %s %l\n' 2>&1 | sort;
cat /proc/mdstat /etc/mdadm/mdadm.conf 2>/dev/null; dpkg -l; findmnt -rn" | sha256sum"""
CLEAN = """sudo sh -c 'systemctl disable --now proving.mount; umount /proving; chattr -i /proving; rmdir /proving
mdadm --stop /dev/md/proving
for name in {names}; do wipefs --all --quiet {by_id}$name; done
rm -rf /etc/systemd/system/proving.mount /etc/udev/rules.d/99-llmhw-read-ahead.rules /run/llmhw/initramfs-required.d
sed -i /proving/d /etc/mdadm/mdadm.conf; systemctl daemon-reload; udevadm settle'""".format(
    names=" ".join(DRIVES), by_id=BY_ID
)


class Played(NamedTuple):
    """What a run of the role did: the actions of every task that changed something, and the failure."""

    changed: dict[str, list[str]]
    failed: str


Play = Callable[..., Played]


def volume(**changed: Any) -> dict[str, Any]:
    """The volume of these tests, with changes."""
    return {
        "name": "proving",
        "level": "raid0",
        "members": [BY_ID + serial for serial in DRIVES],
        "chunk_kib": 256,
        "filesystem": "xfs",
        "mount": "/proving",
        "mount_options": ["noatime", "nofail"],
        "device_timeout_s": 20,
        "read_ahead_kib": 1024,
        "owner": "root",
        "group": "root",
        "mode": "0755",
        **changed,
    }


@pytest.fixture(scope="module")
def play(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    """A function that runs the role, and the drives empty again afterwards."""
    folder = tmp_path_factory.mktemp("nvme_raid0")

    def run(*volumes: dict[str, Any], wipe: tuple[dict[str, str], ...] = (), check: bool = False) -> Played:
        config = {"volumes": list(volumes or (volume(),)), "directories": [], "wipe": list(wipe)}
        return _play(machine, folder, config, "--check" if check else "--diff")

    yield run
    machine.run(CLEAN, check=False)


def _play(machine: Machine, folder: Path, config: dict[str, Any], option: str) -> Played:
    content, events = content_root(), folder / "events"
    events.unlink(missing_ok=True)
    host = {
        "ansible_ssh_common_args": f"-F {machine.ssh_config}",
        "ansible_user": machine.user,
        "ansible_become": True,
        "ansible_python_interpreter": "/usr/bin/python3",
        "nvme_raid0_config": config,
    }
    (folder / "hosts.json").write_text(json.dumps({"nvme_raid0": {"hosts": {Machine.alias: host}}}))
    words = [Path(sys.executable).with_name("ansible-playbook"), "-i", "hosts.json", option]
    done = subprocess.run(
        [*words, "--tags", "nvme_raid0", content / "playbooks/storage.yml"],
        cwd=folder,
        env={
            **os.environ,
            "ANSIBLE_ROLES_PATH": str(content / "roles"),
            "ANSIBLE_HOME": str(folder / "home"),
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).parents[1] / "containers/callback"),
            "ANSIBLE_CALLBACKS_ENABLED": "llmhw_record",
            "LLMHW_RECORD": str(events),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    found = [json.loads(line) for line in events.read_text().splitlines()] if events.exists() else []
    failed = [event["result"]["msg"] for event in found if event["status"] == "failed"]
    assert found, done.stdout + done.stderr
    assert (done.returncode != 0) == bool(failed), done.stdout + done.stderr
    changed = {e["task"]: e["result"].get("actions", []) for e in found if e["status"] == "changed"}
    return Played(changed, "\n".join(failed))


def converge(play: Play, **wish: Any) -> Played:
    """What apply did, after a look that check foresaw exactly that and that nothing is left to do."""
    foreseen, done = play(**wish, check=True), play(**wish)
    assert foreseen.failed == done.failed == ""
    assert foreseen.changed == done.changed
    assert play(**wish) == Played({}, "")
    return done


def actions(done: Played) -> list[str]:
    """The first word of everything that was done to the disks."""
    return [text.split()[0] for text in done.changed.get("nvme_raid0 : Make or adopt the volumes", [])]


def test_every_reason_is_said_and_nothing_is_changed(play: Play, machine: Machine) -> None:
    drives, before = machine.drive_hashes(), machine.run(STATE).stdout
    members = [BY_ID + serial for serial in (DRIVES[0], CUSTOMER, "NOTTHERE")]
    done = play(volume(members=members), volume(name="p", level="single", mount="/p", members=[BY_ID + "GONE"]))
    assert done.changed == {}
    assert f"disk nvme-QEMU_NVMe_Ctrl_{CUSTOMER} holds an ext4 filesystem" in done.failed
    assert "disk nvme-QEMU_NVMe_Ctrl_NOTTHERE is missing" in done.failed
    assert "disk nvme-QEMU_NVMe_Ctrl_GONE is missing" in done.failed
    assert "hint: nothing was changed." in done.failed
    assert (machine.drive_hashes(), machine.run(STATE).stdout) == (drives, before)


def test_a_consent_erases_exactly_what_it_names(play: Play, machine: Machine) -> None:
    disk = BY_ID + DRIVES[0]
    machine.run(f"sudo mkfs.ext4 -q -L old {disk} && sudo udevadm settle")
    uuid = machine.run(f"sudo blkid -p -o value -s UUID {disk}").stdout.strip()
    consent = {"device": disk, "serial": DRIVES[0], "type": "ext4", "uuid": uuid}
    for wrong in ({"serial": DRIVES[1]}, {"type": "xfs"}, {"uuid": uuid[::-1]}, {"device": BY_ID + DRIVES[1]}):
        assert 'holds an ext4 filesystem "old"' in play(wipe=({**consent, **wrong},), check=True).failed
    done = converge(play, wipe=(consent,))
    assert actions(done) == ["erase", "create", "make", "record", "set"]
    geometry = machine.run("findmnt -no OPTIONS /proving; cat /sys/class/block/md12*/queue/read_ahead_kb").stdout
    assert "sunit=512,swidth=1536" in geometry
    assert geometry.endswith("1024\n")


@pytest.mark.parametrize(
    ("interrupt", "expected"),
    [
        ("umount /proving", []),
        ("systemctl stop proving.mount; wipefs -aq /dev/md/proving", ["make", "set"]),
        ("systemctl stop proving.mount; mdadm --stop /dev/md/proving", ["start"]),
        (
            "systemctl stop proving.mount; wipefs -aq /dev/md/proving; mdadm --stop /dev/md/proving",
            ["start", "make", "set"],
        ),
        (f"systemctl stop proving.mount; mdadm --stop /dev/md/proving; mdadm -I {BY_ID}{DRIVES[0]}", ["start"]),
        ("sed -i /proving/d /etc/mdadm/mdadm.conf", ["record"]),
        ("echo 64 > /sys/class/block/$(basename $(realpath /dev/md/proving))/queue/read_ahead_kb", ["set"]),
    ],
    ids=["unmounted", "no-file-system", "stopped", "stopped-and-empty", "inactive", "not-recorded", "read-ahead"],
)
def test_an_interrupted_run_is_finished(play: Play, machine: Machine, interrupt: str, expected: list[str]) -> None:
    machine.run(f"sudo sh -c '{interrupt}; udevadm settle'")
    assert actions(converge(play)) == expected
    machine.run("findmnt /proving")


def test_another_plan_for_the_same_array_is_refused(play: Play, machine: Machine) -> None:
    before = machine.run(STATE).stdout
    assert "chunk: expected 64 KiB, found 256 KiB" in play(volume(chunk_kib=64)).failed
    fewer = play(volume(members=[BY_ID + serial for serial in DRIVES[:2]])).failed
    assert "number of disks: expected 2, found 3" in fewer
    assert "array proving is mounted at /proving; expected /other" in play(volume(mount="/other")).failed
    other = play(volume(name="other", mount="/other")).failed
    assert "is a member of array proving (linux_raid_member, raid0 of 3 disks, in use by md12" in other
    assert machine.run(STATE).stdout == before


def test_without_the_mount_nobody_can_write_there(play: Play, machine: Machine) -> None:
    play()
    machine.run("sudo systemctl stop proving.mount")
    assert "Operation not permitted" in machine.run("sudo touch /proving/file", check=False).stderr

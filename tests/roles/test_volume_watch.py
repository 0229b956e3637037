"""The volume watch in a Debian 12 container: it runs, a fault is seen everywhere, its end too, and it goes whole.

There is no md in a container: the volume is one disk, made of a link and a folder that stands for its device.
"""

import json
import shlex
import subprocess
from typing import Any

import pytest

from llmhw_provision.probes import volume_watch
from llmhw_provision.probes.volume_watch import COMMAND
from tests.containers.container import Container
from tests.containers.play import Result, ansible

pytestmark = pytest.mark.container

NAME = "llmhw-volume-watch"
FILES = (
    "find / /run -xdev -name '*volume*' -not -path '/proc/*' -printf '%p %m %u\\n' | grep -i -e llmhw -e volume_ | sort"
)
DISK = "/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_LAB0"
VOLUME = {
    "name": "data",
    "level": "single",
    "members": [DISK],
    "chunk_kib": 512,
    "filesystem": "xfs",
    "mount": "/data",
    "mount_options": ["nofail"],
    "device_timeout_s": 5,
    "read_ahead_kib": 4096,
    "owner": "root",
    "group": "root",
    "mode": "0755",
}


def apply(container: Container, *volumes: dict[str, Any], check: bool = False, may_fail: bool = False) -> Result:
    tasks = [{"import_role": {"name": "nvme_raid0", "tasks_from": "watch"}}]
    config = {"nvme_raid0_config": {"volumes": list(volumes), "directories": [], "wipe": []}}
    return ansible(container, tasks, config, facts=False, check=check, may_fail=may_fail)


def actions(result: Result) -> list[str]:
    (event,) = result.of("Watch the volumes for lost drives")
    return list(event.result["actions"])


def test_check_apply_apply_and_a_fault_that_everybody_sees(module_container: Container) -> None:
    container = module_container
    before = container.run(FILES, check=False).stdout
    foreseen = actions(apply(container, VOLUME, check=True))
    assert container.run(FILES, check=False).stdout == before
    assert foreseen[-2:] == [f"enable {NAME}.timer", f"start {NAME}.timer"]
    assert len(foreseen) == 8
    assert actions(apply(container, VOLUME)) == foreseen
    assert apply(container, VOLUME).changed == ()
    assert apply(container, VOLUME, check=True).changed == ()
    container.run(f"systemd-analyze verify /etc/systemd/system/{NAME}.service /etc/systemd/system/{NAME}.timer")

    # The drive is not there, so the run that apply made has found it.
    assert NAME in container.run("systemctl --failed --plain --no-legend").stdout
    report = container.run("cat /run/llmhw/volume-faults").stdout
    assert report.startswith("*** FAULT: volume data, on one drive, /data\n")
    assert "drive nvme-QEMU_NVMe_Ctrl_LAB0 (serial LAB0) is gone" in report
    assert "*** FAULT: volume data" in login(container)
    assert looked(container)["volumes"] == ["data"]
    seen = volume_watch.parse(container.run(COMMAND.argv).stdout.encode())
    assert (seen.timer["UnitFileState"], seen.timer["ActiveState"]) == ("enabled", "active")
    assert seen.look
    assert 0 <= seen.uptime_s - seen.look.uptime_s < 60
    assert seen.look.faults[0].startswith("volume data (single, /data): drive nvme-QEMU_NVMe_Ctrl_LAB0 (serial LAB0)")
    assert apply(container, VOLUME).changed == ()


def test_the_timer_looks_again_after_a_failure_and_a_change_is_news(module_container: Container) -> None:
    container = module_container
    apply(container, VOLUME)
    faster(container, "[Timer]\nOnUnitActiveSec=2s\nAccuracySec=100ms\n")
    first = looked(container)
    container.run("sleep 7")
    later = looked(container)
    assert later["uptime_s"] >= first["uptime_s"] + 4
    assert later["faults"] == first["faults"]
    lines = journal(container)
    assert len(lines) == 1
    assert lines[0].startswith(
        "3 volume data (single, /data): drive nvme-QEMU_NVMe_Ctrl_LAB0 (serial LAB0) is gone; noth"
    )

    container.run("mkdir -p /data && mount -t tmpfs -o mode=0700,uid=1000 tmpfs /data && sleep 4")
    assert len(journal(container)) == 2
    assert "(serial LAB0) is gone. Lost: everything on /data" in journal(container)[1]  # the mount answers
    assert looked(container)["faults"]["data"]["since"] == first["faults"]["data"]["since"]
    container.run("umount /data && rm -r /run/systemd/system/llmhw*.d && systemctl daemon-reload")


def test_changes_by_hand_and_a_cut_off_run_are_put_right(module_container: Container) -> None:
    container = module_container
    apply(container, VOLUME)
    container.run(f"touch /etc/systemd/system/{NAME}.service; chmod 0600 /etc/llmhw/volumes.json")
    container.run(f"systemctl disable --now {NAME}.timer; touch /etc/systemd/system/{NAME}.service")
    foreseen = actions(apply(container, VOLUME, check=True))
    assert foreseen == [
        "write /etc/llmhw/volumes.json",
        f"reload {NAME}.service",
        f"enable {NAME}.timer",
        f"start {NAME}.timer",
    ]
    assert actions(apply(container, VOLUME)) == foreseen
    assert apply(container, VOLUME).changed == ()


def test_at_boot_it_waits_for_the_mounts(module_container: Container) -> None:
    container = module_container
    mounts = ["/srv/my-project/a_b.c", "/.hidden/.inner", "/data"]
    apply(container, *(VOLUME | {"name": f"v{number}", "mount": mount} for number, mount in enumerate(mounts)))
    units = container.run(["systemd-escape", "--path", "--suffix=mount", *mounts]).stdout.split()
    after = shlex.split(container.run(f"systemctl show --value -p After {NAME}.service").stdout)
    assert set(units) <= set(after)
    assert looked(container)["volumes"] == ["v0", "v1", "v2"]


def test_a_watch_that_cannot_work_is_noticed_at_once(module_container: Container) -> None:
    container = module_container
    apply(container, VOLUME)
    drop_in = f"/etc/systemd/system/{NAME}.service.d"
    container.run(f"mkdir -p {drop_in} && printf '[Service]\\nExecStart=\\n"
                  f"ExecStart=/usr/bin/python3 /nowhere\\n' >{drop_in}/x.conf && systemctl daemon-reload")  # fmt: skip
    result = apply(container, VOLUME | {"name": "other"}, may_fail=True)
    assert f"{NAME}.service does not work: exit-code, exit status 2" in result.failed[0]
    assert "/nowhere" in result.failed[0]
    container.run(f"rm -r {drop_in} && systemctl daemon-reload")


def test_without_volumes_nothing_is_left(module_container: Container) -> None:
    container = module_container
    apply(container, VOLUME)
    foreseen = actions(apply(container, check=True))
    assert foreseen[:2] == [f"stop {NAME}.timer", f"stop {NAME}.service"]
    assert actions(apply(container)) == foreseen
    assert container.run(FILES, check=False).stdout == ""
    assert container.run("ls -d /etc/llmhw /usr/local/lib/llmhw", check=False).stdout == ""
    assert (
        container.run("systemctl --failed --plain --no-legend; systemctl list-units --all --no-legend 'llmhw*'").stdout
        == ""
    )
    assert apply(container).changed == ()
    assert "FAULT" not in login(container)


def looked(container: Container) -> Any:
    """What the last look left behind."""
    return json.loads(container.run("cat /run/llmhw/volume-watch.json").stdout)


def faster(container: Container, text: str) -> None:
    """Another rhythm, for the life of the container."""
    folder = f"/run/systemd/system/{NAME}.timer.d"
    container.run(f"mkdir -p {folder} && cat >{folder}/x.conf && systemctl daemon-reload", given=text)
    container.run(f"systemctl restart {NAME}.timer")


def login(container: Container) -> str:
    """What a person sees who logs in with a terminal."""
    words = ["ssh", "-tt", "-F", str(container.ssh_config), "-o", "ControlPath=none", container.name]
    return subprocess.run(words, input="exit\n", capture_output=True, text=True, timeout=60, check=False).stdout


def journal(container: Container) -> list[str]:
    """Priority and text of the program's own lines."""
    out = container.run(f"journalctl --no-pager -o json -t {NAME}").stdout
    entries = [json.loads(line) for line in out.splitlines()]
    return [f"{entry['PRIORITY']} {entry['MESSAGE']}" for entry in entries]

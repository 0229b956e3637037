"""The role host_tuning and a real boot loader: new command line, the way back, the boot that proves the new one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llmhw_provision.plan.roles_base import HostTuningConfig, Limits
from tests.rehearsal.machine import Machine
from tests.rehearsal.role import Play, Played

pytestmark = [pytest.mark.vm, pytest.mark.proof]

ADDED = ("transparent_hugepage=madvise", "consoleblank=61")
CONFIG = HostTuningConfig(
    profile="server",
    sysctl={"vm.swappiness": "10"},
    limits=Limits(memlock_kib=4096, nofile_soft=2048, nofile_hard=16384),
    governor="as-found",
    hugepages="as-found",
    command_line=ADDED,
    acs="report",
    mask=("sleep.target", "suspend.target"),
)


def tune(play: Play) -> Played:
    config: dict[str, Any] = {"host_tuning_config": json.loads(CONFIG.model_dump_json())}
    return play._playbook("base.yml", "host_tuning", config, [])


def added(machine: Machine) -> list[str]:
    """Which of the planned arguments the running kernel was started with."""
    line = machine.run("cat /proc/cmdline").stdout.split()
    return [argument for argument in ADDED if argument in line]


def test_a_new_command_line_keeps_the_way_back_until_it_has_booted(play: Play) -> None:
    machine = play.machine
    assert added(machine) == []
    done = tune(play)
    assert done.failed == ""
    said = [action for actions in done.changed.values() for action in actions]
    assert said[-2:] == ["keep the boot entry from before", f"add {' '.join(ADDED)} to the kernel command line"]
    assert tune(play) == Played({}, "")
    reason = machine.run("cat /run/llmhw/reboot-required.d/host_tuning").stdout
    assert reason == f"the kernel runs without {' '.join(ADDED)}\n"

    # the engineer's way back, chosen once in GRUB's menu
    machine.run("sudo grub-reboot llmhw-before")
    machine.reboot()
    assert added(machine) == []
    assert machine.run("cat /proc/sys/vm/swappiness").stdout == "10\n"  # all else was at work
    assert tune(play).failed == ""
    assert machine.run("sudo grep -c llmhw-before /boot/grub/custom.cfg").stdout == "1\n"

    machine.reboot()
    assert added(machine) == list(ADDED)
    done = tune(play)
    assert [action for actions in done.changed.values() for action in actions] == [
        "drop the boot entry from before: this boot has shown that the new one works"
    ]
    assert machine.run("sudo cat /boot/grub/custom.cfg; ls /run/llmhw/reboot-required.d", check=False).stdout == ""
    assert tune(play) == Played({}, "")
    machine.reboot()
    assert added(machine) == list(ADDED)

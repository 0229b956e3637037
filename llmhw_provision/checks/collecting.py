"""What is read on a machine whose answers are judged elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from llmhw_provision import discover
from llmhw_provision.checks.model import Level
from llmhw_provision.checks.table import commands
from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.plan.model import HostPlan, Plan
from llmhw_provision.probes import (
    base,
    by_id,
    dmesg,
    driver_files,
    fabric_manager,
    folders,
    ib_sysfs,
    ibstat,
    initramfs,
    lspci,
    nvidia_csv,
    nvidia_list,
    nvidia_nvlink,
    nvidia_query,
    nvidia_topo,
    nvme,
    systemd,
    trim,
    tuning,
    volume_watch,
)

# What every machine can be asked: the fixed commands of all levels but `before`, whose questions are of another time.
GENERAL: tuple[Command, ...] = (
    nvidia_nvlink.ERRORS,
    *discover.COMMANDS,
    *(systemd.FAILED, systemd.TIMER, folders.READ_AHEAD, trim.COMMAND, volume_watch.COMMAND, by_id.COMMAND),
    *(initramfs.command(), initramfs.TIMES, base.CLOCK, base.FIREWALL, base.PIP),
    *(tuning.LIMITS, tuning.POLICY, tuning.ACS, tuning.CARE),
    *(dmesg.COMMAND, lspci.COMMAND, driver_files.COMMAND),
    *(*nvidia_list.COMMANDS, nvidia_csv.QUERY, nvidia_query.COMMAND, *nvidia_topo.COMMANDS),
    *(fabric_manager.STATUS, fabric_manager.JOURNAL, ibstat.COMMAND, ib_sysfs.COMMAND, nvme.LIST),
    nvidia_nvlink.STATUS,
    nvidia_nvlink.ERRORS_LATER,
)


def wanted(host: HostPlan | None, level: Level) -> tuple[Command, ...]:
    """The commands that answer `level` for `host`; without a plan those that need none."""
    return tuple(_once(GENERAL if host is None else commands(host, level)))


def unanswered(plan: Plan, recorded: Mapping[str, Evidence], level: Level) -> Iterator[str]:
    """One line for each recording that was not made for `level`."""
    for host in plan.hosts:
        evidence = recorded.get(host.name)
        keys = [command.key for command in wanted(host, level)]
        lacking = [key for key in keys if key not in evidence.results] if evidence and evidence.results else []
        if lacking:
            total = len(keys)
            yield (
                f"warning: {host.name}: the recording answers {total - len(lacking)} of the {total} questions of level "
                f"{level}: no {', '.join(lacking[:3])}{' ...' if len(lacking) > 3 else ''}; "
                f"collect --plan plan.json --level {level} asks them all"
            )


def _once(found: Iterable[Command]) -> Iterable[Command]:
    return {command.key: command for command in found}.values()

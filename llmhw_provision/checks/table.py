"""All checks, the commands they need, and the one place where a judgement becomes a Finding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from llmhw_provision import discover
from llmhw_provision.checks import (
    access,
    arrays,
    base,
    disks,
    filesystems,
    hardware,
    host,
    in_use,
    memory_fs,
    package_state,
    python_envs,
    readiness,
    throughput,
    tuning,
    volume_watch,
)
from llmhw_provision.checks.model import LEVELS, Check, Finding, Level, Outcome
from llmhw_provision.checks.texts import text_of
from llmhw_provision.checks.views import NotThere, array_names, stripe_names, tmpfs_mounts, volume, volumes
from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import folders, initramfs, packages, processes, systemd, trim, xfs
from llmhw_provision.probes import readiness as readiness_probes
from llmhw_provision.probes import volume_watch as watch_probe
from llmhw_provision.probes.reading import ProbeError

CHECKS: tuple[Check, ...] = (
    *access.CHECKS,
    *in_use.CHECKS,
    *package_state.CHECKS,
    *readiness.CHECKS,
    *host.CHECKS,
    *base.CHECKS,
    *tuning.CHECKS,
    *disks.CHECKS,
    *arrays.CHECKS,
    *filesystems.CHECKS,
    *volume_watch.CHECKS,
    *memory_fs.CHECKS,
    *python_envs.CHECKS,
    *hardware.CHECKS,
    *throughput.CHECKS,
)


@dataclass(frozen=True)
class Item:
    """One check about one subject of one host: what testinfra runs as one test."""

    host: HostPlan
    check: Check
    subject: str

    @property
    def name(self) -> str:
        """Short name, unique within the host."""
        return f"{self.check.id}-{self.subject}" if self.subject else self.check.id


def chosen(level: Level) -> tuple[Check, ...]:
    """The checks of a level; `standard` holds those of `quick`, `before` stands alone."""
    if level == "before":
        return tuple(check for check in CHECKS if "before" in check.levels)
    wanted = set(LEVELS[1 : LEVELS.index(level) + 1])
    return tuple(check for check in CHECKS if wanted & set(check.levels))


def items(plan: HostPlan, level: Level) -> Iterator[Item]:
    """Every question that `level` asks of the host."""
    for check in chosen(level):
        for subject in check.subjects(plan):
            yield Item(plan, check, subject)


def commands(plan: HostPlan, level: Level) -> tuple[Command, ...]:
    """What must be read on the host to answer the checks of `level`."""
    if level == "before":
        return _before(plan)
    found = [*discover.COMMANDS, systemd.FAILED, systemd.TIMER, folders.READ_AHEAD, trim.COMMAND]
    found += [*base.commands(plan), *tuning.commands(plan), *python_envs.commands(plan, level)]
    if array_names(plan):
        found += [initramfs.command(), initramfs.TIMES]
    if volumes(plan):
        found.append(watch_probe.COMMAND)
    for item in volumes(plan):
        found += [systemd.mount_command(item.mount), folders.bare_command(item.mount)]
    striped = [volume(plan, name) for name in stripe_names(plan)]
    found += [xfs.command(item.mount) for item in striped if item.filesystem == "xfs"]
    found += [systemd.mount_command(item.path) for item in tmpfs_mounts(plan)]
    paths = [item.mount for item in volumes(plan)] + [item.path for item in tmpfs_mounts(plan)]
    paths += [item.path for item in plan.roles.nvme_raid0.directories] if plan.roles.nvme_raid0 else []
    found.append(folders.stat_command(tuple(paths)))
    return (*found, *hardware.commands(plan, level), *throughput.commands(plan, level))


def _before(plan: HostPlan) -> tuple[Command, ...]:
    names = package_state.planned(plan)
    return (
        *discover.COMMANDS,
        *processes.COMMANDS,
        *packages.COMMANDS,
        *((packages.candidates_command(names),) if names else ()),
        *readiness_probes.COMMANDS,
        *package_state.commands(plan),
        *hardware.before(plan),
        readiness_probes.CLOCK,  # last: it is compared with the time at which the answer came
    )


def judge(item: Item, evidence: Evidence) -> Finding:
    """The finding of one item. Evidence that is missing or cannot be read is `could-not-run`, never a pass."""
    try:
        outcome = item.check.judge(item.host, evidence, item.subject)
    except ProbeError as error:
        variant = "not-there" if isinstance(error, NotThere) else ""
        outcome = Outcome("could-not-run", error.problems[0].message, "an answer", variant)
    text = text_of(item.check.id, outcome.variant)
    advice = text
    if outcome.status == "could-not-run":
        advice = text_of("could-not-run", outcome.variant)
    cause, next_step = advice.cause, evidence.hint or advice.next_step
    quiet = outcome.status == "pass"
    return Finding(
        host=item.host.name,
        check=item.check.id,
        subject=item.subject,
        variant=outcome.variant,
        area=item.check.area,
        status=outcome.status,
        severity=item.check.severity,
        title=text.title.format(subject=item.subject),
        found=outcome.found,
        expected=outcome.expected,
        cause="" if quiet else cause,
        next_step="" if quiet else next_step,
        runbook=item.check.runbook,
        evidence=_key(item),
    )


def judge_all(plan: HostPlan, evidence: Evidence, level: Level) -> tuple[Finding, ...]:
    """All findings of `level` about one host; one is enough for a host that cannot be read."""
    asked = list(items(plan, level))
    if evidence.problem and level == "before":
        asked = [item for item in asked if item.check.id == "access"]
    elif evidence.problem:
        asked = [Item(plan, access.UNREAD, "")]
    return tuple(judge(item, evidence) for item in asked)


def _key(item: Item) -> str:
    mount = next((entry.mount for entry in volumes(item.host) if entry.name == item.subject), item.subject)
    disk = next((entry.by_id for entry in item.host.disks if entry.serial == item.subject), item.subject)
    return item.check.evidence.format(mount=mount, disk=disk, subject=item.subject)

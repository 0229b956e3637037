"""From what is wanted and what is there: refusals, or the steps that are left. Pure; the heart of the disk safety.

Every step follows from the state, so an interrupted run is finished by the next. Steps are in order, and the first
one is always complete: later ones may rest on a UUID that only an earlier step brings forth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from . import refuse, steps
from .arrays import decide_array, elsewhere, without_quota
from .conf import read_ahead_rule
from .facts import Consent, Disk, Machine, Volume
from .plan import Plan, Result
from .refuse import Refusal, short
from .replace import lost_drives
from .steps import Step


class Decision(NamedTuple):
    """`steps` is empty whenever `refusals` is not."""

    refusals: tuple[Refusal, ...]
    steps: tuple[Step, ...]
    results: tuple[Result, ...]
    notes: tuple[str, ...]


def decide(
    volumes: Sequence[Volume],
    consents: Sequence[Consent],
    machine: Machine,
    *,
    mdadm_conf: str,
    rule: str,
    state: str,
    max_wear_percent: int,
) -> Decision:
    """The refusals of all disks at once or, without any, the steps that are left."""
    plan = Plan(machine, consents, mdadm_conf=mdadm_conf, state=state, max_wear_percent=max_wear_percent)
    plan.refusals += refuse.request(volumes, machine)
    for volume in volumes:
        disks = [machine.disks[link] for link in volume.members]
        unknown = [reason for disk in disks for reason in refuse.identity(disk)]
        lost = lost_drives(volume, disks, machine)
        plan.refusals += lost + unknown
        if unknown:
            others = [disk for disk in disks if not refuse.identity(disk)]
            plan.refusals += [] if lost else [r for disk in others for r in refuse.writing(disk, consents)]
        elif volume.level == "single":
            _single(plan, volume, disks[0])
        else:
            decide_array(plan, volume, disks)
    if plan.refusals:
        return Decision(tuple(plan.refusals), (), (), ())
    _read_ahead(plan, rule)
    return Decision((), tuple(plan.steps), tuple(plan.results), tuple(plan.notes))


def _single(plan: Plan, volume: Volume, disk: Disk) -> None:
    there, device = disk.filesystem, str(disk.device)
    only = [(s.device, s.type) for s in disk.signatures] == [(disk.device, volume.filesystem)]
    adopt = there is not None and there.label == volume.label and only
    if there and adopt and there.unfinished and disk.exclusive:
        plan.steps.append(steps.erase_unfinished(volume, device))
        plan.steps.append(steps.make_filesystem(volume, device))
        there = None
    elif there and adopt:
        plan.refusals += elsewhere(volume, "disk " + short(disk.link), disk.mounts)
        plan.refusals += without_quota(volume, device, there)
        plan.notes += refuse.ailing([disk], plan.max_wear_percent)
    else:
        there = None
        plan.write_to([disk])
        plan.steps.append(steps.make_filesystem(volume, device))
    plan.devices[volume.name] = (device, disk.read_ahead_kib)
    plan.results.append(Result(volume, None, there, disk.trim))


def _read_ahead(plan: Plan, rule: str) -> None:
    """Now and at every start, in one step: what the kernel chose by itself may equal the wish by chance."""
    known = [(r.filesystem.uuid, r.volume.read_ahead_kib) for r in plan.results if r.filesystem]
    text = read_ahead_rule(known)
    files = [(rule, text)] if len(known) < len(plan.results) or (plan.machine.rule or "") != text else []
    for result in plan.results:
        device, current = plan.devices[result.volume.name]
        page = plan.machine.page_kib  # the kernel counts in pages
        wanted = result.volume.read_ahead_kib // page * page
        if current is None and not files:  # a known volume, not started yet: the rule will see to it
            continue
        if current != wanted:
            files.append(("/sys/class/block/{}/queue/read_ahead_kb".format(device.rsplit("/", 1)[-1]), str(wanted)))
    if files:
        listed = ", ".join("%s %d KiB" % (r.volume.link, r.volume.read_ahead_kib) for r in plan.results)
        plan.steps.append(Step("set the read-ahead: %s" % (listed or "no volumes"), files=tuple(files)))

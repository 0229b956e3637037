"""Which host of the plan a reading was made on, by what does not change with a name: its disks."""

from __future__ import annotations

from collections.abc import Sequence

from llmhw_provision.errors import InputError
from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import HostPlan, Plan
from llmhw_provision.probes import lsblk
from llmhw_provision.probes.reading import ProbeError


def planned_host(plan: Plan, evidence: Evidence, names: Sequence[str], *, source: str) -> HostPlan:
    """The host of `plan` that `evidence` was read on; `names` are those it was recorded under.

    Disks decide where the plan knows some and the reading lists some; names alone only where it does not. Raises
    InputError for a machine that is not in the plan, or whose disks are those of another host than its name says.
    """
    serials = _serials(evidence)
    named = next((host for name in names for host in plan.hosts if name.partition(".")[0] == host.name), None)
    owners = [host for host in plan.hosts if serials & _wanted(host)]
    if len(owners) == 1 and named in (None, owners[0]):
        return owners[0]
    if named and named in owners:
        return named
    if owners:
        said = f"is named {named.name}" if named else f"is named {names[0]!r}"
        raise InputError(
            f"{source}: the machine {said}, but its disks are those of {', '.join(host.name for host in owners)}",
            "was a name given to another machine, or were drives moved? discover and plan again",
        )
    if named and not (serials and _wanted(named)):
        return named
    if named:
        raise InputError(
            f"{source}: a machine named {named.name} with none of the {len(_wanted(named))} disks planned for it "
            f"(such as {min(_wanted(named))})",
            "another machine with that name; if all its drives were replaced, discover and plan again",
        )
    raise InputError(
        f"{source}: read on {names[0]!r}, which is not in plan.json",
        f"hosts of the plan: {', '.join(host.name for host in plan.hosts)}",
    )


def _serials(evidence: Evidence) -> set[str]:
    try:
        return {block.serial for block in lsblk.blocks(evidence) if block.serial}
    except ProbeError:
        return set()


def _wanted(host: HostPlan) -> set[str]:
    return {disk.serial for disk in host.disks if disk.serial}

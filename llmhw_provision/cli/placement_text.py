"""Groups of GPUs of one machine, each with its work: text and JSON of `size` for a workload with a placement."""

from __future__ import annotations

from typing import Any

from llmhw_provision.errors import InputError
from llmhw_provision.sizing.estimate import Hardware
from llmhw_provision.sizing.layout import describe
from llmhw_provision.sizing.need import Need
from llmhw_provision.sizing.placement import Group, Placed, place
from llmhw_provision.units import memory

_ROLE_WIDTH = 24


def placements(need: Need, machines: list[tuple[str, Hardware]]) -> list[tuple[str, Placed | InputError]]:
    """The groups on each machine, or why there are none; raises InputError when no machine has any."""
    rows: list[tuple[str, Placed | InputError]] = []
    load = need.workload
    for title, machine in machines:
        assert load.placement is not None
        try:
            rows.append((title, place(need.job, need.model, machine, load.layout, load.batch, load.placement)))
        except InputError as error:
            rows.append((title, error))
    problems = [found for _, found in rows if isinstance(found, InputError)]
    if len(problems) == len(rows):
        raise problems[0]
    return rows


def lines(title: str, found: Placed | InputError) -> list[str]:
    """The lines of one machine."""
    if isinstance(found, InputError):
        return [f"{title}: no placement: {found}"]
    text = [f"{title}: {found.verdict}"]
    for group in found.groups:
        text += _group(group)
    host = f"  host memory {memory(found.host_bytes)}"
    if found.hardware.host_memory:
        host += f" of {memory(found.hardware.host_memory)}: {found.host_verdict}"
    return [*text, host]


def gpus(group: Group) -> str:
    """The GPUs of a group as nvidia-smi numbers them."""
    last = group.first + group.count - 1
    return f"GPU {group.first}" if group.count == 1 else f"GPUs {group.first}-{last}"


def _group(group: Group) -> list[str]:
    item = group.estimate
    size = f"{memory(item.device_bytes)} ±{100 * item.device_band / item.device_bytes:.0f} % of {memory(item.limit)}"
    text = f"  {gpus(group):<9} {', '.join(group.roles):<{_ROLE_WIDTH}}  {size:<26}  {item.device_verdict}"
    found = [f"{text}   {describe(item.job, item.layout)}"]
    if len(group.roles) > 1:
        shares = " · ".join(f"{role} {memory(share)}" for role, share in group.shares)
        peak = f", peak at {item.peak.name}"
        found.append(f"{'':12}{shares}{peak}")
    if group.at_once:
        found.append(f"{'':12}holds {group.at_once:,} sequences of {item.job.context:,} tokens at once")
    return found


def placed_data(title: str, found: Placed | InputError) -> dict[str, Any]:
    """One machine as JSON."""
    if isinstance(found, InputError):
        return {"machine": title, "problem": str(found)}
    return {
        "machine": title,
        "verdict": found.verdict,
        "host_bytes": found.host_bytes,
        "host_verdict": found.host_verdict,
        "groups": [_group_data(group) for group in found.groups],
    }


def _group_data(group: Group) -> dict[str, Any]:
    item = group.estimate
    return {
        "roles": list(group.roles),
        "first_gpu": group.first,
        "gpus": group.count,
        "layout": item.layout.__dict__,
        "layout_text": describe(item.job, item.layout),
        "device_bytes": item.device_bytes,
        "device_band_bytes": item.device_band,
        "verdict": item.device_verdict,
        "role_bytes": dict(group.shares),
        "sequences_at_once": group.at_once or None,
    }

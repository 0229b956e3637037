"""What verify holds a host to: the rows of thresholds.yml that concern it, percentages where there is none.

Links are counted after the catalogue's card. Nothing is asked of a virtual machine: it has no speed of its own.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from llmhw_provision.catalogue.loader import NicKind, find, names, sold_machine
from llmhw_provision.catalogue.thresholds import PATH, UNKNOWN_DRIVE, Applies, Row, require_order, thresholds
from llmhw_provision.errors import InputError
from llmhw_provision.expected import ExpectedGpus
from llmhw_provision.machine import Machine
from llmhw_provision.plan.derived import derived
from llmhw_provision.plan.model import HostPlan, Note, Promise, Threshold
from llmhw_provision.site import Site, SiteThreshold

Port = tuple[int, str]


@dataclass(frozen=True)
class _Parts:
    """What the limits of a host depend on; hosts with the same parts have the same limits."""

    gpus: ExpectedGpus | None
    port: Port | None
    drives: tuple[str, ...]
    members: int  # drives of scratch
    machine: str | None
    alike: int  # hosts with the same GPUs


def plan_thresholds(
    hosts: tuple[HostPlan, ...], machines: dict[str, Machine], site: Site
) -> tuple[dict[str, tuple[Threshold, ...]], tuple[Note, ...]]:
    """The limits of each host by its name, and what site.yaml changed; hosts with the same parts are asked once.

    Raises InputError where site.yaml changes a limit that a host does not have, or gives it another unit.
    """
    alike = Counter(_kind(host) for host in hosts)
    known: dict[_Parts, tuple[Threshold, ...]] = {}
    found: dict[str, tuple[Threshold, ...]] = {}
    for host in hosts:
        if host.rehearsal:
            continue
        parts = _parts(host, machines[host.name], alike[_kind(host)])
        if parts not in known:
            known[parts] = tuple(_of(parts))
        found[host.name] = _changed(host.name, known[parts], site)
    return found, _notes(site)


def _kind(host: HostPlan) -> tuple[str, int] | None:
    gpus = host.expected.gpus if host.expected else None
    return (gpus.kind, gpus.count) if gpus else None


def _parts(host: HostPlan, machine: Machine, alike: int) -> _Parts:
    members = sum(disk.purpose == "scratch" for disk in host.disks)
    gpus = host.expected.gpus if host.expected else None
    return _Parts(gpus, _port(host, machine), _drives(host, machine, members), members, host.machine, alike)


def _of(parts: _Parts) -> Iterator[Threshold]:
    """Rows in the order of the table, then those that follow from the catalogue; raises InputError for two of one."""
    rows: dict[str, Threshold] = {}
    for name, profile in thresholds().profiles.items():
        if not _concerns(profile.applies, parts):
            continue
        for metric, row in profile.rows.items():
            if row.times_drives and parts.members < 2:
                continue
            if metric in rows:
                raise InputError(f"{PATH}: {metric} stands in profiles {rows[metric].profile} and {name} of one host")
            rows[metric] = _threshold(metric, row, name, profile.date, parts.members if row.times_drives else 1)
    for item in derived(parts.gpus, parts.port, parts.machine):
        rows.setdefault(item.metric, item)
    yield from (_promised(item, parts.machine) for item in rows.values())


def _threshold(metric: str, row: Row, profile: str, date: str, times: int) -> Threshold:
    return Threshold(
        metric=metric,
        reference=round(row.reference * times, 6),
        warn=None if row.warn is None else round(row.warn * times, 6),
        fail=round(row.fail * times, 6),
        unit=row.unit,
        better=row.better,
        profile=profile,
        method=row.method,
        reason=f"{times} drives, each: {row.reason}" if times > 1 else row.reason,
        source=f"{row.source}; {date}",
    )


def _promised(item: Threshold, machine: str | None) -> Threshold:
    said = tuple(
        Promise(value=one.value, says=one.says, allowed=one.allowed, source=f"{one.source}; {one.date}")
        for one in thresholds().promises
        if one.metric == item.metric and machine in one.machines
    )
    return item.model_copy(update={"promised": said}) if said else item


def _concerns(applies: Applies, parts: _Parts) -> bool:
    if applies.part == "drive":
        return any(kind in applies.kinds for kind in parts.drives)
    if applies.part == "machine":
        return parts.machine in applies.kinds
    if applies.rate_gbit is not None and (parts.port is None or parts.port[0] != applies.rate_gbit):
        return False
    if applies.part == "port":
        return parts.port is not None and parts.port[1] == applies.link_layer
    return parts.gpus is not None and _concerns_gpus(applies, parts.gpus, parts.alike)


def _concerns_gpus(applies: Applies, gpus: ExpectedGpus, alike: int) -> bool:
    if applies.part == "pcie":
        return gpus.pcie_generation == applies.generation
    if applies.part == "board" and gpus.mig:  # instances of MIG do not use NVLink
        return False
    return (
        (not applies.kinds or gpus.kind in applies.kinds)
        and applies.count in (None, gpus.count)
        and applies.nvlink in (None, gpus.nvlink)
        and gpus.count > int(applies.several)
        and alike >= applies.hosts
    )


def _port(host: HostPlan, machine: Machine) -> Port | None:
    """Rate and link layer of the ports that jobs use: as site.yaml expects them, as sold, or as the PCI bus shows."""
    fabric = host.expected.fabric if host.expected else None
    if fabric is not None:
        return fabric.rate_gbit, fabric.link_layer
    if machine.origin == "catalogue":
        nics = sold_machine(machine.name).nics
        return (find("nics", nics.kind, NicKind).rate_gbit, "InfiniBand") if nics else None
    seen = {f"{item.vendor_id}:{item.device_id}" for item in machine.pci if item.class_id == "0207"}
    known = [find("nics", name, NicKind) for name in names("nics")]
    return next(((nic.rate_gbit, "InfiniBand") for nic in known if seen & set(nic.pci_ids)), None)


def _drives(host: HostPlan, machine: Machine, members: int) -> tuple[str, ...]:
    """Kinds of the drives that carry scratch; of a desktop whose only drive carries everything, of that one.

    Drives that are not those the machine was sold with are of no known kind: only their array is judged, by them.
    """
    unknown = (UNKNOWN_DRIVE,) if members > 1 else ()
    if host.machine is None:
        return unknown
    groups = sold_machine(host.machine).disks
    data = [group for group in groups if not group.system] or list(groups)
    sizes = {item.size_bytes for item in host.disks if item.purpose == "scratch"}
    if machine.origin == "observed" and sizes - {group.size for group in data}:
        return unknown
    return tuple(dict.fromkeys(group.kind for group in data))


def _changed(host: str, rows: tuple[Threshold, ...], site: Site) -> tuple[Threshold, ...]:
    """The limits as site.yaml has them."""
    if not site.thresholds:
        return rows
    found = {row.metric: row for row in rows}
    for index, change in enumerate(site.thresholds):
        if change.hosts and host not in change.hosts:
            continue
        if change.metric not in found:
            raise _unknown(index, change, host, tuple(found))
        found[change.metric] = _with(index, change, found[change.metric])
    return tuple(found.values())


def _with(index: int, change: SiteThreshold, row: Threshold) -> Threshold:
    where = f"site.yaml: thresholds[{index}]"
    if change.unit != row.unit:
        raise InputError(f"{where}.unit: {change.metric} is measured in {row.unit}, not {change.unit}")
    try:
        require_order(row.reference, change.warn, change.fail, better=row.better)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None
    return row.model_copy(
        update={
            "warn": change.warn,
            "fail": change.fail,
            "reason": change.reason,
            "source": f"site.yaml instead of {row.fail:g} {row.unit}",
        }
    )


def _unknown(index: int, change: SiteThreshold, host: str, known: tuple[str, ...]) -> InputError:
    near = difflib.get_close_matches(change.metric, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"{host} has: {', '.join(known) or 'none'}"
    return InputError(f"site.yaml: thresholds[{index}].metric: {host} has no limit {change.metric!r}", hint)


def _notes(site: Site) -> tuple[Note, ...]:
    return tuple(
        Note(
            rule="limits of site.yaml replace those of the table",
            choice=f"{change.metric}: fail at {change.fail:g} {change.unit}",
            inputs=(", ".join(change.hosts) or "every host", change.reason),
            source="site.yaml thresholds",
        )
        for change in site.thresholds
    )

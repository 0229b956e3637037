"""The parts of site.yaml that make one system of several hosts: roles, fabric, scheduler; and what contradicts."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, StringConstraints, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from llmhw_provision.documents import Record
from llmhw_provision.hostlist import LIMIT, compress, expand
from llmhw_provision.workload import MemorySize

if TYPE_CHECKING:
    from llmhw_provision.site import Host, Site

HostRole = Literal["controller", "accounting", "login", "compute"]
Hosts = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9,\[\]-]{0,4000}$")]
SwitchName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")]
Pci = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")]


class ManagerHost(Record):
    """A host that runs the subnet manager (opensm)."""

    host: str
    priority: int = Field(ge=0, le=15, description="the highest is master, the other stands by")


class SubnetManagerChoice(Record):
    """Who manages the InfiniBand subnet: the switch, or one or two hosts."""

    switch: bool = Field(default=False, description="a managed switch (or UFM) does it")
    hosts: tuple[ManagerHost, ...] = ()


class Leaf(Record):
    """Nodes that meet at the same leaf switches (one per rail)."""

    name: SwitchName
    hosts: Hosts = Field(description="for example node[001-032]")


class Fabric(Record):
    """The network between nodes; one adapter per GPU is a rail."""

    layer: Literal["infiniband", "roce"] = "infiniband"
    subnet_manager: SubnetManagerChoice = SubnetManagerChoice()
    adapters: tuple[Pci, ...] = Field(
        default=(), description="PCI addresses of the rails in order; default: all NVIDIA adapters of the machine"
    )
    leaves: tuple[Leaf, ...] = Field(default=(), description="default: 32 nodes each, in order of their names")
    traffic_class: int | None = Field(default=None, ge=0, le=255, description="NCCL_IB_TC; RoCE with lossless queues")


class SiteScheduler(Record):
    """Overrides of how Slurm shares the nodes out."""

    reserve_memory: MemorySize | None = Field(
        default=None, description="kept from jobs on every node; default 2 %, at least 4 GiB"
    )
    max_time: Annotated[str, StringConstraints(pattern=r"^(UNLIMITED|([0-9]+-)?[0-9]{1,2}:[0-9]{2}:[0-9]{2})$")] = (
        "7-00:00:00"
    )


def addresses(text: str) -> tuple[str, ...]:
    """Every address in `text`: a plain one, `10.0.0.[1-9]` or `10.0.0.1-10.0.3.255`; raises ValueError for others."""
    first, dash, last = text.partition("-")
    if dash and _is_ip(first) and _is_ip(last):
        low, high = ipaddress.ip_address(first), ipaddress.ip_address(last)
        if low.version != high.version or int(high) < int(low) or int(high) - int(low) >= LIMIT:
            raise ValueError(f"{text[:60]!r} is no range of up to {LIMIT} addresses")
        return tuple(str(low + offset) for offset in range(int(high) - int(low) + 1))
    return expand(text) if {"[", ","} & set(text) else (text,)


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def expanded(entry: Host) -> tuple[Host, ...]:
    """The hosts that one entry of site.yaml stands for; raises ValueError where names and addresses do not match."""
    names = expand(entry.name)
    if len(names) == 1:
        return (entry,)
    given = addresses(entry.address) if entry.address else ("",) * len(names)
    if len(given) != len(names):
        raise ValueError(f"{entry.name} are {len(names)} hosts, {entry.address} are {len(given)} addresses")
    return tuple(
        entry.model_copy(update={"name": name, "address": address}) for name, address in zip(names, given, strict=True)
    )


Wrong = tuple[tuple[int | str, ...], str, str]  # where in site.yaml, what, hint


def refuse(title: str, found: list[Wrong]) -> None:
    """Raises one ValidationError with every problem at its own place."""
    if found:
        raise ValidationError.from_exception_data(
            title,
            [
                InitErrorDetails(
                    type=PydanticCustomError(
                        "missing" if message == "missing" else "value_error",
                        "{message}",
                        {"message": message, "hint": hint},
                    ),
                    loc=where,
                    input=None,
                )
                for where, message, hint in found
            ],
        )


def host_problems(entries: list[tuple[int, Host]]) -> Iterator[Wrong]:
    """Hosts without address, and names or addresses given twice; each host beside the index of its entry."""
    seen: dict[str, int] = {}
    said: set[tuple[int, str]] = set()
    for index, host in entries:
        if not host.address and (index, "missing") not in said:
            said.add((index, "missing"))
            yield ("hosts", index, "address"), "missing", ""
        for what, value in (("name", host.name), ("address", f"{host.address}:{host.port}" if host.address else "")):
            first = seen.setdefault(f"{what} {value}", index) if value else None
            if first is None or (f"{what} {value} {index}" not in seen and first == index):
                seen[f"{what} {value} {index}"] = index
            elif (index, what) not in said:
                said.add((index, what))
                where = "in this entry" if first == index else f"hosts[{first}]"
                yield ("hosts", index, what), f"{value!r} is already {where}", ""


def cluster_problems(site: Site) -> Iterator[Wrong]:
    """Roles, fabric and leaves that contradict each other or name hosts that are not there."""
    names = {host.name for host in site.hosts}
    yield from _role_problems(site)
    if site.fabric is not None:
        yield from _manager_problems(site.fabric, names)
        yield from _leaf_problems(site.fabric, {host.name for host in site.hosts if "compute" in roles_of(host, site)})


def roles_of(host: Host, site: Site) -> tuple[HostRole, ...]:
    """The roles of `host`; a machine alone is everything, one of several computes unless site.yaml says otherwise."""
    if host.roles:
        return host.roles
    return ("controller", "compute") if len(site.hosts) == 1 and site.software.slurm else ("compute",)


def _role_problems(site: Site) -> Iterator[Wrong]:
    holders: dict[str, list[str]] = {}
    for host in site.hosts:
        for role in roles_of(host, site):
            holders.setdefault(role, []).append(host.name)
    controllers = holders.get("controller", [])
    if not site.software.slurm:
        for role in ("controller", "accounting"):
            if role in holders:
                what = f"{holders[role][0]} has the role {role}, and software.slurm is not true"
                yield ("hosts",), what, "write software: {slurm: true}"
        return
    if not controllers:
        yield ("hosts",), "software.slurm: true, and no host has the role controller", "write roles: [controller]"
    if "compute" not in holders:
        yield ("hosts",), "software.slurm: true, and no host has the role compute", "write roles: [compute]"
    if len(controllers) > 2:
        yield ("hosts",), f"{len(controllers)} hosts have the role controller; a primary and one backup are used", ""
    if len(controllers) == 2 and site.storage.shared is None:
        hint = "write storage.shared, or leave one controller"
        yield ("hosts",), f"two controllers ({', '.join(controllers)}) need a shared file system for their state", hint
    if len(holders.get("accounting", [])) > 1:
        yield ("hosts",), f"{len(holders['accounting'])} hosts have the role accounting; one database is used", ""


def _manager_problems(fabric: Fabric, names: set[str]) -> Iterator[Wrong]:
    choice, where = fabric.subnet_manager, ("fabric", "subnet_manager")
    hosts = choice.hosts
    if fabric.layer == "roce":
        if choice.switch or hosts:
            yield where, "Ethernet has no subnet manager; layer is roce", "leave subnet_manager out"
        return
    said = f"{' and '.join(item.host for item in hosts)} run it"
    if choice.switch and hosts:
        hint = "one decides: switch: true, or hosts:"
        yield where, f"the switch manages the subnet, and {said} too: two managers (dell/omnia#422)", hint
    elif not choice.switch and not hosts:
        hint = "write {switch: true}, or {hosts: [{host: NAME, priority: 14}]}"
        yield where, "InfiniBand needs one decision: the switch, or one or two hosts", hint
    if len(hosts) > 2:
        yield (*where, "hosts"), f"{len(hosts)} hosts; a master and one standby are enough", "name two"
    if len({item.priority for item in hosts}) < len(hosts):
        text = f"{' and '.join(item.host for item in hosts)} have the same priority: which is master is chance"
        yield (*where, "hosts"), text, "give the master the higher one, for example 14 and 10"
    for index, item in enumerate(hosts):
        if item.host not in names:
            yield (*where, "hosts", index, "host"), f"{item.host!r} is not one of the hosts", ""
    if len({item.host for item in hosts}) < len(hosts):
        yield (*where, "hosts"), f"{hosts[0].host!r} stands there twice", ""


def _leaf_problems(fabric: Fabric, computes: set[str]) -> Iterator[Wrong]:
    seen: dict[str, str] = {}
    for index, leaf in enumerate(fabric.leaves):
        where: tuple[Any, ...] = ("fabric", "leaves", index, "hosts")
        try:
            names = expand(leaf.hosts)
        except ValueError as error:
            yield where, str(error), ""
            continue
        for name in names:
            if name not in computes:
                yield where, f"{name!r} is not one of the compute hosts", ""
            elif seen.setdefault(name, leaf.name) != leaf.name:
                yield where, f"{name!r} is already at leaf {seen[name]!r}", ""
    left = sorted(computes - set(seen))
    if fabric.leaves and left:
        yield ("fabric", "leaves"), f"{compress(left)} at no leaf", "name every compute host once, or no leaves at all"

"""What of a host each use may take: the system, tmpfs, servers, jobs. The parts add up to the whole host, less than a
MiB aside.

tmpfs is memory that no job can have, so it is not part of what Slurm declares as RealMemory. Memory of a machine that
nobody has read yet is what was sold less the kernel's page structures (64 bytes for each 4 KiB).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from llmhw_provision.errors import DoesNotFit, Problem
from llmhw_provision.machine import Machine
from llmhw_provision.plan.gpu_memory import known_gpus, placed_on
from llmhw_provision.plan.model import HostPlan, Note, Reservation, Use
from llmhw_provision.site import Site
from llmhw_provision.sizing.need import Need
from llmhw_provision.sizing.placement import Group
from llmhw_provision.units import GIB, MIB, memory

_PERCENT, _LEAST = 2, 4 * GIB  # for the system, slurmd, DCGM
_SHARE = 8  # of the cores of a small machine at most one in eight is the system's, but one
_STRUCT_PAGE, _PAGE = 64, 4096  # bytes; Linux Documentation/mm/vmemmap_dedup
_PER_SERVER = 2  # cores beside one for each GPU: API server and engine core
RULE = "each use of a host has its own memory, cores and GPUs"
_SOURCE = (
    "slurm.conf(5), RealMemory and CoreSpecCount; aws/aws-parallelcluster#1517: a node above its real memory is "
    "drained; vLLM docs, architecture: one API server, one engine core, one worker per GPU"
)


@dataclass(frozen=True)
class _Whole:
    """What the parts of a host depend on."""

    memory: int
    unseen: int  # bytes that the kernel takes before anybody can see them
    sockets: int
    cores: int
    gpus: int
    tmpfs: int
    alike: int
    groups: tuple[Group, ...]  # empty: one use for all GPUs
    use: Use
    kept: int | None  # bytes for the system as site.yaml says


def plan_reservations(
    hosts: tuple[HostPlan, ...], machines: dict[str, Machine], need: Need, site: Site
) -> tuple[dict[str, tuple[Reservation, ...]], tuple[Note, ...]]:
    """The parts of each host by its name, and why; raises DoesNotFit for hosts that are too small for their uses."""
    alike = Counter(known_gpus(machines[host.name]) for host in hosts)
    known: dict[tuple[object, ...], tuple[tuple[Reservation, ...], tuple[str, ...], str]] = {}
    found: dict[str, tuple[Reservation, ...]] = {}
    notes: list[Note] = []
    problems: list[Problem] = []
    for host in hosts:
        machine = machines[host.name]
        count = alike[known_gpus(machine)]
        key = (machine.memory_bytes, machine.origin, machine.cpu, machine.gpus, _tmpfs(host), count)
        if key not in known:
            whole = _whole(host, machine, need, site, alike=count)
            parts = _parts(whole)
            known[key] = (parts, _inputs(whole), _lacking(parts))
        parts, inputs, lacking = known[key]
        if lacking:
            problems.append(
                Problem(f"{host.name}: {lacking}", "a smaller hot set, fewer GPUs that serve, or more memory")
            )
        found[host.name] = parts
        text = _text(parts, slurm=site.software.slurm)
        notes.append(Note(host=host.name, rule=RULE, choice=text, inputs=inputs, source=_SOURCE))
    if problems:
        raise DoesNotFit.of(problems)
    return found, tuple(notes)


def _tmpfs(host: HostPlan) -> int:
    return sum(mount.size_mib for mount in host.roles.tmpfs.mounts) * MIB if host.roles.tmpfs else 0


def _whole(host: HostPlan, machine: Machine, need: Need, site: Site, *, alike: int) -> _Whole:
    gpus = known_gpus(machine)
    groups: tuple[Group, ...] = ()
    if gpus is not None and need.workload.placement is not None:
        groups = placed_on(gpus, machine, alike, need).groups
    return _Whole(
        memory=machine.memory_bytes,
        unseen=machine.memory_bytes * _STRUCT_PAGE // _PAGE if machine.origin == "catalogue" else 0,
        sockets=machine.cpu.sockets,
        cores=machine.cpu.cores,
        gpus=sum(item.count for item in machine.gpus),
        tmpfs=_tmpfs(host),
        alike=alike,
        groups=groups,
        use="jobs" if need.job.trains or site.software.slurm else "serving",
        kept=site.scheduler.reserve_memory if site.software.slurm else None,
    )


def _parts(whole: _Whole) -> tuple[Reservation, ...]:
    seen = whole.memory - whole.unseen
    usual = min(max(seen * _PERCENT // 100, _LEAST), seen // 2)
    system = whole.unseen + (usual if whole.kept is None else whole.kept)
    cores = min(whole.sockets, max(1, whole.cores // _SHARE), whole.cores - 1)
    found = [Reservation(use="system", memory_bytes=system, cores=cores)]
    if whole.tmpfs:
        found.append(Reservation(use="tmpfs", memory_bytes=whole.tmpfs))
    serving = [group for group in whole.groups if group.roles == ("serving",)]
    found += [_served(group) for group in serving]
    taken = {index for item in found for index in item.gpus}
    rest = Reservation(
        use=whole.use,
        memory_bytes=(whole.memory - sum(item.memory_bytes for item in found)) // MIB * MIB,
        cores=whole.cores - sum(item.cores for item in found),
        gpus=tuple(index for index in range(whole.gpus) if index not in taken),
    )
    return (*found, rest)


def _served(group: Group) -> Reservation:
    """A server's part: host memory with its weights in the page cache, and the cores of its processes."""
    found = group.estimate
    size = sum(term.size for term in found.host if term.name != "operating system")
    replicas = found.layout.dp
    return Reservation(
        use="serving",
        memory_bytes=-(-size // MIB) * MIB,
        cores=_PER_SERVER * replicas + group.count,
        gpus=tuple(range(group.first, group.first + group.count)),
    )


def _inputs(whole: _Whole) -> tuple[str, ...]:
    lines = [f"memory {memory(whole.memory)}, {whole.cores} cores, {whole.sockets} × socket, {whole.gpus} × GPU"]
    if whole.unseen:
        lines.append(f"page structures {memory(whole.unseen)}: {_STRUCT_PAGE} B for each {_PAGE} B, not yet observed")
    usual = f"{_PERCENT} % of memory, at least {memory(_LEAST)}, at most half"
    said = usual if whole.kept is None else f"{memory(whole.kept)} (scheduler.reserve_memory)"
    lines.append(f"system: {said}; one core per socket")
    for group in whole.groups:
        terms = (f"{term.name} {memory(term.size)}" for term in group.estimate.host if term.name != "operating system")
        lines.append(f"{', '.join(group.roles)}: {'; '.join(terms)}")
    return tuple(lines)


def _lacking(parts: tuple[Reservation, ...]) -> str:
    """What the last use is left without; empty where every use has something."""
    rest = parts[-1]
    said = ", ".join(f"{item.use} {memory(item.memory_bytes)}{_and_cores(item.cores)}" for item in parts[:-1])
    if rest.memory_bytes < MIB:
        return f"{said} leave no memory for {rest.use}"
    return f"{said} leave no core for {rest.use}" if rest.cores < 1 else ""


def _and_cores(count: int) -> str:
    return f" and {count} core{'s' * (count != 1)}" if count else ""


def _text(parts: tuple[Reservation, ...], *, slurm: bool) -> str:
    words = []
    for item in parts:
        text = f"{item.use} {memory(item.memory_bytes)}"
        text += f", {item.cores} core{'s' * (item.cores != 1)}" if item.cores else ""
        text += f", GPU {_range(item.gpus)}" if item.gpus else ""
        words.append(text)
    if slurm:
        words.append(f"RealMemory of Slurm {parts[-1].memory_bytes // MIB} MiB")
    return "; ".join(words)


def _range(gpus: tuple[int, ...]) -> str:
    """`0-3`, or `0, 2` where there are gaps."""
    if len(gpus) > 1 and gpus == tuple(range(gpus[0], gpus[-1] + 1)):
        return f"{gpus[0]}-{gpus[-1]}"
    return ", ".join(str(index) for index in gpus)

"""A plan in words: one screen of what will be done, and every choice with its rule, inputs and source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from llmhw_provision.cli.versions_text import explained
from llmhw_provision.hostlist import compress
from llmhw_provision.plan.cluster_model import Cluster
from llmhw_provision.plan.model import ExpectedDisk, HostPlan, Note, Plan, Threshold
from llmhw_provision.plan.stack import Stack
from llmhw_provision.units import disk

_SHOWN = 3  # hosts that are named of many


def summary(plan: Plan, path: Path) -> str:
    """One screen: what will be created, erased, kept, and why."""
    lines = [f"site {plan.site} · {len(plan.hosts)} host{'s' * (len(plan.hosts) != 1)} · plan {plan.identity}"]
    lines.append(f"for {plan.workload}")
    if plan.origin == "purchase":
        lines.append("PURCHASE PLAN from catalogue machines: apply refuses it until discover has read the machines")
    notes: dict[str, list[Note]] = {}
    for note in plan.notes:
        notes.setdefault(note.host, []).append(note)
    lines += _cluster(plan.cluster, notes.get("", [])) if plan.cluster else []
    alike: dict[tuple[str, ...], list[HostPlan]] = {}
    for host in plan.hosts:
        alike.setdefault(tuple(_said_of(host, plan.stacks, notes.get(host.name, []))), []).append(host)
    for said, hosts in alike.items():
        names, address = compress(host.name for host in hosts), hosts[0].address
        where = address if len(hosts) == 1 else f"{len(hosts)} hosts alike"
        lines += [f"\n{names}  {where}  {said[0]}", *said[1:]]
    lines.append(f"\nwritten: {path}, {path.parent / 'inventory'}")
    return "\n".join(lines)


def _cluster(cluster: Cluster, notes: list[Note]) -> list[str]:
    """Who does what, and why."""
    roles = [f"controller {', '.join(cluster.controllers)}"] if cluster.controllers else []
    roles += [f"accounting {cluster.accounting}"] if cluster.accounting else []
    roles += [f"login {cluster.logins}"] if cluster.logins else []
    found = [f"\ncluster  {'; '.join((*roles, f'compute {cluster.computes}'))}"]
    found += [f"  files    {', '.join(cluster.files)} in plan.json; the role that installs Slurm is to come"] * bool(
        cluster.files
    )
    return [*found, *(f"  why      {note.rule}: {note.choice}" for note in notes)]


def _said_of(host: HostPlan, stacks: tuple[Stack, ...], notes: list[Note]) -> Iterator[str]:
    """What is said of a host without its name and address; hosts alike in it are said together."""
    mark = "  REHEARSAL (virtual machine)" if host.rehearsal else ""
    yield f"{host.os or host.machine or ''}{mark}"
    yield from (f"  creates  {text}" for text in host.creates)
    yield from (f"  ERASES   {text}" for text in host.erases)
    kept = [item for item in host.disks if item.purpose in ("system", "kept")]
    yield from (f"  keeps    {_name(item)}: {item.reason}" for item in kept)
    for stack in (stack for stack in stacks if host.name in stack.hosts):
        yield f"  versions {_versions(stack)}"
        yield from (f"  warning  {text}" for text in stack.warnings)
    yield from (f"  why      {note.rule}: {note.choice}" for note in notes)


def _versions(stack: Stack) -> str:
    """`driver 580.159.03 (open), CUDA 13.0, train-lf on CPython 3.12`."""
    parts = [f"driver {stack.driver.version} ({stack.driver.modules})"] if stack.driver else []
    parts += [f"fabric manager {stack.fabric_manager}"] if stack.fabric_manager else []
    parts += [f"CUDA {stack.cuda}"] if stack.cuda else []
    parts += [f"Slurm {stack.slurm}"] if stack.slurm else []
    parts += [f"{item.name} on CPython {item.python}" for item in stack.environments]
    return f"{', '.join(parts) or 'nothing to choose'}; why: llmhw-provision matrix --site"


def _name(item: ExpectedDisk) -> str:
    """Model and serial; a virtual disk may have neither."""
    return f"{item.model} {item.serial}".strip() or f"a disk of {disk(item.size_bytes)}"


def explain(plan: Plan) -> str:
    """Every choice of the plan: rule, what was chosen, inputs, source; hosts that share a choice share its lines."""
    blocks = [f"site {plan.site} · plan {plan.identity}\nfor {plan.workload}"]
    for names, notes in _by_hosts(plan):
        blocks.append("\n".join([shortened(names), *(line for note in notes for line in _note(note))]))
    blocks += [f"versions of {explained(stack)}" for stack in plan.stacks]
    blocks += ["\n".join([f"limits of {shortened(names)}", *_limits(rows)]) for names, rows in _limited(plan)]
    return "\n\n".join(blocks)


def _by_hosts(plan: Plan) -> list[tuple[tuple[str, ...], list[Note]]]:
    """Notes by the hosts that share them, in the order in which they were first made; the site's own first."""
    hosts: dict[Note, list[str]] = {}
    for note in plan.notes:
        hosts.setdefault(note.model_copy(update={"host": ""}), []).append(note.host)
    found: dict[tuple[str, ...], list[Note]] = {}
    for note, names in hosts.items():
        found.setdefault(tuple(name for name in names if name), []).append(note)
    return sorted(found.items(), key=lambda item: bool(item[0]))


def _note(note: Note) -> list[str]:
    lines = [f"  {note.rule}", f"    → {note.choice}"]
    lines += [f"      from {text}" for text in note.inputs]
    return [*lines, f"      source: {note.source}"] if note.source else lines


def _limited(plan: Plan) -> list[tuple[tuple[str, ...], tuple[Threshold, ...]]]:
    """Limits with the hosts that share them."""
    found: dict[tuple[Threshold, ...], list[str]] = {}
    for host in plan.hosts:
        if host.thresholds:
            found.setdefault(host.thresholds, []).append(host.name)
    return [(tuple(names), rows) for rows, names in found.items()]


def _limits(rows: tuple[Threshold, ...]) -> Iterator[str]:
    for row in rows:
        worse = "below" if row.better == "more" else "above"
        steps = f"warns {worse} {row.warn:g}, fails {worse} {row.fail:g}" if row.warn else f"fails {worse} {row.fail:g}"
        yield f"  {row.metric}: {steps} {row.unit} (reference {row.reference:g}; {row.profile})"
        yield f"      by {row.method}"
        yield f"      because {row.reason}"
        yield f"      source: {row.source}"
        for promise in row.promised:
            yield f'      promised: {promise.value:g} {row.unit}, "{promise.says}" ({promise.source})'
            yield f"      physics: {promise.allowed}"


def shortened(names: tuple[str, ...]) -> str:
    """`site`, `a`, `a, b`, or `a, b, c and 1,021 more`."""
    if not names:
        return "site"
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest:,} more" if rest > 0 else "")

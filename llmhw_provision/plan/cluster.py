"""The hosts of a site as one system: who does what, rails, subnet manager, Slurm, shared storage."""

from __future__ import annotations

from llmhw_provision.errors import InputError, Problem
from llmhw_provision.hostlist import compress
from llmhw_provision.machine import Machine
from llmhw_provision.plan import slurm
from llmhw_provision.plan.cluster_model import Cluster, HostNode, SharedMount, SlurmNode
from llmhw_provision.plan.fabric import (
    adapters_are_rails,
    fabric_of,
    leaves_of,
    nccl_text,
    rails_of,
    require_port,
)
from llmhw_provision.plan.model import Note, Reservation
from llmhw_provision.plan.stack import Stack
from llmhw_provision.site import Host, Site
from llmhw_provision.site_cluster import HostRole, roles_of

STATE = "/var/lib/slurm/slurmctld"


def host_roles(site: Site) -> dict[str, tuple[HostRole, ...]]:
    """Every host's roles in the cluster."""
    return {host.name: roles_of(host, site) for host in site.hosts}


def computes(host: Host, site: Site) -> bool:
    """Whether jobs run on `host`; every other host gets no scratch, tmpfs or environment."""
    return "compute" in roles_of(host, site)


def plan_nodes(
    site: Site, machines: dict[str, Machine], parts: dict[str, tuple[Reservation, ...]]
) -> dict[str, HostNode]:
    """What each host is in the cluster, equal hosts the same object; empty where the site asks for no cluster.

    `parts` are the reservations of each host, of which the last is for jobs.

    Raises InputError with the problems of all hosts.
    """
    if not (site.software.slurm or site.fabric or site.storage.shared):
        return {}
    roles, known, found = host_roles(site), dict[tuple[object, ...], HostNode](), dict[str, HostNode]()
    problems: list[Problem] = []
    for name, reserved in parts.items():
        machine, jobs = machines[name], reserved[-1]
        kind = (id(machine), roles[name], jobs)  # catalogue machines of a kind are one object
        try:
            if kind not in known:
                known[kind] = _node(name, machine, roles[name], jobs, site)
        except InputError as error:
            problems += error.problems
            continue
        found[name] = known[kind]
    for manager in site.fabric.subnet_manager.hosts if site.fabric else ():
        try:
            require_port(manager.host, machines[manager.host])
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError.of(problems)
    return found


def _node(host: str, machine: Machine, roles: tuple[HostRole, ...], jobs: Reservation, site: Site) -> HostNode:
    if "compute" not in roles:
        return HostNode(roles=roles)
    fabric = site.fabric
    return HostNode(
        roles=roles,
        rails=rails_of(host, machine, fabric) if fabric and machine.gpus else (),
        nccl=nccl_text(fabric) if machine.gpus else "",
        nccl_hca="all" if fabric is None or adapters_are_rails(machine, fabric) else "rails",
        slurm=slurm.node_of(machine, jobs) if site.software.slurm else None,
    )


def plan_cluster(
    site: Site, nodes: dict[str, HostNode], stacks: tuple[Stack, ...], *, mixed: bool = False
) -> tuple[Cluster | None, tuple[Note, ...]]:
    """The cluster with Slurm's files, and why; None where the site asks for none.

    `mixed`: servers have GPUs of their own beside those of jobs. Raises InputError where hosts would run different
    versions of Slurm.
    """
    if not nodes:
        return None, ()
    by_role = {
        role: tuple(name for name, node in nodes.items() if role in node.roles)
        for role in ("controller", "accounting", "login", "compute")
    }
    rails = max((len(node.rails) for node in nodes.values()), default=0)
    shared = site.storage.shared
    leaves = leaves_of(site.fabric, by_role["compute"])
    found = Cluster(
        controllers=by_role["controller"],
        accounting="".join(by_role["accounting"]),
        logins=compress(by_role["login"]),
        computes=compress(by_role["compute"]),
        fabric=fabric_of(site.fabric, rails) if site.fabric and rails else None,
        shared=SharedMount(**shared.model_dump()) if shared else None,
        files=slurm.files(_facts(site, nodes, by_role, stacks, leaves, mixed=mixed)) if site.software.slurm else {},
    )
    return found, tuple(_notes(site, found, nodes, leaves))


def _facts(
    site: Site,
    nodes: dict[str, HostNode],
    by_role: dict[str, tuple[str, ...]],
    stacks: tuple[Stack, ...],
    leaves: dict[str, tuple[str, ...]],
    *,
    mixed: bool,
) -> slurm.SlurmFacts:
    versions = {stack.slurm: compress(stack.hosts) for stack in stacks if stack.slurm}
    if len(versions) > 1:
        said = ", ".join(f"{version} on {hosts}" for version, hosts in sorted(versions.items()))
        raise InputError(
            f"one version of Slurm for all hosts; the plan has {said}", "use one distribution, or sources.slurm"
        )
    address = {host.name: host.address for host in site.hosts}
    shared = site.storage.shared
    detects = {stack.gres for stack in stacks if stack.gres and stack.gpu}
    # what is detected is all GPUs: those of servers would be given to jobs
    detect = next(iter(detects)) if len(detects) == 1 and not mixed else "files"
    return slurm.SlurmFacts(
        cluster=site.site,
        detect=detect,
        controllers=tuple((name, address[name]) for name in by_role["controller"]),
        accounting="".join(by_role["accounting"]),
        state=f"{shared.mount}/slurm/slurmctld" if shared and len(by_role["controller"]) > 1 else STATE,
        max_time=site.scheduler.max_time,
        nodes={name: node.slurm for name, node in nodes.items() if node.slurm},
        leaves=leaves,
    )


def _notes(site: Site, cluster: Cluster, nodes: dict[str, HostNode], leaves: dict[str, tuple[str, ...]]) -> list[Note]:
    found = []
    fabric = cluster.fabric
    if fabric is not None:
        who = " then ".join(f"{item.host} ({item.priority})" for item in fabric.managers)
        choice = {"switch": "the switch", "hosts": f"opensm on {who}", "none": "none: Ethernet"}[fabric.subnet_manager]
        found.append(
            Note(
                rule="one subnet manager, or one with a standby",
                choice=choice,
                source="fabric.subnet_manager in site.yaml; dell/omnia#422 (two managers flap)",
            )
        )
        largest = max(map(len, leaves.values()))
        found.append(
            Note(
                rule="a GPU's rail is the adapter on its own NUMA node, the same index on every node",
                choice=f"{fabric.rails} rails; {len(leaves)} leaf groups of up to {largest} nodes",
                inputs=tuple(f"{name}: {compress(hosts)}" for name, hosts in leaves.items()),
                source="site.yaml" if site.fabric and site.fabric.leaves else _SUPERPOD,
            )
        )
    if any(node.nccl for node in nodes.values()):
        found.append(
            Note(
                rule="NCCL is told what to leave out, not which interface to use",
                choice="exclusion form for sockets; adapters by PCI address, named on the host; GID index left to NCCL",
                source="aws/deep-learning-containers#6469; NVIDIA/nccl#769; NCCL environment variables",
            )
        )
    for node, names in slurm.alike({name: node.slurm for name, node in nodes.items() if node.slurm}):
        found.append(_jobs_note(node, names))
    if cluster.shared is not None:
        text = f"{cluster.shared.type} {cluster.shared.source} at {cluster.shared.mount} on every host"
        found.append(Note(rule="storage that all hosts share", choice=text, source="storage.shared in site.yaml"))
    return found


_SUPERPOD = "NVIDIA DGX SuperPOD reference architecture (H100): a scalable unit is 32 nodes, one leaf per rail"


def _jobs_note(node: SlurmNode, names: tuple[str, ...]) -> Note:
    return Note(
        rule="Slurm gives to jobs what the reservations of a host leave to them, never more than slurmd finds",
        choice=f"{compress(names)}: {node.real_memory_mib} MiB, {len(node.gpus)} × GPU, {node.kept_cores} cores kept",
        inputs=("the host's last reservation; the cores of all others are specialized (CoreSpecCount)",),
        source="slurm.conf(5); aws/aws-parallelcluster#1517 (a node above its real memory is drained)",
    )

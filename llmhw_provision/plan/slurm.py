"""Slurm's decisions and files: pure text from what is known of the nodes. The role that installs Slurm takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from llmhw_provision.hostlist import compress
from llmhw_provision.machine import Machine
from llmhw_provision.plan.cluster_model import SlurmNode
from llmhw_provision.plan.fabric import gpu_places
from llmhw_provision.plan.gpu_memory import known_gpus
from llmhw_provision.plan.model import Reservation
from llmhw_provision.units import MIB

_FORM_FACTOR = re.compile(r"-(sxm|pcie|nvl)\b.*$")
BOOT_S = 1800  # an eight-GPU server takes up to half an hour from reboot to slurmd


@dataclass(frozen=True)
class SlurmFacts:
    """Everything the files of a cluster follow from."""

    cluster: str
    detect: str  # AutoDetect=... or explicit files, as the catalogue says for the distribution
    controllers: tuple[tuple[str, str], ...]  # name and address, primary first
    accounting: str
    state: str  # folder of slurmctld's state; on shared storage where there are two controllers
    max_time: str
    nodes: Mapping[str, SlurmNode]
    leaves: Mapping[str, tuple[str, ...]]


def node_of(machine: Machine, jobs: Reservation) -> SlurmNode:
    """How slurm.conf declares `machine`, of which jobs may have `jobs`; the cores of all other uses are specialized.

    Source: slurm.conf(5), RealMemory and CoreSpecCount.
    """
    cpu, gpus = machine.cpu, known_gpus(machine)
    even = cpu.cores % cpu.sockets == 0 and cpu.threads % cpu.cores == 0
    kept = cpu.cores - jobs.cores
    return SlurmNode(
        cpus=cpu.threads,
        sockets=cpu.sockets if even else None,
        cores_per_socket=cpu.cores // cpu.sockets if even else None,
        threads_per_core=cpu.threads // cpu.cores if even else None,
        kept_cores=kept if even else kept * -(-cpu.threads // cpu.cores),
        real_memory_mib=jobs.memory_bytes // MIB,
        gpu_type=gpu_type(gpus.kind) if gpus and jobs.gpus else "",
        gpus=tuple(place for place in gpu_places(machine) if place.index in jobs.gpus) if gpus else (),
    )


def gpu_type(kind: str) -> str:
    """TYPE of gpu:TYPE:N: a part of the driver's name in lower case, as gres.conf(5) asks when it is detected."""
    return _FORM_FACTOR.sub("", kind).replace("-", "_")


def files(facts: SlurmFacts) -> dict[str, str]:
    """The files of /etc/slurm by name; the same on every host."""
    found = {"slurm.conf": slurm_conf(facts), "gres.conf": gres_conf(facts), "cgroup.conf": CGROUP}
    return found | ({"topology.conf": topology_conf(facts.leaves)} if len(facts.nodes) > 1 else {})


HEAD = "# Written by llmhw-provision plan.\n"
CGROUP = (
    HEAD
    + """CgroupPlugin=autodetect
ConstrainCores=yes
ConstrainDevices=yes
ConstrainRAMSpace=yes
ConstrainSwapSpace=yes
AllowedSwapSpace=0
"""
)
# slurm.conf(5), cgroup.conf(5); PropagateResourceLimitsExcept: ai4d-iasc/trixie#81; TaskPlugin: NVIDIA/pyxis#47
_SETTINGS = """SlurmUser=slurm
AuthType=auth/munge
SlurmctldParameters=enable_configless
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
SlurmctldTimeout=300
SlurmdTimeout=300
UnkillableStepTimeout=180
ReturnToService=1
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup,task/affinity
JobAcctGatherType=jobacct_gather/cgroup
PrologFlags=Alloc,Contain
PropagateResourceLimitsExcept=MEMLOCK,NOFILE
LaunchParameters=use_interactive_step
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
"""


def slurm_conf(facts: SlurmFacts) -> str:
    """slurm.conf."""
    gpus = any(node.gpus for node in facts.nodes.values())
    lines = [f"ClusterName={facts.cluster}"]
    lines += [f"SlurmctldHost={name}({address})" for name, address in facts.controllers]
    lines.append(f"StateSaveLocation={facts.state}")
    lines += _SETTINGS.splitlines()
    lines.append(f"ResumeTimeout={BOOT_S}")
    lines += ["TopologyPlugin=topology/tree"] if len(facts.nodes) > 1 else []
    lines += ["GresTypes=gpu"] if gpus else []
    if facts.accounting:
        lines += ["AccountingStorageType=accounting_storage/slurmdbd", f"AccountingStorageHost={facts.accounting}"]
        lines += ["AccountingStorageTRES=gres/gpu"] if gpus else []
    groups = alike(facts.nodes)
    lines += ["", *(_node_line(names, node) for node, names in groups), "", *_partitions(groups, facts.max_time)]
    return HEAD + "\n".join(lines) + "\n"


def alike(nodes: Mapping[str, SlurmNode]) -> list[tuple[SlurmNode, tuple[str, ...]]]:
    """Nodes that are declared alike, with their names, in order of appearance."""
    found: list[tuple[SlurmNode, list[str]]] = []
    for name, node in nodes.items():
        names = next((names for other, names in found if other == node), None)
        if names is None:
            found.append((node, [name]))
        else:
            names.append(name)
    return [(node, tuple(names)) for node, names in found]


def _node_line(names: tuple[str, ...], node: SlurmNode) -> str:
    parts = [f"NodeName={compress(names)}", f"CPUs={node.cpus}"]
    if node.sockets:
        parts += [
            "Boards=1",
            f"SocketsPerBoard={node.sockets}",
            f"CoresPerSocket={node.cores_per_socket}",
            f"ThreadsPerCore={node.threads_per_core}",
        ]
    parts += [f"CoreSpecCount={node.kept_cores}"] if node.kept_cores else []
    parts.append(f"RealMemory={node.real_memory_mib}")
    parts += [f"Gres=gpu:{node.gpu_type}:{len(node.gpus)}"] if node.gpus else []
    return " ".join((*parts, "State=UNKNOWN"))


def _partitions(groups: list[tuple[SlurmNode, tuple[str, ...]]], max_time: str) -> list[str]:
    """One partition per kind of GPU, the largest first and default; a GPU brings its share of CPUs and memory."""
    kinds: dict[str, list[tuple[SlurmNode, tuple[str, ...]]]] = {}
    for node, names in groups:
        kinds.setdefault(node.gpu_type or "cpu", []).append((node, names))
    ranked = sorted(kinds.items(), key=lambda item: (item[0] == "cpu", -sum(len(names) for _, names in item[1])))
    found = []
    for index, (kind, members) in enumerate(ranked):
        hosts = compress(name for _, group in members for name in group)
        parts = [f"PartitionName={kind}", f"Nodes={hosts}", f"Default={'NO' if index else 'YES'}"]
        parts += [f"MaxTime={max_time}", "OverSubscribe=NO", "State=UP"]
        if kind != "cpu":
            parts.append(f"DefMemPerGPU={min(node.real_memory_mib // len(node.gpus) for node, _ in members)}")
            parts.append(f"DefCpuPerGPU={min(_cpus(node, len(node.gpus)) for node, _ in members)}")
        else:
            parts.append(f"DefMemPerCPU={max(min(node.real_memory_mib // _cpus(node, 1) for node, _ in members), 1)}")
        found.append(" ".join(parts))
    return found


def _cpus(node: SlurmNode, shares: int) -> int:
    """Hardware threads in one of equal shares of what jobs may use, in whole cores: Slurm gives no less than a core."""
    threads = node.threads_per_core or 1
    return max((node.cpus // threads - node.kept_cores) // shares, 1) * threads


def gres_conf(facts: SlurmFacts) -> str:
    """gres.conf: detection where this Slurm can, else device files with the cores beside them.

    Never both: a node drains where they disagree (gres.conf(5)).
    """
    if facts.detect.startswith("AutoDetect="):
        return HEAD + facts.detect + "\n"
    lines = []
    for node, names in alike(facts.nodes):
        runs: list[list[int]] = []
        for place in node.gpus:
            if runs and node.gpus[runs[-1][0]].cores == place.cores:
                runs[-1].append(place.index)
            else:
                runs.append([place.index])
        for run in runs:
            device = f"/dev/nvidia{run[0]}" if len(run) == 1 else f"/dev/nvidia[{run[0]}-{run[-1]}]"
            cores = f" Cores={node.gpus[run[0]].cores}" if node.gpus[run[0]].cores else ""
            lines.append(f"NodeName={compress(names)} Name=gpu Type={node.gpu_type} File={device}{cores}")
    return HEAD + "".join(line + "\n" for line in lines)


def topology_conf(leaves: Mapping[str, tuple[str, ...]]) -> str:
    """topology.conf: a leaf group is one switch to Slurm, as its nodes meet there on every rail; a spine above."""
    lines = [f"SwitchName={name} Nodes={compress(hosts)}" for name, hosts in leaves.items()]
    spine = next(name for name in ("spine", "spine0") if name not in leaves)
    lines += [f"SwitchName={spine} Switches={compress(leaves)}"] if len(leaves) > 1 else []
    return HEAD + "\n".join(lines) + "\n"

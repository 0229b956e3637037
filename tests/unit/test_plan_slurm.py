"""Slurm's decisions and files."""

from __future__ import annotations

import pytest

from llmhw_provision.machine import Cpu, Machine
from llmhw_provision.plan import slurm
from llmhw_provision.plan.cluster_model import SlurmNode
from llmhw_provision.plan.model import Reservation
from llmhw_provision.plan.purchase import catalogue_machine
from llmhw_provision.plan.slurm import SlurmFacts
from llmhw_provision.units import GIB, MIB
from tests.unit.clusters import head
from tests.unit.machines import machine


def node(of: Machine, memory: int = 100 * GIB, kept: int = 0, gpus: tuple[int, ...] = tuple(range(8))) -> SlurmNode:
    """The node of a machine of which jobs have all cores but `kept`."""
    return slurm.node_of(of, Reservation(use="jobs", memory_bytes=memory, cores=of.cpu.cores - kept, gpus=gpus))


BIG = node(catalogue_machine("alphapro660"), 1900 * GIB)
SMALL = node(catalogue_machine("ga660m"), 900 * GIB)
CPU_ONLY = node(head())


def facts(detect: str = "AutoDetect=nvidia", **changes: object) -> SlurmFacts:
    nodes = {"big1": BIG, "big2": BIG, "small1": SMALL, "cpu1": CPU_ONLY}
    given = {
        "cluster": "lab",
        "detect": detect,
        "controllers": (("ctl", "10.0.0.1"),),
        "accounting": "",
        "state": "/var/lib/slurm/slurmctld",
        "max_time": "1-00:00:00",
        "nodes": nodes,
        "leaves": {"leaf1": ("big1", "big2"), "leaf2": ("small1", "cpu1")},
    }
    return SlurmFacts(**{**given, **changes})  # type: ignore[arg-type]


def lines(text: str, start: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(start)]


def test_real_memory_is_never_rounded_up() -> None:
    assert node(machine(), 100 * GIB + MIB - 1).real_memory_mib == 100 * 1024


def test_cores_of_other_uses_are_specialized_and_a_gpu_brings_whole_cores_of_the_rest() -> None:
    big = node(catalogue_machine("alphapro660"), kept=2)
    text = slurm.slurm_conf(facts(nodes={"a": big}))
    assert "CPUs=512 Boards=1 SocketsPerBoard=2 CoresPerSocket=128 ThreadsPerCore=2 CoreSpecCount=2 " in text
    assert "DefCpuPerGPU=62\n" in text, "254 cores / 8 = 31 whole ones: 64 threads each would leave one GPU without"
    assert "CoreSpecCount" not in slurm.slurm_conf(facts())


def test_gpus_of_servers_are_none_of_slurms() -> None:
    mixed = facts("files", nodes={"a": node(catalogue_machine("alphapro660"), gpus=(0, 1, 2, 3, 4, 5))})
    assert "Gres=gpu:h100:6 " in slurm.slurm_conf(mixed)
    assert slurm.gres_conf(mixed).splitlines()[1:] == [
        "NodeName=a Name=gpu Type=h100 File=/dev/nvidia[0-3] Cores=0-127",
        "NodeName=a Name=gpu Type=h100 File=/dev/nvidia[4-5] Cores=128-255",
    ]


def test_a_processor_of_unequal_cores_is_declared_by_its_threads() -> None:
    hybrid = machine().model_copy(update={"cpu": Cpu(model="i9", sockets=1, cores=24, threads=32)})
    found = node(hybrid, kept=1)
    assert (found.cpus, found.sockets, found.threads_per_core, found.kept_cores) == (32, None, None, 2)
    assert "Sockets" not in slurm.slurm_conf(facts(nodes={"a": found}))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("h100-sxm", "nvidia_h100_80gb_hbm3"),
        ("h100-nvl", "nvidia_h100_nvl"),
        ("a100-sxm-80", "nvidia_a100-sxm4-80gb"),
        ("rtx-5090", "nvidia_geforce_rtx_5090"),
        ("rtx-6000-ada", "nvidia_rtx_6000_ada_generation"),
        ("l40s", "nvidia_l40s"),
    ],
)
def test_the_type_is_a_part_of_the_name_that_the_driver_gives(kind: str, name: str) -> None:
    assert slurm.gpu_type(kind) in name


def test_nodes_that_are_alike_share_a_line() -> None:
    found = lines(slurm.slurm_conf(facts()), "NodeName=")
    assert found[0] == (
        f"NodeName=big[1-2] CPUs=512 Boards=1 SocketsPerBoard=2 CoresPerSocket=128 ThreadsPerCore=2 "
        f"RealMemory={BIG.real_memory_mib} Gres=gpu:h100:8 State=UNKNOWN"
    )
    assert [line.split()[0] for line in found] == ["NodeName=big[1-2]", "NodeName=small1", "NodeName=cpu1"]
    assert "Gres" not in found[2]


def test_a_partition_for_each_kind_of_gpu_and_one_default() -> None:
    found = lines(slurm.slurm_conf(facts()), "PartitionName=")
    assert [line.split()[:3] for line in found] == [
        ["PartitionName=h100", "Nodes=big[1-2],small1", "Default=YES"],
        ["PartitionName=cpu", "Nodes=cpu1", "Default=NO"],
    ]
    share = min(BIG.real_memory_mib // 8, SMALL.real_memory_mib // 4)
    assert f"DefMemPerGPU={share} DefCpuPerGPU=32" in found[0]


def test_what_public_cases_ask_of_slurm_conf() -> None:
    text = slurm.slurm_conf(facts(accounting="db", controllers=(("a", "10.0.0.1"), ("b", "10.0.0.2"))))
    found = set(text.splitlines())
    assert {
        "SlurmctldHost=a(10.0.0.1)",
        "SlurmctldHost=b(10.0.0.2)",
        "PropagateResourceLimitsExcept=MEMLOCK,NOFILE",  # ai4d-iasc/trixie#81
        "TaskPlugin=task/cgroup,task/affinity",  # NVIDIA/pyxis#47
        "SelectTypeParameters=CR_Core_Memory",
        "GresTypes=gpu",
        "AccountingStorageHost=db",
        "AccountingStorageTRES=gres/gpu",
        "TopologyPlugin=topology/tree",
    } <= found
    assert "ConstrainDevices=yes" in slurm.CGROUP
    assert "Accounting" not in slurm.slurm_conf(facts())


def test_gres_is_detected_or_listed_never_both() -> None:
    assert slurm.gres_conf(facts()).splitlines()[1:] == ["AutoDetect=nvidia"]
    assert slurm.gres_conf(facts("files")).splitlines()[1:] == [
        "NodeName=big[1-2] Name=gpu Type=h100 File=/dev/nvidia[0-3] Cores=0-127",
        "NodeName=big[1-2] Name=gpu Type=h100 File=/dev/nvidia[4-7] Cores=128-255",
        "NodeName=small1 Name=gpu Type=h100 File=/dev/nvidia[0-3]",
    ]


def test_topology_has_a_spine_above_several_leaves() -> None:
    assert slurm.topology_conf(facts().leaves).splitlines()[1:] == [
        "SwitchName=leaf1 Nodes=big[1-2]",
        "SwitchName=leaf2 Nodes=small1,cpu1",
        "SwitchName=spine Switches=leaf[1-2]",
    ]
    assert "spine" not in slurm.topology_conf({"leaf1": ("big1",)})
    assert "SwitchName=spine0 Switches=spine,b" in slurm.topology_conf({"spine": ("x",), "b": ("y",)})


def test_a_node_alone_has_no_topology() -> None:
    alone = facts(nodes={"big1": BIG})
    assert "topology.conf" not in slurm.files(alone)
    assert "Topology" not in slurm.slurm_conf(alone)

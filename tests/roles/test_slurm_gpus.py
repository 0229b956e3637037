"""Slurm installed from Debian in three containers, with the files of a plan: nodes with eight GPUs, and jobs with two.

The GPUs are device nodes without a driver. Changed for the test is what small containers cannot do: they play nodes
of 512 CPUs (config_overrides), and processes are tracked without control groups.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmhw_provision.documents import check
from llmhw_provision.plan.build import build_plan
from llmhw_provision.plan.model import Plan
from llmhw_provision.site import Site
from tests.containers.container import Container
from tests.containers.lab import Lab
from tests.unit.clusters import cluster_data, head, job

pytestmark = pytest.mark.container

CONTROLLER, NODES = "ctl-01", ("ap660-0001", "ap660-0002")
_NVIDIA = 195  # major number of its device nodes, Linux Documentation/admin-guide/devices.txt
_CHANGED = {
    r"CgroupPlugin=.*": "CgroupPlugin=cgroup/v1",  # in a namespace Slurm 22.05 sees both kinds of control groups
    r"ProctrackType=.*": "ProctrackType=proctrack/linuxproc",
    r"TaskPlugin=.*": "TaskPlugin=task/none",
    r"JobAcctGatherType=.*": "JobAcctGatherType=jobacct_gather/none",
    r"PrologFlags=.*": "SlurmdParameters=config_overrides",
}
_INSTALL = "export DEBIAN_FRONTEND=noninteractive; apt-get update -qq && apt-get install -qq --no-install-recommends "


def plan_of(addresses: dict[str, str]) -> Plan:
    """Two AlphaPro660 and their controller."""
    hosts = [{"name": name, "address": addresses[name], "machine": "alphapro660"} for name in NODES]
    hosts.append({"name": CONTROLLER, "address": addresses[CONTROLLER], "roles": ["controller"]})
    data = cluster_data(2, hosts=hosts, site="lab")
    return build_plan(job(), check(data, Site, path=Path("site.yaml")), {CONTROLLER: head()})


def adapted(files: dict[str, str]) -> dict[str, str]:
    for pattern, line in _CHANGED.items():
        found = {name: re.subn(rf"(?m)^{pattern}$", line, text) for name, text in files.items()}
        assert sum(count for _, count in found.values()) == 1, pattern
        files = {name: text for name, (text, _) in found.items()}
    return files


@pytest.fixture(scope="module")
def cluster(
    container_lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Plan, Container, Container]]:
    """The plan, its controller and its first node, with all daemons running."""
    devices = tmp_path_factory.mktemp("devices")
    for index in range(8):
        os.mknod(devices / f"nvidia{index}", 0o20666, os.makedev(_NVIDIA, index))
    options = [f"--bind={devices}/nvidia{index}:/dev/nvidia{index}" for index in range(8)]
    started = container_lab.start_many((CONTROLLER, *NODES), options=options)
    plan = plan_of({item.name: item.address for item in started})
    assert plan.cluster is not None
    controller, *nodes = started
    names = "".join(f"{item.address} {item.name}\n" for item in started)
    for item in started:
        item.run("cat >> /etc/hosts", given=names)
        item.run(_INSTALL + ("slurmctld slurm-client" if item is controller else "slurmd"), timeout=300)
        for name, text in adapted(plan.cluster.files).items():
            item.run(f"cat > /etc/slurm/{name}", given=text)
        key = controller.run("base64 /etc/munge/munge.key").stdout
        item.run("base64 -d > /etc/munge/munge.key && systemctl restart munge", given=key)
        item.run("mkdir -p /var/lib/slurm/slurmd /var/lib/slurm/slurmctld && chown -R slurm /var/lib/slurm")
    controller.run("systemctl restart slurmctld")
    for node in nodes:
        node.run("systemctl restart slurmd")
    yield plan, controller, nodes[0]
    for item in started:
        item.stop()


IDLE = "timeout 60 sh -c 'until [ \"$(sinfo -h -o %t)\" = idle ]; do sleep 0.2; done'; sinfo -h -o '%D %G'"
SHOWN = "echo $CUDA_VISIBLE_DEVICES"


def test_the_controller_counts_gpus_memory_and_cpus_as_planned(cluster: tuple[Plan, Container, Container]) -> None:
    plan, controller, _ = cluster
    host = next(item for item in plan.hosts if item.name == NODES[0])
    assert host.node is not None
    assert host.node.slurm is not None
    assert controller.run(IDLE).stdout.strip() == "2 gpu:h100:8(S:0-1)"
    shown = controller.run(f"scontrol -o show node {NODES[0]}").stdout
    assert "Gres=gpu:h100:8" in shown
    assert f"RealMemory={host.node.slurm.real_memory_mib} " in shown
    assert f"CPUTot={host.node.slurm.cpus} " in shown


def test_jobs_get_the_gpus_that_they_ask_for_and_never_the_same(cluster: tuple[Plan, Container, Container]) -> None:
    _, controller, _ = cluster
    controller.run(IDLE)
    assert controller.run(f"timeout 20 srun --gres=gpu:2 sh -c '{SHOWN}'").stdout == "0,1\n"
    both = f"timeout 20 srun -N2 --gres=gpu:h100:8 sh -c 'hostname; {SHOWN}'"
    assert sorted(controller.run(both).stdout.split()) == sorted([*NODES, *["0,1,2,3,4,5,6,7"] * 2])
    one = f"timeout 20 srun -w {NODES[0]} --gres=gpu:4 sh -c '{SHOWN}; sleep 3'"
    together = controller.run(f"{one} & {one} & wait").stdout.split()
    assert sorted(together) == ["0,1,2,3", "4,5,6,7"]
    refused = controller.run("timeout 20 srun --gres=gpu:9 true", check=False)
    assert "Requested node configuration is not available" in refused.stderr


def test_a_node_that_lost_a_gpu_takes_no_jobs(cluster: tuple[Plan, Container, Container]) -> None:
    _, controller, node = cluster
    controller.run(IDLE)
    node.run("umount /dev/nvidia7 && rm /dev/nvidia7 && systemctl restart slurmd")
    log = "/var/log/slurm/slurmd.log"
    waits = f"timeout 30 sh -c 'until grep \"Waiting for gres.conf file /dev/nvidia7\" {log}; do sleep 0.2; done'"
    assert node.run(waits).stdout, "it does not come up with seven GPUs in silence"
    lost = controller.run(f"timeout 5 srun -w {NODES[0]} --gres=gpu:8 true", check=False)
    assert lost.returncode != 0
    other = controller.run(f"timeout 20 srun -w {NODES[1]} --gres=gpu:8 sh -c '{SHOWN}'")
    assert other.stdout == "0,1,2,3,4,5,6,7\n"

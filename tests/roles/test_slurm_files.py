"""Debian's slurmctld and slurmd take the files that a plan renders; unpacked packages in namespaces of their own.

The daemons live for seconds and end with their namespace. Changed for the test are paths, the user, and what needs a
database (AccountingStorage*); the counts of GPUs are left to a test of the role on real nodes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from llmhw_provision.plan.model import Plan
from tests.unit.clusters import cluster_plan

pytestmark = pytest.mark.container

PACKAGES = (
    *("libhwloc15", "liblua5.1-0", "libmunge2", "munge", "slurm-wlm-basic-plugins"),
    *("slurm-client", "slurmctld", "slurmd"),
)
# what a controller without mail, PMIx, database and earlier state says on any configuration
EXPECTED = re.compile(r"MailProg|pmix|PMIx|state file|Trying backup|gathered, but not stored|Could not open .*state")
SESSION = r"""
set -u
mount -t tmpfs none /run; mkdir -m 755 /run/munge; mount --bind "$WORK/hosts" /etc/hosts
ip link set lo up; for address in $ADDRESSES; do ip address add "$address/32" dev lo; done; hostname ctl-01
mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; mknod -m 666 /dev/urandom c 1 9
for i in 0 1 2 3 4 5 6 7; do mknod -m 666 /dev/nvidia$i c 195 $i; done
dd if=/dev/urandom of=/run/munge.key bs=32 count=1 2>/dev/null; chmod 400 /run/munge.key
"$ROOT"/usr/sbin/munged --key-file=/run/munge.key --pid-file=/run/m.pid --seed-file=/run/m.seed \
    --log-file=/run/m.log --force 2>/dev/null
"$ROOT"/usr/sbin/slurmctld-wlm -D -c -i -f "$SLURM_CONF" >"$WORK/controller" 2>&1 &
for i in $(seq 1 40); do
    grep -q "Running as primary\|fatal" "$WORK/controller" && break
    sleep 0.25
done
sleep 0.5
for what in topology partition "node $NODE"; do "$ROOT"/usr/bin/scontrol -o show $what; done >"$WORK/shown" 2>&1
"$ROOT"/usr/sbin/slurmd-wlm -G -N "$NODE" -f "$WORK/node/slurm.conf" >"$WORK/gres" 2>&1
"$ROOT"/usr/sbin/slurmd-wlm -C >"$WORK/hardware" 2>&1
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Debian's Slurm, unpacked and not installed."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare for namespaces")
    folder = tmp_path_factory.mktemp("slurm")
    done = subprocess.run(["apt-get", "download", *PACKAGES], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"Debian's Slurm packages cannot be fetched: {done.stderr.strip().splitlines()[-1:]}")
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, folder / "root"], check=True)
    return folder / "root"


def session(root: Path, work: Path, plan: Plan, **changed: str) -> dict[str, str]:
    """What the daemons say of the plan's files; `changed` replaces one (topology_conf="...")."""
    assert plan.cluster is not None
    files = dict(plan.cluster.files) | {name.replace("_", "."): text for name, text in changed.items()}
    library = root / "usr/lib/x86_64-linux-gnu"
    for folder in ("state", "spool"):
        (work / folder).mkdir()
    conf = re.sub(r"(?m)^(AccountingStorage|SlurmctldLogFile|SlurmdLogFile).*\n", "", files["slurm.conf"])
    conf = re.sub(r"(?m)^SlurmUser=.*", "SlurmUser=root", conf)
    conf = re.sub(r"(?m)^StateSaveLocation=.*", f"StateSaveLocation={work}/state", conf)
    conf = re.sub(r"(?m)^SlurmdSpoolDir=.*", f"SlurmdSpoolDir={work}/spool", conf)
    conf += f"PluginDir={library}/slurm-wlm\nSlurmctldPidFile={work}/pid\n"
    # a small machine plays the large node: cores are counted as configured
    for name, text in (("etc", conf), ("node", conf + "SlurmdParameters=config_overrides\n")):
        (work / name).mkdir()
        for file, content in (files | {"slurm.conf": text}).items():
            (work / name / file).write_text(content)
    hosts = {host.name: host.address for host in plan.hosts}
    (work / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{a} {n}\n" for n, a in hosts.items()))
    environment = {
        **os.environ,
        "ROOT": str(root),
        "WORK": str(work),
        "ADDRESSES": hosts["ctl-01"],
        "NODE": plan.hosts[0].name,
        "SLURM_CONF": str(work / "etc/slurm.conf"),
        "LD_LIBRARY_PATH": f"{library}:{library}/slurm-wlm",
    }
    subprocess.run(
        ["unshare", "-mnup", "--fork", "--kill-child", "--mount-proc", "bash", "-c", SESSION],
        env=environment,
        timeout=60,
        check=False,
        stdout=subprocess.DEVNULL,
    )
    return {name: (work / name).read_text() for name in ("controller", "shown", "gres", "hardware")}


def complaints(text: str) -> list[str]:
    """Lines of errors that only our files can have caused."""
    return [line for line in text.splitlines() if re.search(r"error|fatal|Invalid", line) and not EXPECTED.search(line)]


def test_real_daemons_take_the_files_of_a_thousand_gpus(root: Path, tmp_path: Path) -> None:
    plan = cluster_plan(128)
    said = session(root, tmp_path, plan)
    node = plan.hosts[0].node
    assert node is not None
    assert node.slurm is not None
    assert "Running as primary controller" in said["controller"]
    assert complaints(said["controller"]) == []
    assert re.search(r"SwitchName=leaf4 Level=0 \S+ Nodes=ap660-\[0097-0128\]", said["shown"])
    assert re.search(r"SwitchName=spine Level=1 \S+ Nodes=ap660-\[0001-0128\] Switches=leaf\[1-4\]", said["shown"])
    assert re.search(r"PartitionName=h100 .*TotalCPUs=65536 TotalNodes=128", said["shown"])
    memory = node.slurm.real_memory_mib
    assert re.search(rf"NodeName=ap660-0001 .*CPUTot=512 .*RealMemory={memory} .*Sockets=2 ", said["shown"])
    assert complaints(said["gres"]) == [], "device files and cores of gres.conf"
    assert re.search(r"NodeName=\S+ CPUs=\d+ Boards=1 SocketsPerBoard=\d+ .*RealMemory=\d+", said["hardware"])


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"topology_conf": "SwitchName=leaf1 Nodes=nobody[1-2]\n"}, "controller"),
        ({"gres_conf": "NodeName=ap660-[0001-0002] Name=gpu Type=h100 File=/dev/nvidia[0-7] Cores=0-511\n"}, "gres"),
    ],
)
def test_they_notice_files_that_are_wrong(changed: dict[str, str], where: str, root: Path, tmp_path: Path) -> None:
    assert complaints(session(root, tmp_path, cluster_plan(2), **changed)[where])

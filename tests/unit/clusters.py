"""Sites of many hosts for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from llmhw_provision.documents import check
from llmhw_provision.machine import Machine, PciDevice
from llmhw_provision.plan.build import build_plan
from llmhw_provision.plan.model import Plan
from llmhw_provision.site import Site
from llmhw_provision.sizing.need import Need
from tests.unit.machines import machine, need

SOFTWARE = {"distro": "ubuntu2404", "slurm": True}
HEADS = [
    {"name": "ctl-01", "address": "10.0.8.1", "roles": ["controller", "accounting"]},
    {"name": "login-[1-2]", "address": "10.0.8.[11-12]", "roles": ["login"]},
]


def head(*, port: bool = True) -> Machine:
    """A server without GPU, with an InfiniBand port."""
    card = PciDevice(address="0000:41:00.0", class_id="0207", vendor_id="15b3", device_id="1021", numa_node=0)
    found = machine()
    system = found.os.model_copy(update={"id": "ubuntu", "version": "24.04"}) if found.os else None
    return found.model_copy(update={"gpus": (), "pci": (card,) if port else (), "os": system})


def cluster_data(count: int, **changes: Any) -> dict[str, Any]:
    """site.yaml of `count` AlphaPro660 with controller, accounting and two login nodes."""
    last = f"10.0.{count // 256}.{count % 256}"
    nodes = {"name": f"ap660-[0001-{count:04d}]", "address": f"10.0.0.1-{last}", "machine": "alphapro660"}
    return {
        "schema": 1,
        "site": "thousand",
        "hosts": [nodes, *HEADS],
        "software": SOFTWARE,
        "fabric": {"subnet_manager": {"hosts": [{"host": "ctl-01", "priority": 14}]}},
        "storage": {
            "shared": {"source": "10.0.9.1:/export"},
            "project": {"path": "/shared/project"},
        },
        **changes,
    }


def cluster_site(count: int, **changes: Any) -> Site:
    """The site of cluster_data()."""
    return check(cluster_data(count, **changes), Site, path=Path("site.yaml"))


def job() -> Need:
    """Pre-training of a 70B model."""
    return need(
        model="llama-3.1-70b", job="pretrain", method="full", sequence=8192, batch=1024, checkpoints={"keep": 4}
    )


def cluster_plan(count: int, *, port: bool = True, **changes: Any) -> Plan:
    """The plan of `count` nodes and three heads."""
    kind = head(port=port)
    observed = {name: kind.model_copy(update={"name": name}) for name in ("ctl-01", "login-1", "login-2")}
    return build_plan(job(), cluster_site(count, **changes), observed)

"""nccl.conf: as few settings as possible, from what the plan knows of the fabric."""

from __future__ import annotations

from llmhw_provision.launch.files import LaunchFile, Setting, header
from llmhw_provision.launch.setup import Setup

_SOURCE = "NCCL documentation, environment variables"


def nccl(setup: Setup) -> LaunchFile:
    """nccl.conf for the hosts of the group; start.sh names it in NCCL_CONF_FILE."""
    names = "^lo,docker,virbr,veth"
    found = [Setting("NCCL_SOCKET_IFNAME", names, "bootstrap over real interfaces, not those of containers", _SOURCE)]
    expected = setup.hosts[0].expected
    fabric = expected.fabric if expected else None
    if fabric is not None and setup.nodes > 1:
        rails = "=" + ",".join(fabric.ports)
        found.append(Setting("NCCL_IB_HCA", rails, "the planned rails alone: no storage or management port", _SOURCE))
        if fabric.gid_index is not None:
            found.append(Setting("NCCL_IB_GID_INDEX", fabric.gid_index, "of RoCE v2, read on the host", _SOURCE))
    lines = [header(setup.plan.identity, "NCCL")]
    lines += [f"# {item.rule}\n{item.name}={item.value}\n" for item in found]
    if fabric is None and setup.nodes > 1:
        lines.append("# No fabric is planned: NCCL takes the adapters that it finds.\n")
    return LaunchFile("nccl.conf", "".join(lines), tuple(found))

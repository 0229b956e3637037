"""The network between nodes: which adapter is the rail of which GPU, leaf switches, and NCCL's settings."""

from __future__ import annotations

from llmhw_provision.catalogue.loader import Gpu, MachineKind, NicKind, find, names
from llmhw_provision.errors import InputError
from llmhw_provision.expected import ExpectedFabric
from llmhw_provision.hostlist import expand
from llmhw_provision.machine import Machine, PciDevice
from llmhw_provision.plan.cluster_model import ClusterFabric, GpuPlace, Rail, SubnetManager
from llmhw_provision.plan.gpu_memory import known_gpus
from llmhw_provision.site_cluster import Fabric

# NVIDIA DGX SuperPOD reference architecture (H100): a scalable unit is 32 nodes, one leaf per rail; half of a QM9700's
# 64 NDR ports go down
LEAF_NODES = 32
SOCKETS = "^lo,docker,virbr,veth"  # exclusion: names differ from host to host (aws/deep-learning-containers#6469)
_NVIDIA, _MELLANOX = "10de", "15b3"
_GPU_CLASSES, _NIC_CLASSES = ("0300", "0302"), {"infiniband": ("0207",), "roce": ("0200",)}


def numa_nodes(machine: Machine) -> int:
    """NUMA nodes of the machine; of one not yet observed, one per socket."""
    return max(machine.cpu.numa_nodes, machine.cpu.sockets)


def gpu_places(machine: Machine) -> tuple[GpuPlace, ...]:
    """Every GPU in PCI order with NUMA node and the cores of that node; of a catalogue machine, shared out evenly."""
    count, nodes = sum(item.count for item in machine.gpus), numa_nodes(machine)
    found = _functions(machine, _NVIDIA, _GPU_CLASSES)
    if len(found) == count:
        numas = [item.numa_node if item.numa_node >= 0 else None for item in found]
    elif machine.origin == "catalogue":
        numas = [index * nodes // count for index in range(count)]
    else:
        numas = [None] * count
    return tuple(GpuPlace(index=index, numa=numa, cores=_cores(machine, numa)) for index, numa in enumerate(numas))


def _cores(machine: Machine, numa: int | None) -> str:
    nodes = numa_nodes(machine)
    if numa is None or nodes == 1 or machine.cpu.cores % nodes or numa >= nodes:
        return ""
    each = machine.cpu.cores // nodes
    return f"{numa * each}-{(numa + 1) * each - 1}"


def _functions(machine: Machine, vendor: str, classes: tuple[str, ...]) -> list[PciDevice]:
    found = (item for item in machine.pci if item.vendor_id == vendor and item.class_id in classes)
    return sorted(found, key=lambda item: item.address)


def rails_of(host: str, machine: Machine, fabric: Fabric) -> tuple[Rail, ...]:
    """The rails of `host`: adapters paired with the GPUs of their NUMA node, in PCI order.

    Raises InputError without adapters, or with more than GPUs where site.yaml does not say which are rails.
    """
    gpus = gpu_places(machine)
    if machine.origin == "catalogue":
        nics = find("machines", machine.name, MachineKind).nics
        count = nics.count if nics else 0
        _require(host, count, len(gpus))
        return tuple(
            Rail(index=i, gpu=i * len(gpus) // count, numa=gpus[i * len(gpus) // count].numa) for i in range(count)
        )
    adapters = _functions(machine, _MELLANOX, _NIC_CLASSES[fabric.layer])
    if fabric.adapters:
        by_address = {item.address: item for item in adapters}
        absent = [address for address in fabric.adapters if address not in by_address]
        if absent:
            raise InputError(
                f"{host}: fabric.adapters names {absent[0]}, which is no {fabric.layer} adapter there",
                f"found: {', '.join(by_address) or 'none'}",
            )
        adapters = [by_address[address] for address in fabric.adapters]
    _require(host, len(adapters), len(gpus))
    return _paired(gpus, _functions(machine, _NVIDIA, _GPU_CLASSES), adapters)


def _require(host: str, adapters: int, gpus: int) -> None:
    if not adapters:
        raise InputError(f"{host}: fabric: asks for rails, and the machine has no adapter", "leave fabric: out")
    if adapters > gpus:
        raise InputError(
            f"{host}: {adapters} adapters for {gpus} GPUs: which are rails is not known",
            "name them in order under fabric.adapters, by PCI address",
        )


def _paired(gpus: tuple[GpuPlace, ...], functions: list[PciDevice], nics: list[PciDevice]) -> tuple[Rail, ...]:
    """Adapter to GPU, nearest NUMA node first, each GPU once; the rails are numbered by their GPU."""
    free = list(gpus)
    pairs: list[tuple[GpuPlace, PciDevice]] = []
    for near in (True, False):
        for nic in [item for item in nics if item not in [pair[1] for pair in pairs]]:
            wanted = [gpu for gpu in free if not near or (gpu.numa is not None and gpu.numa == nic.numa_node)]
            if wanted:
                free.remove(wanted[0])
                pairs.append((wanted[0], nic))
    pairs.sort(key=lambda pair: pair[0].index)
    return tuple(
        Rail(
            index=index,
            gpu=gpu.index,
            numa=nic.numa_node if nic.numa_node >= 0 else None,
            gpu_pci=functions[gpu.index].address if gpu.index < len(functions) else "",
            nic_pci=nic.address,
            rdma=nic.rdma,
        )
        for index, (gpu, nic) in enumerate(pairs)
    )


def expected_ports(machine: Machine, rails: tuple[Rail, ...], fabric: Fabric) -> ExpectedFabric | None:
    """What verify asks of the rails, by the names that their adapters had; None before a driver has named them all.

    None too for adapters that the catalogue does not have: what rate to ask of them is not known.
    """
    nics = [find("nics", name, NicKind) for name in names("nics")]
    kinds = {pci_id: nic.rate_gbit for nic in nics for pci_id in nic.pci_ids}
    seen = {item.address: kinds.get(f"{item.vendor_id}:{item.device_id}") for item in machine.pci}
    rates = [seen.get(rail.nic_pci) for rail in rails]
    known = [rate for rate in rates if rate is not None]
    if not rails or len(known) < len(rails) or not all(rail.rdma for rail in rails):
        return None
    infiniband = fabric.layer == "infiniband"
    return ExpectedFabric(
        ports=tuple(rail.rdma for rail in rails),
        rate_gbit=min(known),
        link_layer="InfiniBand" if infiniband else "Ethernet",
        subnet_manager=infiniband,
    )


def fabric_of(fabric: Fabric, rails: int) -> ClusterFabric:
    """The fabric with its one decision about the subnet manager, master first."""
    choice = fabric.subnet_manager
    managers = sorted(choice.hosts, key=lambda item: -item.priority)
    return ClusterFabric(
        layer=fabric.layer,
        rails=rails,
        subnet_manager="none" if fabric.layer == "roce" else "switch" if choice.switch else "hosts",
        managers=tuple(SubnetManager(host=item.host, priority=item.priority) for item in managers),
    )


def require_port(host: str, machine: Machine) -> None:
    """Raises InputError for a subnet manager's host that has been observed without an InfiniBand port."""
    if machine.origin == "observed" and not _functions(machine, _MELLANOX, _NIC_CLASSES["infiniband"]):
        raise InputError(
            f"{host}: is to run the subnet manager, and has no InfiniBand adapter",
            "name another host under fabric.subnet_manager.hosts, or let the switch do it",
        )


def leaves_of(fabric: Fabric | None, computes: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Compute hosts by the leaf group that they are cabled to."""
    if fabric is not None and fabric.leaves:
        return {leaf.name: expand(leaf.hosts) for leaf in fabric.leaves}
    parts = [computes[start : start + LEAF_NODES] for start in range(0, len(computes), LEAF_NODES)]
    return {f"leaf{index}": part for index, part in enumerate(parts, 1)}


def nccl_text(fabric: Fabric | None) -> str:
    """/etc/nccl.conf: as few settings as do; names of adapters are for the host to tell, never for the plan.

    Sources: NCCL environment variables; NVIDIA/nccl#769 (a constant GID index is wrong on the next host).
    """
    lines = ["# Written by llmhw-provision.", f"NCCL_SOCKET_IFNAME={SOCKETS}"]
    if fabric is not None and fabric.traffic_class is not None:
        lines.append(f"NCCL_IB_TC={fabric.traffic_class}")
    return "\n".join(lines) + "\n"


def adapters_are_rails(machine: Machine, fabric: Fabric) -> bool:
    """Whether every adapter that NCCL would find is a rail; from Blackwell on NVSwitches show as adapters too."""
    gpus = known_gpus(machine)
    gpu = find("gpus", gpus.kind, Gpu) if gpus else None
    return not fabric.adapters and not (gpu and gpu.nvswitch and float(gpu.compute_capability) >= 10)

"""How the GPUs are joined: `nvidia-smi topo` and `nvidia-smi nvlink`."""

from __future__ import annotations

from pathlib import Path

from .machine import Gpu, Machine, read

_RELATIONS = """
Legend:

  X    = Self
  SYS  = Connection over PCIe and between the NUMA nodes
  NODE = Connection over PCIe and between the host bridges of a NUMA node
  PHB  = Connection over PCIe and a PCIe host bridge
  PXB  = Connection over several PCIe bridges, not over a host bridge
  PIX  = Connection over at most one PCIe bridge
  NV#  = Connection over a set of # NVLinks
"""
_PEERS = """
Legend:

  X    = Self
  OK   = Status Ok
  CNS  = Chipset not supported
  GNS  = GPU not supported
  TNS  = Topology not supported
  NS   = Not supported
  U    = Unknown
"""


def _joined(machine: Machine, gpu: Gpu) -> bool:
    """Whether switches join it to the others."""
    return bool(gpu.card.links) and machine.fabric != "N/A"


def _distance(one: Path, other: Path) -> str:
    """The relation of two PCIe functions, by their places in sysfs."""
    first, second = one.resolve(), other.resolve()
    if first.parent == second.parent and first.parent.name.count(":") == 2:
        return "PIX"
    bridges = [{part for part in path.parts if part.startswith("pci")} for path in (first, second)]
    if bridges[0] & bridges[1]:
        return "PXB" if first.parts[-3:-2] == second.parts[-3:-2] and first.parts[-3].count(":") == 2 else "PHB"
    nodes = [read(path / "numa_node") for path in (first, second)]
    return "NODE" if nodes[0] == nodes[1] else "SYS"


def matrix(machine: Machine) -> str:
    """`topo -m`."""
    gpus, adapters = machine.gpus, machine.adapters
    places = [gpu.folder for gpu in gpus] + [folder for _, folder in adapters]
    names = [f"GPU{gpu.index}" for gpu in gpus] + [f"NIC{number}" for number in range(len(adapters))]
    heads = "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])
    lines = [f"\t\x1b[4m{heads}\x1b[0m"]
    for row, name in enumerate(names):
        cells = []
        for column in range(len(names)):
            both = row < len(gpus) and column < len(gpus)
            if row == column:
                cells.append(" X ")
            elif both and _joined(machine, gpus[row]) and _joined(machine, gpus[column]):
                cells.append(f"NV{gpus[row].card.links}")
            else:
                cells.append(_distance(places[row], places[column]))
        line = "\t".join([name, *cells])
        if row < len(gpus):
            node = gpus[row].node
            line += f"\t{machine.processors(node)}\t{node if node >= 0 else 'N/A'}\t\tN/A"
        lines.append(line + ("\t\t\t\t" if row >= len(gpus) else ""))
    text = "\n".join(lines) + "\n" + _RELATIONS
    if adapters:
        text += "\nNIC Legend:\n\n" + "".join(f"  NIC{place}: {name}\n" for place, (name, _) in enumerate(adapters))
    return text + "\n"


def peers(machine: Machine) -> str:
    """`topo -p2p`: on boards with switches only once the fabric is managed; never between GeForce cards."""
    names = [f"GPU{gpu.index}" for gpu in machine.gpus]
    lines = [" \t" + "\t".join(names)]
    for gpu in machine.gpus:
        cells = ["X" if other is gpu else _peer(machine, gpu) for other in machine.gpus]
        lines.append(f" GPU{gpu.index}\t" + "\t".join(cells))
    return "\n".join(lines) + "\n" + _PEERS + "\n"


def _peer(machine: Machine, gpu: Gpu) -> str:
    if gpu.card.brand == "GeForce":
        return "GNS"
    return "NS" if _joined(machine, gpu) and machine.fabric != "Completed" else "OK"


def nvlink(machine: Machine, gpus: tuple[Gpu, ...], asked: str) -> str:
    """`nvlink -s` (state) or `-e` (errors)."""
    lines = []
    for gpu in gpus:
        lines.append(f"GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})")
        if not gpu.card.links:
            bridged = gpu.card.ecc  # a card for bridges that has none
            said = "NVML: Unable to retrieve NVLink information as all links are inActive"
            lines.append(f"\t {said}" if bridged else "Device does not have or support Nvlink")
        for link in range(gpu.card.links if _joined(machine, gpu) else 0):
            if asked == "-s":
                lines.append(f"\t Link {link}: {gpu.card.link_speed:g} GB/s")
            else:
                names = ("Replay Errors", "Recovery Errors", "CRC Errors")
                lines += [f"\t Link {link}: {name}: 0" for name in names]
    return "\n".join(lines) + "\n"

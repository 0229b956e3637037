"""Outputs of GPU tools written by us in the layout of the recorded ones, for machines that none of us has."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

BUSES = ("1B:00.0", "43:00.0", "52:00.0", "61:00.0", "9D:00.0", "C3:00.0", "D1:00.0", "DF:00.0")


@dataclass(frozen=True)
class Cards:
    """GPUs of one kind and the driver that shows them; `old` picks the column forms of 2021 to 2023."""

    name: str
    pci_id: str
    count: int
    memory_mib: int
    power_w: int
    generation: int
    driver: str
    links: int = 0
    link_gbs: str = "26.562"
    fabric: bool = False
    ecc: bool = True
    mig: bool = False
    resting: bool = False
    old: bool = False
    buses: tuple[str, ...] = field(default=BUSES)
    renamed: bool = False  # "KMD Version" of the newest drivers
    retires: bool = False  # cards before Ampere retire pages and remap no rows

    def bus(self, gpu: int) -> str:
        """PCI address as nvidia-smi writes it."""
        return f"00000000:{self.buses[gpu]}"


def uuid(gpu: int) -> str:
    return f"GPU-00000000-0000-0000-0000-{gpu:012x}"


def listing(cards: Cards) -> str:
    """`nvidia-smi -L`."""
    text = ""
    for gpu in range(cards.count):
        text += f"GPU {gpu}: {cards.name} (UUID: {uuid(gpu)})\n"
        if cards.mig:
            text += f"  MIG 3g.40gb     Device  0: (UUID: MIG-00000000-0000-0000-0000-{gpu:012x})\n"
    return text


def version(cards: Cards) -> str:
    """`nvidia-smi --version`."""
    short = ".".join(cards.driver.split(".")[:2])
    return (
        f"NVIDIA-SMI version  : {cards.driver}\nNVML version        : {short}\n"
        f"DRIVER version      : {cards.driver}\nCUDA Version        : 13.1\n"
    )


def query(cards: Cards) -> str:
    """`nvidia-smi --query-gpu=... --format=csv` with our fields."""
    heads = (
        "index, name, uuid, serial, pci.bus_id, driver_version, vbios_version, memory.total [MiB], pstate, "
        "persistence_mode, mig.mode.current, ecc.mode.current, pcie.link.gen.current, pcie.link.gen.max, "
        "pcie.link.width.current, pcie.link.width.max, temperature.gpu, power.draw [W], power.limit [W]\n"
    )
    state, gen = ("P8", 1) if cards.resting else ("P0", cards.generation)
    mig = "Enabled" if cards.mig else "Disabled" if cards.ecc else "[N/A]"
    ecc = "Enabled" if cards.ecc else "[N/A]"
    rows = [
        f"{gpu}, {cards.name}, {uuid(gpu)}, SERIAL{gpu:04}, {cards.bus(gpu)}, {cards.driver}, 96.00.A5.00.01, "
        f"{cards.memory_mib} MiB, {state}, Enabled, {mig}, {ecc}, {gen}, {cards.generation}, 16, 16, "
        f"{31 + gpu % 4}, 69.85 W, {cards.power_w}.00 W\n"
        for gpu in range(cards.count)
    ]
    return heads + "".join(rows)


def full(cards: Cards) -> str:
    """`nvidia-smi -q`, the blocks that checks read."""
    word = "KMD Version" if cards.renamed else "Driver Version"
    head = (
        f"\n==============NVSMI LOG==============\n\n{'Timestamp':42}: Mon Nov 30 10:00:00 2026\n"
        f"{word:42}: {cards.driver}\nCUDA Version                              : 13.1\n\n"
        f"Attached GPUs                             : {cards.count}\n"
    )
    return head + "".join(_block(cards, gpu) for gpu in range(cards.count))


def _block(cards: Cards, gpu: int) -> str:
    na = "[N/A]" if cards.mig or cards.retires or not cards.ecc else ""
    ecc = "N/A" if not cards.ecc else "Enabled"
    zero = "N/A" if not cards.ecc else "0"
    lines = [
        f"GPU {cards.bus(gpu)}",
        f"    Product Name : {cards.name}",
        "    Persistence Mode : Enabled",
        "    MIG Mode",
    ]
    lines += [f"        {part} : {'Enabled' if cards.mig else 'Disabled'}" for part in ("Current", "Pending")]
    reasons = "Clocks Throttle Reasons" if cards.old else "Clocks Event Reasons"
    lines += [f"    {reasons}", "        Idle : Active", "        SW Power Cap : Not Active"]
    lines += ["        HW Slowdown : Not Active", "            HW Thermal Slowdown : Not Active"]
    lines += ["            HW Power Brake Slowdown : Not Active", "        SW Thermal Slowdown : Not Active"]
    lines += [f"    {'Ecc' if cards.old else 'ECC'} Mode", f"        Current : {ecc}", f"        Pending : {ecc}"]
    lines += ["    ECC Errors"]
    for span in ("Volatile", "Aggregate"):
        lines += [f"        {span}"] + [f"            {name} : {zero}" for name in _ecc(cards.old)]
    lines += ["    Retired Pages", f"        Pending Page Blacklist : {'No' if cards.retires else 'N/A'}"]
    lines += ["    Remapped Rows"] + [
        f"        {name} : {na or value}"
        for name, value in (
            ("Correctable Error", "0"),
            ("Uncorrectable Error", "0"),
            ("Pending", "No"),
            ("Remapping Failure Occurred", "No"),
        )
    ]
    state, status = ("Completed", "Success") if cards.fabric else ("N/A", "N/A")
    lines += ["    Fabric", f"        State : {state}", f"        Status : {status}"]
    lines += ["    Processes : None"]
    return "".join(_aligned(line) for line in lines)


def _ecc(old: bool) -> tuple[str, ...]:
    sram = ("SRAM Uncorrectable",) if old else ("SRAM Uncorrectable Parity", "SRAM Uncorrectable SEC-DED")
    return ("SRAM Correctable", *sram, "DRAM Correctable", "DRAM Uncorrectable")


def _aligned(line: str) -> str:
    name, colon, value = line.partition(" : ")
    return f"{name:<42}: {value}\n" if colon else f"{line}\n"


def nvlink(cards: Cards) -> str:
    """`nvidia-smi nvlink -s`."""
    indent = "         " if cards.old else "\t "
    text = ""
    for gpu in range(cards.count):
        text += f"GPU {gpu}: {cards.name} (UUID: {uuid(gpu)})\n"
        text += "".join(f"{indent}Link {link}: {cards.link_gbs} GB/s\n" for link in range(cards.links))
    return text


def nvlink_errors(cards: Cards) -> str:
    """`nvidia-smi nvlink -e`."""
    text = ""
    for gpu in range(cards.count):
        text += f"GPU {gpu}: {cards.name} (UUID: {uuid(gpu)})\n"
        for link in range(cards.links):
            text += (
                f"\t Link {link}: Replay Errors: 0\n\t Link {link}: Recovery Errors: 0\n\t Link {link}: CRC Errors: 7\n"
            )
    return text


def matrix(relations: list[list[str]], nodes: list[int], *, old: bool = False) -> str:
    """`nvidia-smi topo -m` for GPUs alone; `old` lacks the colours and the GPU NUMA ID column."""
    names = [f"GPU{gpu}" for gpu in range(len(relations))]
    head = "\t" + "\t".join(names) + "\tCPU Affinity\tNUMA Affinity"
    text = f"{head}\n" if old else f"\t\x1b[4m{head[1:]}\tGPU NUMA ID\x1b[0m\n"
    for name, row, node in zip(names, relations, nodes, strict=True):
        text += f"{name}\t" + "\t".join(f" {cell} " if cell == "X" else cell for cell in row)
        text += f"\t{node * 32}-{node * 32 + 31}\t{node}" + ("\n" if old else "\t\tN/A\n")
    return text + "\nLegend:\n\n  X    = Self\n"


def peers(count: int, value: str = "OK") -> str:
    """`nvidia-smi topo -p2p rw`."""
    names = [f"GPU{gpu}" for gpu in range(count)]
    text = " \t" + "\t".join(names) + "\n"
    for one in names:
        text += f" {one}\t" + "\t".join("X" if one == other else value for other in names) + "\n"
    return text + "\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"


def lspci(cards: Cards) -> str:
    """`lspci -vvv`: the GPUs, an NVMe drive and an adapter, and a bridge that is slower by design."""
    speed = {3: "8GT/s", 4: "16GT/s", 5: "32GT/s"}[cards.generation]
    current = "2.5GT/s (downgraded)" if cards.resting else speed
    text = "".join(
        f"{cards.buses[gpu].lower()} 3D controller: NVIDIA Corporation Device {cards.pci_id[5:]} (rev a1)\n"
        f"\t\tLnkCap:\tPort #0, Speed {speed}, Width x16, ASPM L1\n\t\tLnkSta:\tSpeed {current}, Width x16\n"
        "\tKernel driver in use: nvidia\n\n"
        for gpu in range(cards.count)
    )
    text += (
        "17:00.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0)\n"
        "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x4\n\t\tLnkSta:\tSpeed 16GT/s (downgraded), Width x4\n\n"
        "02:00.0 Ethernet controller: Broadcom Inc. and subsidiaries NetXtreme BCM5720 Gigabit Ethernet PCIe\n"
        "\t\tLnkCap:\tPort #0, Speed 5GT/s, Width x2\n\t\tLnkSta:\tSpeed 5GT/s, Width x1 (downgraded)\n\n"
    )
    for bus in ("18", "3a", "4b"):
        text += f"{bus}:00.0 Non-Volatile memory controller: Micron Technology Inc Device 51c3 (rev 01)\n"
        text += "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x4\n\t\tLnkSta:\tSpeed 16GT/s, Width x4\n\n"
    for bus in ("1a", "3c", "5e"):
        text += f"{bus}:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]\n"
        text += "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n\t\tLnkSta:\tSpeed 32GT/s, Width x16\n\n"
    return text


def sysfs(cards: Cards) -> str:
    """The GPUs in /sys/bus/pci/devices."""
    vendor, device = cards.pci_id.split(":")
    text = "0000:02:00.0/class:0x030000\n0000:02:00.0/vendor:0x1a03\n0000:02:00.0/device:0x2000\n"  # the BMC's VGA
    text += "0000:83:00.0/class:0x068000\n0000:83:00.0/vendor:0x10de\n0000:83:00.0/device:0x22a3\n"  # an NVSwitch
    for gpu in range(cards.count):
        address = f"0000:{cards.buses[gpu].lower()}"
        text += f"{address}/class:0x030200\n{address}/vendor:0x{vendor}\n{address}/device:0x{device}\n"
        text += f"{address}/numa_node:0\n"
    return text


def driver_files(cards: Cards, *, manager: bool) -> str:
    """The answer to our question for driver versions."""
    package = cards.driver.split(".")[0]
    packages = f"installed libnvidia-compute-{package} {cards.driver}-0ubuntu1\n"
    packages += f"installed nvidia-fabricmanager {cards.driver}-1\n" if manager else ""
    return (
        f"== loaded\n{cards.driver}\n== file\n{cards.driver}\n== licence\nDual MIT/GPL\n== fabric-manager\n"
        + (f"Fabric Manager version is : {cards.driver}\n" if manager else "")
        + f"== packages\n{packages}== peermem\n== peer-client\n0\n"
    )


def adapters(ibstat: str) -> str:
    """/sys/class/infiniband of the adapters that an ibstat listing shows."""
    text = ""
    for block in re.split(r"(?m)^CA ", ibstat)[1:]:
        name = block.split("'")[1]
        said = dict(re.findall(r"(?m)^\s+([A-Z][\w ]+): (.*)$", block))
        states = {"Active": "4: ACTIVE", "Down": "1: DOWN", "Initializing": "2: INIT"}
        physical = {"LinkUp": "5: LinkUp", "Disabled": "3: Disabled", "Polling": "2: Polling"}
        rate = f"{said['Rate']} Gb/sec (4X {'NDR' if said['Rate'] == '400' else 'EDR'})"
        top, port = f"{name}/", f"{name}/ports/1/"
        text += f"{top}hca_type:{said['CA type']}\n{top}fw_ver:{said['Firmware version']}\n"
        text += f"{top}board_id:{'MT_0000000838' if said['CA type'] == 'MT4129' else 'MT_0000000437'}\n"
        text += f"{port}link_layer:{said['Link layer']}\n{port}state:{states[said['State']]}\n"
        text += f"{port}phys_state:{physical[said['Physical state']]}\n{port}rate:{rate}\n"
        counters = {"link_downed": 255, "link_error_recovery": 0, "symbol_error": 0, "port_rcv_errors": 14}
        text += "".join(f"{port}counters/{key}:{value}\n" for key, value in counters.items())
    return text

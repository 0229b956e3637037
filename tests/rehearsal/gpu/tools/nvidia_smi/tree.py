"""`nvidia-smi -q`, as text and, with -x, as XML: one tree of labels, tags and values."""

from __future__ import annotations

import time
from xml.sax.saxutils import escape

from .machine import Gpu, Machine

Node = tuple[str, str, "str | list[Node]"]
NA = "N/A"


def gpu_tree(gpu: Gpu) -> list[Node]:
    """Everything of one GPU."""
    machine, card = gpu.machine, gpu.card
    mode = "Enabled" if machine.persistence else "Disabled"
    mig = "Disabled" if card.mig else NA
    return [
        ("Product Name", "product_name", card.name),
        ("Product Brand", "product_brand", card.brand),
        ("Product Architecture", "product_architecture", card.architecture),
        ("Display Attached", "display_attached", "No"),
        ("Display Active", "display_active", "Disabled"),
        ("Persistence Mode", "persistence_mode", mode),
        ("Addressing Mode", "addressing_mode", "None"),
        ("MIG Mode", "mig_mode", [("Current", "current_mig", mig), ("Pending", "pending_mig", mig)]),
        ("Serial Number", "serial", gpu.serial if card.ecc else NA),
        ("GPU UUID", "uuid", gpu.uuid),
        ("Minor Number", "minor_number", gpu.minor),
        ("VBIOS Version", "vbios_version", gpu.vbios),
        ("MultiGPU Board", "multigpu_board", "No"),
        ("GPU Recovery Action", "gpu_recovery_action", "None"),
        ("GSP Firmware Version", "gsp_firmware_version", machine.driver),
        ("PCI", "pci", _pci(gpu)),
        ("Fan Speed", "fan_speed", NA if card.ecc else "0 %"),
        ("Performance State", "performance_state", "P0"),
        ("Clocks Event Reasons", "clocks_event_reasons", _reasons()),
        ("FB Memory Usage", "fb_memory_usage", _memory(card.memory, _reserved(card.memory))),
        ("BAR1 Memory Usage", "bar1_memory_usage", _memory(card.bar1, 0)),
        ("Compute Mode", "compute_mode", "Default"),
        (
            *("Utilization", "utilization"),
            [(name, f"{name.lower()}_util", "0 %") for name in ("GPU", "Memory", "Encoder", "Decoder")],
        ),
        (
            *("ECC Mode", "ecc_mode"),
            [(when, f"{when.lower()}_ecc", "Enabled" if card.ecc else NA) for when in ("Current", "Pending")],
        ),
        ("ECC Errors", "ecc_errors", _ecc(card.ecc)),
        ("Retired Pages", "retired_pages", _retired()),
        ("Remapped Rows", "remapped_rows", _remapped() if card.ecc else NA),
        ("Temperature", "temperature", _temperature(gpu)),
        ("GPU Power Readings", "gpu_power_readings", _power(gpu)),
        ("Clocks", "clocks", _clocks(345, card.memory_clock)),
        ("Max Clocks", "max_clocks", _clocks(card.clock, card.memory_clock)),
        ("Fabric", "fabric", _fabric(machine, card.links)),
        ("Processes", "processes", "None"),
    ]


def _reserved(memory: int) -> int:
    return memory * 6 // 1000


def _memory(total: int, reserved: int) -> list[Node]:
    rows: list[Node] = [("Total", "total", f"{total} MiB")]
    rows += [("Reserved", "reserved", f"{reserved} MiB")] if reserved else []
    return [*rows, ("Used", "used", "0 MiB"), ("Free", "free", f"{total - reserved} MiB")]


def _pci(gpu: Gpu) -> list[Node]:
    domain, bus, rest = gpu.bus_id.split(":")
    link: list[Node] = [
        (
            *("PCIe Generation", "pcie_gen"),
            [
                ("Max", "max_link_gen", str(gpu.generation("max"))),
                ("Current", "current_link_gen", str(gpu.generation("current"))),
            ],
        ),
        (
            *("Link Width", "link_widths"),
            [
                ("Max", "max_link_width", f"{gpu.width('max')}x"),
                ("Current", "current_link_width", f"{gpu.width('current')}x"),
            ],
        ),
    ]
    return [
        ("Bus", "pci_bus", f"0x{bus}"),
        ("Device", "pci_device", f"0x{rest.partition('.')[0]}"),
        ("Domain", "pci_domain", f"0x{int(domain, 16):04X}"),
        ("Device Id", "pci_device_id", f"0x{gpu.hex('device').upper()}10DE"),
        ("Bus Id", "pci_bus_id", gpu.bus_id),
        ("GPU Link Info", "pci_gpu_link_info", link),
        ("Replays Since Reset", "replay_counter", "0"),
        ("Replay Number Rollovers", "replay_rollover_counter", "0"),
    ]


def _reasons() -> list[Node]:
    inactive = "Not Active"
    slow: list[Node] = [
        ("HW Thermal Slowdown", "clocks_event_reason_hw_thermal_slowdown", inactive),
        ("HW Power Brake Slowdown", "clocks_event_reason_hw_power_brake_slowdown", inactive),
    ]
    return [
        ("Idle", "clocks_event_reason_gpu_idle", "Active"),
        ("SW Power Cap", "clocks_event_reason_sw_power_cap", inactive),
        ("HW Slowdown", "clocks_event_reason_hw_slowdown", inactive),
        *((f"    {label}", tag, value) for label, tag, value in slow),
        ("SW Thermal Slowdown", "clocks_event_reason_sw_thermal_slowdown", inactive),
    ]


_COUNTERS = (
    ("SRAM Correctable", "sram_correctable"),
    ("SRAM Uncorrectable Parity", "sram_uncorrectable_parity"),
    ("SRAM Uncorrectable SEC-DED", "sram_uncorrectable_secded"),
    ("DRAM Correctable", "dram_correctable"),
    ("DRAM Uncorrectable", "dram_uncorrectable"),
)


def _ecc(has: bool) -> list[Node]:
    rows: list[Node] = [(label, tag, "0" if has else NA) for label, tag in _COUNTERS]
    exceeded: Node = ("SRAM Threshold Exceeded", "sram_threshold_exceeded", "No" if has else NA)
    return [
        ("Volatile", "volatile", rows),
        ("Aggregate", "aggregate", [*rows, exceeded]),
        ("Channel Repair Pending", "channel_repair_pending", "No"),
        ("TPC Repair Pending", "tpc_repair_pending", "No"),
    ]


def _retired() -> list[Node]:
    return [
        ("Single Bit ECC", "multiple_single_bit_retirement/retired_count", NA),
        ("Double Bit ECC", "double_bit_retirement/retired_count", NA),
        ("Pending Page Blacklist", "pending_blacklist", NA),
    ]


def _remapped() -> list[Node]:
    return [
        ("Correctable Error", "remapped_row_corr", "0"),
        ("Uncorrectable Error", "remapped_row_unc", "0"),
        ("Pending", "remapped_row_pending", "No"),
        ("Remapping Failure Occurred", "remapped_row_failure", "No"),
    ]


def _temperature(gpu: Gpu) -> list[Node]:
    return [
        ("GPU Current Temp", "gpu_temp", f"{30 + gpu.index} C"),
        ("Memory Current Temp", "memory_temp", f"{38 + gpu.index} C" if gpu.card.ecc else NA),
    ]


def draw(gpu: Gpu) -> str:
    """Power that an idle card takes, in W."""
    return f"{gpu.card.power / 10 + gpu.index:.2f}"


def _power(gpu: Gpu) -> list[Node]:
    card = gpu.card
    rows: list[Node] = [
        ("Average Power Draw", "average_power_draw", f"{draw(gpu)} W"),
        ("Instantaneous Power Draw", "instant_power_draw", f"{draw(gpu)} W"),
    ]
    limits = (("Current", card.power), ("Requested", card.power), ("Default", card.power), ("Min", card.least_power))
    for name, limit in (*limits, ("Max", card.power)):
        rows.append((f"{name} Power Limit", f"{name.lower()}_power_limit", f"{limit:.2f} W"))
    return rows


def _clocks(graphics: int, memory: int) -> list[Node]:
    return [
        ("Graphics", "graphics_clock", f"{graphics} MHz"),
        ("SM", "sm_clock", f"{graphics} MHz"),
        ("Memory", "mem_clock", f"{memory} MHz"),
    ]


def status(machine: Machine) -> str:
    """The fabric's status beside its state."""
    return "Success" if machine.fabric == "Completed" else NA


def _fabric(machine: Machine, links: int) -> list[Node]:
    state = machine.fabric if links else NA
    done = state == "Completed"
    return [
        ("State", "state", state),
        ("Status", "status", status(machine) if links else NA),
        ("CliqueId", "cliqueId", "0" if done else NA),
        ("ClusterUUID", "clusterUuid", "00000000-0000-0000-0000-000000000000" if done else NA),
        ("Health", "health", [("Bandwidth", "bandwidth", NA)]),
    ]


# What -d shows: the blocks of each word.
SECTIONS = {
    "MEMORY": ("FB Memory Usage", "BAR1 Memory Usage"),
    "UTILIZATION": ("Utilization",),
    "ECC": ("ECC Mode", "ECC Errors"),
    "TEMPERATURE": ("Temperature",),
    "POWER": ("GPU Power Readings",),
    "CLOCK": ("Clocks", "Max Clocks"),
    "COMPUTE": ("Compute Mode",),
    "PERFORMANCE": ("Performance State", "Clocks Event Reasons"),
    "PAGE_RETIREMENT": ("Retired Pages",),
    "ROW_REMAPPER": ("Remapped Rows",),
    "PIDS": ("Processes",),
}


def text(machine: Machine, gpus: tuple[Gpu, ...], wanted: list[str]) -> str:
    """The whole, or the blocks of the words in `wanted`."""
    names = [name for word in wanted for name in SECTIONS.get(word, ())]
    head = [
        ("Timestamp", time.strftime("%a %b %e %H:%M:%S %Y")),
        ("Driver Version", machine.driver),
        ("CUDA Version", machine.cuda),
    ]
    out = ["", "==============NVSMI LOG==============", ""]
    out += [f"{label:<55}: {value}" for label, value in head]
    out += ["", f"{'Attached GPUs':<55}: {len(machine.gpus)}"]
    for gpu in gpus:
        out.append(f"GPU {gpu.bus_id}")
        shown = [node for node in gpu_tree(gpu) if not names or node[0] in names]
        out += _lines(shown, 4)
    return "\n".join([*out, "", ""])


def _lines(nodes: list[Node], indent: int) -> list[str]:
    out = []
    for label, _, value in nodes:
        name = " " * indent + label
        if isinstance(value, list):
            out += [name, *_lines(value, indent + 4)]
        else:
            out.append(f"{name:<55}: {value}")
    return out


def xml(machine: Machine, gpus: tuple[Gpu, ...]) -> str:
    """The whole as XML."""
    out = ['<?xml version="1.0" ?>', '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">', "<nvidia_smi_log>"]
    head = {
        "timestamp": time.strftime("%a %b %e %H:%M:%S %Y"),
        "driver_version": machine.driver,
        "cuda_version": machine.cuda,
        "attached_gpus": str(len(machine.gpus)),
    }
    out += [f"\t<{tag}>{escape(value)}</{tag}>" for tag, value in head.items()]
    for gpu in gpus:
        out += [f'\t<gpu id="{gpu.bus_id}">', *_elements(gpu_tree(gpu), 2), "\t</gpu>"]
    return "\n".join([*out, "</nvidia_smi_log>", ""])


def _elements(nodes: list[Node], depth: int) -> list[str]:
    out = []
    tabs = "\t" * depth
    for _, tag, value in nodes:
        if isinstance(value, list):
            out += [f"{tabs}<{tag}>", *_elements(value, depth + 1), f"{tabs}</{tag}>"]
        elif tag == "processes":
            out += [f"{tabs}<processes>", f"{tabs}</processes>"]
        else:
            outer, _, inner = tag.partition("/")
            text = f"<{inner}>{escape(value)}</{inner}>" if inner else escape(value)
            out.append(f"{tabs}<{outer}>{text}</{outer}>")
    return out

"""`nvidia-smi --query-gpu=...`: the fields that it knows, as a table with commas."""

from __future__ import annotations

import time
from collections.abc import Callable

from .machine import Gpu
from .tree import draw, status

Ask = Callable[[Gpu], object]
NA = "[N/A]"
_INACTIVE = (
    *("sw_power_cap", "hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown"),
    *("sync_boost", "applications_clocks_setting"),
)


def _of_card(name: str) -> Ask:
    return lambda gpu: getattr(gpu.card, name)


def _if_ecc(value: object) -> Ask:
    return lambda gpu: value if gpu.card.ecc else NA


def _always(value: object) -> Ask:
    return lambda _: value


# Field: its unit, and how it is found.
FIELDS: dict[str, tuple[str, Ask]] = {
    "timestamp": ("", lambda _: time.strftime("%Y/%m/%d %H:%M:%S.000")),
    "driver_version": ("", lambda gpu: gpu.machine.driver),
    "count": ("", lambda gpu: len(gpu.machine.gpus)),
    "name": ("", _of_card("name")),
    "serial": ("", lambda gpu: gpu.serial if gpu.card.ecc else NA),
    "uuid": ("", lambda gpu: gpu.uuid),
    "pci.bus_id": ("", lambda gpu: gpu.bus_id),
    "pci.domain": ("", lambda gpu: f"0x{int(gpu.bus_id[:8], 16):04X}"),
    "pci.bus": ("", lambda gpu: f"0x{gpu.bus_id[9:11]}"),
    "pci.device": ("", lambda gpu: f"0x{gpu.bus_id[12:14]}"),
    "pci.device_id": ("", lambda gpu: f"0x{gpu.hex('device').upper()}10DE"),
    "pcie.link.gen.current": ("", lambda gpu: gpu.generation("current")),
    "pcie.link.gen.max": ("", lambda gpu: gpu.generation("max")),
    "pcie.link.width.current": ("", lambda gpu: gpu.width("current")),
    "pcie.link.width.max": ("", lambda gpu: gpu.width("max")),
    "index": ("", lambda gpu: gpu.index),
    "persistence_mode": ("", lambda gpu: "Enabled" if gpu.machine.persistence else "Disabled"),
    "vbios_version": ("", lambda gpu: gpu.vbios),
    "gpu_recovery_action": ("", _always("None")),
    "pstate": ("", _always("P0")),
    "clocks_event_reasons.gpu_idle": ("", _always("Active")),
    "memory.total": ("MiB", _of_card("memory")),
    "memory.used": ("MiB", _always(0)),
    "memory.free": ("MiB", lambda gpu: gpu.card.memory - gpu.card.memory * 6 // 1000),
    "compute_mode": ("", _always("Default")),
    "compute_cap": ("", _of_card("compute")),
    "utilization.gpu": ("%", _always(0)),
    "utilization.memory": ("%", _always(0)),
    "ecc.mode.current": ("", _if_ecc("Enabled")),
    "ecc.mode.pending": ("", _if_ecc("Enabled")),
    "ecc.errors.corrected.volatile.total": ("", _if_ecc(0)),
    "ecc.errors.uncorrected.volatile.total": ("", _if_ecc(0)),
    "ecc.errors.uncorrected.aggregate.total": ("", _if_ecc(0)),
    "retired_pages.pending": ("", _always(NA)),
    "remapped_rows.correctable": ("", _if_ecc(0)),
    "remapped_rows.uncorrectable": ("", _if_ecc(0)),
    "remapped_rows.pending": ("", _if_ecc("No")),
    "remapped_rows.failure": ("", _if_ecc("No")),
    "temperature.gpu": ("", lambda gpu: 30 + gpu.index),
    "power.draw": ("W", lambda gpu: draw(gpu)),
    "power.limit": ("W", lambda gpu: f"{gpu.card.power:.2f}"),
    "power.default_limit": ("W", lambda gpu: f"{gpu.card.power:.2f}"),
    "power.max_limit": ("W", lambda gpu: f"{gpu.card.power:.2f}"),
    "power.min_limit": ("W", lambda gpu: f"{gpu.card.least_power:.2f}"),
    "clocks.max.sm": ("MHz", _of_card("clock")),
    "clocks.max.memory": ("MHz", _of_card("memory_clock")),
    "mig.mode.current": ("", lambda gpu: "Disabled" if gpu.card.mig else NA),
    "mig.mode.pending": ("", lambda gpu: "Disabled" if gpu.card.mig else NA),
    "fabric.state": ("", lambda gpu: gpu.machine.fabric if gpu.card.links else "N/A"),
    "fabric.status": ("", lambda gpu: status(gpu.machine) if gpu.card.links else "N/A"),
}
FIELDS |= {f"clocks_event_reasons.{name}": ("", _always("Not Active")) for name in _INACTIVE}
_OTHER = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_serial": "serial", "gpu_bus_id": "pci.bus_id"}


def table(gpus: tuple[Gpu, ...], names: list[str], form: list[str]) -> tuple[str, int]:
    """The table and the exit status."""
    for name in names:
        if _OTHER.get(name, name) not in FIELDS:
            return f'Field "{name}" is not a valid field to query.\n\n', 2
    bare = "nounits" in form
    fields = [FIELDS[_OTHER.get(name, name)] for name in names]
    heads = [f"{name} [{unit}]" if unit and not bare else name for name, (unit, _) in zip(names, fields, strict=True)]
    lines = [] if "noheader" in form else [", ".join(heads)]
    for gpu in gpus:
        lines.append(", ".join(_cell(ask(gpu), "" if bare else unit) for unit, ask in fields))
    return "\n".join(lines) + "\n", 0


def _cell(value: object, unit: str) -> str:
    return f"{value} {unit}" if unit and value != NA else str(value)


def listed() -> str:
    """The names that can be asked for."""
    second = {name: other for other, name in _OTHER.items()}
    out = ['List of valid properties to query for the switch "--query-gpu":', ""]
    for name in FIELDS:
        out += [f'"{name}"' + (f' or "{second[name]}"' if name in second else ""), f"The GPU's {name}.", ""]
    return "\n".join(out) + "\n"

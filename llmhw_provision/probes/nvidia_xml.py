"""`nvidia-smi -q -x`: what `nvidia-smi -q` says, as XML. Read into the same values.

A document may carry the vendor's plain DOCTYPE line and nothing else that begins with `<!`: no subset of its own, so
no entities that grow or lead out of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from llmhw_provision.probes import nvidia_query
from llmhw_provision.probes.format import Format
from llmhw_provision.probes.nvidia_query import Path, Query
from llmhw_provision.probes.reading import unreadable
from llmhw_provision.probes.screen import inforom, screen, shows

_TOOL = "nvidia-smi -q -x"
_ROOT = "nvidia_smi_log"
_LARGEST = 16 << 20  # bytes; eight GPUs with all their clocks take one megabyte
_DEEPEST = 12
_DOCTYPE = re.compile(rf'^<!DOCTYPE {_ROOT} SYSTEM "nvsmi_device_v[0-9]+\.dtd">$')
_BUS = re.compile(r"^[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]$")
_DRIVER = {
    "driver_version": "Driver Version",
    "kmd_version": "KMD Version",
    "cuda_version": "CUDA Version",
    "cuda_umd_version": "CUDA UMD Version",
    "attached_gpus": "Attached GPUs",
}
_POWER = {
    "average_power_draw": "Average Power Draw",
    "instant_power_draw": "Instantaneous Power Draw",
    "power_draw": "Power Draw",
    "current_power_limit": "Current Power Limit",
    "enforced_power_limit": "Enforced Power Limit",
    "power_limit": "Power Limit",
}
_REASONS: dict[str, Path] = {
    "gpu_idle": ("Idle",),
    "applications_clocks_setting": ("Applications Clocks Setting",),
    "sw_power_cap": ("SW Power Cap",),
    "hw_slowdown": ("HW Slowdown",),
    "hw_thermal_slowdown": ("HW Slowdown", "HW Thermal Slowdown"),
    "hw_power_brake_slowdown": ("HW Slowdown", "HW Power Brake Slowdown"),
    "sync_boost": ("Sync Boost",),
    "sw_thermal_slowdown": ("SW Thermal Slowdown",),
    "display_clocks_setting": ("Display Clock Setting",),
}
_COUNTERS = {
    "sram_correctable": "SRAM Correctable",
    "sram_uncorrectable": "SRAM Uncorrectable",
    "sram_uncorrectable_parity": "SRAM Uncorrectable Parity",
    "sram_uncorrectable_secded": "SRAM Uncorrectable SEC-DED",
    "dram_correctable": "DRAM Correctable",
    "dram_uncorrectable": "DRAM Uncorrectable",
    "sram_threshold_exceeded": "SRAM Threshold Exceeded",
}
# Elements below <gpu> and what `nvidia-smi -q` calls the same.
_NAMES: dict[str, Path] = {
    "product_name": ("Product Name",),
    "persistence_mode": ("Persistence Mode",),
    "mig_mode/current_mig": ("MIG Mode", "Current"),
    "mig_mode/pending_mig": ("MIG Mode", "Pending"),
    "serial": ("Serial Number",),
    "uuid": ("GPU UUID",),
    "vbios_version": ("VBIOS Version",),
    "gsp_firmware_version": ("GSP Firmware Version",),
    "gpu_recovery_action": ("GPU Recovery Action",),
    "pci/pci_gpu_link_info/pcie_gen/current_link_gen": ("PCI", "GPU Link Info", "PCIe Generation", "Current"),
    "pci/pci_gpu_link_info/pcie_gen/max_link_gen": ("PCI", "GPU Link Info", "PCIe Generation", "Max"),
    "pci/pci_gpu_link_info/link_widths/current_link_width": ("PCI", "GPU Link Info", "Link Width", "Current"),
    "pci/pci_gpu_link_info/link_widths/max_link_width": ("PCI", "GPU Link Info", "Link Width", "Max"),
    "pci/replay_counter": ("PCI", "Replays Since Reset"),
    "performance_state": ("Performance State",),
    "fb_memory_usage/total": ("FB Memory Usage", "Total"),
    "fb_memory_usage/used": ("FB Memory Usage", "Used"),
    "bar1_memory_usage/total": ("BAR1 Memory Usage", "Total"),
    "ecc_mode/current_ecc": ("ECC Mode", "Current"),
    "ecc_mode/pending_ecc": ("ECC Mode", "Pending"),
    "ecc_errors/channel_repair_pending": ("ECC Errors", "Channel Repair Pending"),
    "ecc_errors/tpc_repair_pending": ("ECC Errors", "TPC Repair Pending"),
    "retired_pages/multiple_single_bit_retirement/retired_count": ("Retired Pages", "Single Bit ECC"),
    "retired_pages/double_bit_retirement/retired_count": ("Retired Pages", "Double Bit ECC"),
    "retired_pages/pending_blacklist": ("Retired Pages", "Pending Page Blacklist"),
    "remapped_rows": ("Remapped Rows",),
    "remapped_rows/remapped_row_corr": ("Remapped Rows", "Correctable Error"),
    "remapped_rows/remapped_row_unc": ("Remapped Rows", "Uncorrectable Error"),
    "remapped_rows/remapped_row_pending": ("Remapped Rows", "Pending"),
    "remapped_rows/remapped_row_failure": ("Remapped Rows", "Remapping Failure Occurred"),
    "temperature/gpu_temp": ("Temperature", "GPU Current Temp"),
    "temperature/memory_temp": ("Temperature", "Memory Current Temp"),
    "fabric/state": ("Fabric", "State"),
    "fabric/status": ("Fabric", "Status"),
    "fabric/cliqueId": ("Fabric", "CliqueId"),
    "fabric/clusterUuid": ("Fabric", "ClusterUUID"),
    "fabric/health/summary": ("Fabric", "Health", "Summary"),
    "fabric/health/bandwidth": ("Fabric", "Health", "Bandwidth"),
    **{
        f"{block}/{name}": (head, words)
        for block, head in (("gpu_power_readings", "GPU Power Readings"), ("power_readings", "Power Readings"))
        for name, words in _POWER.items()
    },
    **{
        f"clocks_{word}_reasons/clocks_{word}_reason_{name}": (f"Clocks {word.capitalize()} Reasons", *path)
        for word in ("event", "throttle")
        for name, path in _REASONS.items()
    },
    **{
        f"ecc_errors/{span}/{name}": ("ECC Errors", span.capitalize(), words)
        for span in ("volatile", "aggregate")
        for name, words in _COUNTERS.items()
    },
}


def parse(raw: bytes) -> Query:
    """The values by GPU, under the names of `nvidia-smi -q`; raises ProbeError for XML that is cut off or not plain."""
    if len(raw) > _LARGEST:
        raise unreadable(_TOOL, f"{len(raw)} bytes", f"more than {_LARGEST}")
    text, corrupted = inforom(screen(_TOOL, raw))
    body = [line for line in text if not _DOCTYPE.match(line.strip())]
    strange = next((line for line in body if "<!" in line), None)
    if strange is not None or len(text) - len(body) > 1:
        raise unreadable(_TOOL, strange or "<!DOCTYPE", "a declaration that nvidia-smi does not write")
    try:
        root = ElementTree.fromstring("\n".join(body))
    except (ElementTree.ParseError, ValueError) as error:
        raise unreadable(_TOOL, body[-1], f"not XML, or cut off: {error}") from None
    if root.tag != _ROOT:
        raise unreadable(_TOOL, root.tag, f"not {_ROOT}")
    driver = {_DRIVER[item.tag]: _text(item) for item in root if item.tag in _DRIVER}
    gpus: dict[str, dict[Path, str]] = {}
    for item in root.iterfind("gpu"):
        bus = item.get("id", "")
        if not _BUS.match(bus) or bus in gpus:
            raise unreadable(_TOOL, f"gpu {bus}", "no PCI address, or listed twice")
        gpus[bus] = {_NAMES[path]: said for path, said in _leaves(item, "", 0) if path in _NAMES}
    announced = driver.get("Attached GPUs", "")
    if not gpus or (announced and announced != str(len(gpus))):
        raise unreadable(_TOOL, f"attached_gpus {announced}", f"{len(gpus)} listed")
    return Query(driver, gpus, whole=True, corrupted=tuple(corrupted))


def _text(item: ElementTree.Element) -> str:
    return (item.text or "").strip()


def _leaves(item: ElementTree.Element, path: str, depth: int) -> Iterator[tuple[str, str]]:
    """Path and text of every element below `item` that holds text and no elements."""
    if depth > _DEEPEST:
        raise unreadable(_TOOL, path, "nested too deep")
    for child in item:
        below = f"{path}/{child.tag}" if path else child.tag
        if len(child):
            yield from _leaves(child, below, depth + 1)
        else:
            yield below, _text(child)


def facts(raw: bytes) -> dict[str, object]:
    """The same facts as of `nvidia-smi -q`."""
    return nvidia_query.facts_of_query(parse(raw))


FORMATS: tuple[Format, ...] = (Format(_TOOL, shows(rf"\s*<(?:!DOCTYPE )?{_ROOT}[ >]"), facts),)

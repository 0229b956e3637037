"""PCI functions and network interfaces, straight from sysfs: a bare server need not have lspci or ethtool."""

from __future__ import annotations

import re

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.machine import Nic, PciDevice
from llmhw_provision.probes.reading import lines, output, unreadable

_PCI = "/sys/bus/pci/devices"
_NET = "/sys/class/net"
_FILES = "*/class */vendor */device */numa_node */infiniband/*/ports/*/link_layer"
DEVICES = Command("pci", ("sh", "-c", f"cd {_PCI} 2>/dev/null && grep -sH . {_FILES}; true"), 15)
INTERFACES = Command(
    "net",
    ("sh", "-c", f"cd {_NET} && grep -sH . */address */operstate */speed */device/uevent; true"),
    15,
)
COMMANDS = (DEVICES, INTERFACES)

_DEVICE = re.compile(
    r"^([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/"
    r"(?:(class|vendor|device|numa_node)|infiniband/([\w.-]{1,63})/ports/[0-9]{1,3}/link_layer):(\S+)$"
)
_INTERFACE = re.compile(r"^([^/\s]{1,15})/(address|operstate|speed|device/uevent):(.*)$")
_HEX = re.compile(r"^0x[0-9a-f]{4,6}$")


def parse_devices(raw: bytes) -> tuple[PciDevice, ...]:
    """Every PCI function, by address; ids are hex digits without 0x, the class without its interface byte.

    An adapter with a driver for RDMA has the name of its RDMA device, and the link layer of its last port.
    """
    found: dict[str, dict[str, str]] = {}
    for line in lines("sysfs pci", raw):
        match = _DEVICE.match(line)
        if not match:
            raise unreadable("sysfs pci", line)
        address, key, rdma, value = match.groups()
        found.setdefault(address, {}).update({key: value} if key else {"rdma": rdma, "link_layer": value})
    return tuple(_device(address, found[address]) for address in sorted(found))


def _device(address: str, values: dict[str, str]) -> PciDevice:
    for key in ("class", "vendor", "device"):
        if not _HEX.match(values.get(key, "")):
            raise unreadable("sysfs pci", f"{address} {key} {values.get(key)}")
    node = values.get("numa_node", "-1")
    if not re.match(r"^-?[0-9]+$", node):
        raise unreadable("sysfs pci", f"{address} numa_node {node}")
    return PciDevice(
        address=address,
        class_id=values["class"][2:6],
        vendor_id=values["vendor"][2:],
        device_id=values["device"][2:],
        numa_node=int(node),
        rdma=values.get("rdma", ""),
        link_layer=values.get("link_layer", ""),
    )


def parse_interfaces(raw: bytes) -> tuple[Nic, ...]:
    """Network interfaces that are hardware (they have a device and a driver), by name."""
    found: dict[str, dict[str, str]] = {}
    for line in lines("sysfs net", raw):
        match = _INTERFACE.match(line)
        if not match:
            raise unreadable("sysfs net", line)
        name, key, value = match.groups()
        if key == "device/uevent":
            key, _, value = value.partition("=")
        found.setdefault(name, {})[key] = value
    return tuple(_nic(name, found[name]) for name in sorted(found) if "DRIVER" in found[name])


def _nic(name: str, values: dict[str, str]) -> Nic:
    speed = values.get("speed", "")
    return Nic(
        name=name,
        mac=values.get("address", ""),
        driver=values["DRIVER"],
        speed_mbit=int(speed) if speed.isdecimal() and int(speed) > 0 else None,
        up=values.get("operstate") == "up",
    )


def devices(evidence: Evidence) -> tuple[PciDevice, ...]:
    """The PCI functions of the host."""
    return parse_devices(output(evidence, DEVICES.key))


def interfaces(evidence: Evidence) -> tuple[Nic, ...]:
    """The network hardware of the host."""
    return parse_interfaces(output(evidence, INTERFACES.key))

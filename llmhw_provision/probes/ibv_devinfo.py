"""RDMA devices as `ibv_devinfo` lists them. `transport: InfiniBand` is said of Ethernet too; the link layer tells."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format, holds, message
from llmhw_provision.probes.reading import plain_lines, unreadable, whole

COMMAND = Command("ibv_devinfo", ("ibv_devinfo",), 20)

_PAIR = re.compile(r"^\s+([\w ]+):\s*(.*?)\s*$")
_DETAIL = re.compile(r"^\s+(?:GID\[\s*[0-9]+\]:|[A-Z][A-Z0-9_]{3,}\s*$|Unknown flags: |Device supports )")  # with -v
_STATE = re.compile(r"^PORT_([A-Z_]+) \([0-9]+\)$")


@dataclass(frozen=True)
class Port:
    """One port. `state` as the library names it (PORT_ACTIVE); `link_layer` is empty in versions before 2011."""

    device: str
    state: str
    link_layer: str


def parse(raw: bytes) -> tuple[Port, ...]:
    """The ports of all devices; raises ProbeError when one is cut off."""
    devices: list[tuple[str, dict[str, str], list[dict[str, str]]]] = []
    for line in plain_lines("ibv_devinfo", raw):
        words = line.split()
        if line.startswith("hca_id:") and len(words) == 2:
            if any(name == words[1] for name, _, _ in devices):
                raise unreadable("ibv_devinfo", line, "the device is listed twice")
            devices.append((words[1], {}, []))
        elif words and words[0] == "port:" and devices:
            devices[-1][2].append({})
        elif (match := _PAIR.match(line)) and devices:
            name, about, ports = devices[-1]
            (ports[-1] if ports else about)[match[1]] = match[2]
        elif words and not (devices and _DETAIL.match(line)):
            raise unreadable("ibv_devinfo", line)
    found: list[Port] = []
    for name, about, ports in devices:
        if whole("ibv_devinfo", about.get("phys_port_cnt"), f"phys_port_cnt of {name}") != len(ports):
            raise unreadable("ibv_devinfo", f"{name} with {len(ports)} ports", "cut off")
        found += [_port(name, index, values) for index, values in enumerate(ports, 1)]
    return tuple(found)


def _port(name: str, index: int, values: dict[str, str]) -> Port:
    state = _STATE.match(values.get("state", ""))
    if not state or "port_lmc" not in values:
        raise unreadable("ibv_devinfo", f"{name} port {index} state {values.get('state', '')!r}", "cut off")
    return Port(name if index == 1 else f"{name}/{index}", f"PORT_{state[1]}", values.get("link_layer", ""))


def facts(raw: bytes) -> dict[str, object]:
    """Per device ACTIVE or DOWN, `Ethernet DOWN` on Ethernet; of a single device also its name and state."""
    ports = parse(raw)
    found: dict[str, object] = {"devices": [port.device for port in ports]}
    for port in ports:
        state = port.state.removeprefix("PORT_")
        if port.link_layer:
            found[port.device] = state if port.link_layer == "InfiniBand" else f"{port.link_layer} {state}"
    if len(ports) == 1:
        found |= {"device": ports[0].device, "state": ports[0].state}
    return found


_FAILED = rb"\A(Failed to get IB devices list: .+|No IB devices found)\s*\n\Z"
FORMATS = (
    Format("ibv_devinfo", holds(rb"^hca_id:\s+\S+\s*$"), facts),
    Format(
        "ibv_devinfo without devices", holds(_FAILED), message("ibv_devinfo", {"rc": 255, "error": True, "devices": []})
    ),
)

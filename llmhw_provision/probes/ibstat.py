"""InfiniBand adapters as `ibstat` and `ibstatus` list them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format, holds, message
from llmhw_provision.probes.reading import exact, number, plain_lines, unreadable, whole

COMMAND = Command("ibstat", ("ibstat",), 20)

_CA = re.compile(r"^CA '([^']+)'$")
_PORT = re.compile(r"^\s+Port ([0-9]+):$")
_PAIR = re.compile(r"^\s+([A-Za-z][A-Za-z ]*):\s*(.*?)\s*$")
_PANIC = re.compile(r"^ibpanic: \[[0-9]+\] .*$")
_DEVICE = re.compile(r"'([^']+)'")
# infiniband-diags (ibstat.c): the names it has for the states of a port
_STATES = ("Down", "Initializing", "Armed", "Active")
_PHYSICAL = (
    *("No state change", "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp"),
    *("LinkErrorRecovery", "PhyTest"),
)
_NEEDED = ("State", "Physical state", "Rate", "SM lid", "Port GUID", "Link layer")


@dataclass(frozen=True)
class Port:
    """One port; rate in Gbit/s. `name` is the adapter's, with /PORT where it has several ports."""

    ca: str
    name: str
    type: str
    state: str
    physical: str
    rate_gbit: int | float
    lid: int
    sm_lid: int
    link_layer: str

    @property
    def infiniband(self) -> bool:
        """Whether the port speaks InfiniBand, not Ethernet."""
        return self.link_layer == "InfiniBand"


def parse(raw: bytes) -> tuple[Port, ...]:
    """The ports of all adapters, in ibstat's order; raises ProbeError when one is cut off."""
    found: list[tuple[str, dict[str, str], dict[str, dict[str, str]]]] = []
    current: dict[str, str] = {}
    for line in plain_lines("ibstat", raw):
        if match := _CA.match(line):
            if any(name == match[1] for name, _, _ in found):
                raise unreadable("ibstat", line, "the adapter is listed twice")
            current = {}
            found.append((match[1], current, {}))
        elif (match := _PORT.match(line)) and found:
            current = found[-1][2].setdefault(match[1], {})
        elif (match := _PAIR.match(line)) and found:
            current[match[1]] = match[2]
        elif line.strip():
            raise unreadable("ibstat", line)
    return tuple(port for ca, about, ports in found for port in _ports(ca, about, ports))


def _ports(ca: str, about: dict[str, str], ports: dict[str, dict[str, str]]) -> list[Port]:
    if whole("ibstat", about.get("Number of ports"), f"number of ports of {ca}") != len(ports):
        raise unreadable("ibstat", f"CA '{ca}' with {len(ports)} ports", "cut off")
    return [_port(ca, about, key, values, several=len(ports) > 1) for key, values in ports.items()]


def _port(ca: str, about: dict[str, str], key: str, values: dict[str, str], *, several: bool) -> Port:
    missing = [name for name in _NEEDED if name not in values]
    if missing:
        raise unreadable("ibstat", f"CA '{ca}' port {key} without {', '.join(missing)}", "cut off")
    if values["State"] not in _STATES or values["Physical state"] not in _PHYSICAL:
        raise unreadable(
            "ibstat", f"CA '{ca}' port {key} {values['State']}, {values['Physical state']}", "unknown state"
        )
    rate = values["Rate"].split()[0] if values["Rate"] else ""
    return Port(
        ca=ca,
        name=f"{ca}/{key}" if several else ca,
        type=about.get("CA type", ""),
        state=values["State"],
        physical=values["Physical state"],
        rate_gbit=exact(number("ibstat", rate, f"rate of {ca}")),
        lid=whole("ibstat", values.get("Base lid", "0"), f"lid of {ca}"),
        sm_lid=whole("ibstat", values["SM lid"], f"SM lid of {ca}"),
        link_layer=values["Link layer"],
    )


def bad_ports(ports: tuple[Port, ...]) -> dict[str, int | float | str]:
    """InfiniBand ports that do not carry traffic, or run slower than others of their adapter type, and how they are."""
    best: dict[str, int | float] = {}
    for port in ports:
        if port.infiniband and port.state == "Active":
            best[port.type] = max(best.get(port.type, 0), port.rate_gbit)
    found: dict[str, int | float | str] = {}
    for port in ports:
        if port.infiniband and port.state != "Active":
            found[port.name] = port.physical if port.physical != "LinkUp" else port.state
        elif port.infiniband and port.rate_gbit < best[port.type]:
            found[port.name] = port.rate_gbit
    return found


def facts(raw: bytes) -> dict[str, object]:
    """What the listing says as a whole; one port's own values when there is one port."""
    ports = parse(raw)
    fabric = [port for port in ports if port.infiniband]
    found: dict[str, object] = {
        "rc": 0,
        "cas": list(dict.fromkeys(port.ca for port in ports)),
        "ib": len(fabric),
        "eth": sum(port.link_layer == "Ethernet" for port in ports),
        "initializing": sum(port.state == "Initializing" for port in fabric),
        "ib_active": sum(port.state == "Active" for port in fabric),
        "ib_down": sum(port.state == "Down" for port in fabric),
        "bad": bad_ports(ports),
    }
    for rate in {port.rate_gbit for port in fabric} | {100, 200, 400, 800}:
        active = [port for port in fabric if port.state == "Active" and port.rate_gbit == rate]
        found[f"ib_active_{rate}"] = len(active)
    if fabric:
        found["verdict"] = _verdict(fabric, bad=bool(found["bad"]))
    if len(ports) == 1:
        only = ports[0]
        found |= {"state": only.state, "phys": only.physical, "rate": only.rate_gbit, "sm_lid": only.sm_lid}
        found |= {"lid": only.lid, "link_layer": only.link_layer, "device": only.ca}
    return found


def _verdict(fabric: list[Port], *, bad: bool) -> str:
    linked = [port for port in fabric if port.physical == "LinkUp"]
    if linked and all(port.state == "Initializing" and port.sm_lid == 0 for port in linked):
        return "fail: no SM"
    return "fail" if bad else "pass"


def _panic(raw: bytes) -> dict[str, object]:
    """What stopped ibstat; the ports listed before it are not the whole machine."""
    line = next((text for text in plain_lines("ibstat", raw) if _PANIC.match(text)), "")
    if not line:
        raise unreadable("ibstat", "", "no panic line")
    device = _DEVICE.search(line)
    return {"error": f"ibpanic {device[1]}" if device else line, "verdict": "fail", "rc": 255}


def _status(raw: bytes) -> dict[str, object]:
    """Per adapter the rate, and `NAME.state`, as `ibstatus` shows them from sysfs."""
    found: dict[str, object] = {}
    blocks: dict[str, dict[str, str]] = {}
    for line in plain_lines("ibstatus", raw):
        match = re.match(r"^Infiniband device '([^']+)' port ([0-9]+) status:$", line)
        if match:
            name = match[1] if match[2] == "1" else f"{match[1]}/{match[2]}"
            current = blocks.setdefault(name, {})
        elif line.strip() and blocks:
            key, colon, value = line.strip().partition(":")
            if not colon:
                raise unreadable("ibstatus", line)
            current[key] = value.strip()
        elif line.strip():
            raise unreadable("ibstatus", line)
    for name, values in blocks.items():
        if not {"state", "phys state", "rate", "link_layer"} <= values.keys():
            raise unreadable("ibstatus", f"{name} without {'state' if 'state' not in values else 'rate'}", "cut off")
        found |= {name: values["rate"], f"{name}.state": values["state"], f"{name}.phys_state": values["phys state"]}
        found[f"{name}.link_layer"] = values["link_layer"]
    return found


# ibstat prints nothing and ends with 0 where there is no adapter: that is no pass.
_NOTHING: dict[str, object] = {"rc": 0, "cas": [], "verdict": "fail when HCAs are expected"}

FORMATS = (
    Format("ibstat panic", holds(rb"^ibpanic: \[[0-9]+\] .*\n"), _panic),
    Format("ibstat", holds(rb"\A\s*CA '[^'\n]+'\r?$"), facts),
    Format("ibstatus", holds(rb"^Infiniband device '[^'\n]+' port [0-9]+ status:\r?$"), _status),
    Format(
        "ibstatus no device",
        holds(rb"\AFatal error:\s+No devices\s*\Z"),
        message("ibstatus", {"rc": 255, "error": True}),
    ),
)
NOTHING = Format("ibstat without adapters", holds(rb"\A\s*(\(empty output, rc 0\)\s*)?\Z"), message("ibstat", _NOTHING))

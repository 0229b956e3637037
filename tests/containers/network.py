"""The private network of a lab: a bridge on this machine, one network namespace per container, NAT outwards."""

import ipaddress
import json
from collections.abc import Iterable
from pathlib import Path

from tests.containers.commands import LabError, call
from tests.containers.identity import Identity
from tests.containers.settings import Settings

# RFC 2544's range for benchmarks: no real network has it. Its lower half is left to proxies that invent
# addresses there (198.18.0.0/16).
_RANGE = ipaddress.IPv4Network("198.19.0.0/16")
_RESOLV_CONF = (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf"))


class Network:
    """A bridge with NAT; ``attach`` gives a container its namespace and address."""

    def __init__(self, identity: Identity) -> None:
        """Make bridge and NAT on a free /24; call it under ``machine_lock``."""
        self._identity = identity
        self._subnet = free_subnet(_used_networks(), start=int(identity.key, 16))
        self._make_bridge()
        self._make_nat()
        self.let_out()

    def address(self, number: int) -> str:
        return str(self._subnet[number])

    def attach(self, number: int) -> str:
        """The address of container ``number``, whose namespace ``identity.machine(number)`` now exists."""
        name, address = self._identity.machine(number), self.address(number)
        call("ip", "netns", "add", name)
        call("ip", "link", "add", name, "type", "veth", "peer", "name", "host0", "netns", name)
        call("ip", "link", "set", name, "master", self._identity.bridge, "up")
        lines = (
            f"addr add {address}/{self._subnet.prefixlen} dev host0",
            "link set lo up",
            "link set host0 up",
            f"route add default via {self.address(1)}",
        )
        call("ip", "-n", name, "-batch", "-", given="\n".join(lines))
        return address

    def let_out(self) -> None:
        """Let the containers reach what this machine reaches; call it under ``machine_lock``."""
        settings = Settings()
        for route in json.loads(call("ip", "-j", "-4", "route", "show", "default")):
            settings.forward_from(route["dev"])

    def _make_bridge(self) -> None:
        bridge = self._identity.bridge
        call("ip", "link", "add", bridge, "type", "bridge", "forward_delay", "0")
        call("ip", "addr", "add", f"{self.address(1)}/{self._subnet.prefixlen}", "dev", bridge)
        call("ip", "link", "set", bridge, "up")
        Path(f"/proc/sys/net/ipv4/conf/{bridge}/forwarding").write_text("1")

    def _make_nat(self) -> None:
        rules = f"""table ip {self._identity.table} {{
            chain outwards {{
                type nat hook postrouting priority srcnat; policy accept;
                ip saddr {self._subnet} ip daddr != {self._subnet} masquerade
            }}
        }}"""
        call("nft", "-f", "-", given=rules)


def free_subnet(used: Iterable[ipaddress.IPv4Network], *, start: int) -> ipaddress.IPv4Network:
    """A /24 that overlaps none of the networks this machine knows; ``start`` says where to begin looking."""
    taken = tuple(used)
    subnets = tuple(_RANGE.subnets(new_prefix=24))
    for offset in range(len(subnets)):
        subnet = subnets[(start + offset) % len(subnets)]
        if not any(subnet.overlaps(network) for network in taken):
            return subnet
    raise LabError(f"every /24 of {_RANGE} overlaps a route of this machine")


def nameservers(candidates: Iterable[Path] = _RESOLV_CONF) -> str:
    """A resolv.conf for the containers: this machine's, as far as its servers can be reached from elsewhere."""
    for path in candidates:
        if not path.is_file():
            continue
        lines = [line for line in path.read_text().splitlines() if not line.startswith("nameserver 127.")]
        if any(line.startswith("nameserver ") for line in lines):
            return "\n".join(lines) + "\n"
    return ""


def _used_networks() -> list[ipaddress.IPv4Network]:
    """What this machine has a route to and its name servers; default routes, a VPN's halves too, are no use."""
    routes = json.loads(call("ip", "-j", "-4", "route", "show", "table", "all"))
    found = [ipaddress.IPv4Network(route["dst"], strict=False) for route in routes if route["dst"] != "default"]
    found = [network for network in found if network.prefixlen >= 8]
    servers = (line.split()[1] for line in nameservers().splitlines() if line.startswith("nameserver "))
    return found + [ipaddress.IPv4Network(server) for server in servers if ":" not in server]

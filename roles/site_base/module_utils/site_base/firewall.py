"""Opening ports in the firewall that is found: nftables, ufw or firewalld. Pure functions of what was read.

nftables: a packet must be accepted by every base chain it meets, so a table of our own cannot let anything in. Ours is
one chain of its own in the table that drops, and one jump to it at the top of the chain that drops.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

SCRIPT = "/etc/llmhw/firewall.sh"
DROP_IN = "/etc/systemd/system/nftables.service.d/50-llmhw.conf"
UNIT = "/etc/systemd/system/llmhw-firewall.service"
WANTED = "/etc/systemd/system/multi-user.target.wants/llmhw-firewall.service"
POLICY, IPSETS = "/etc/firewalld/policies/llmhw.xml", "/etc/firewalld/ipsets/llmhw-{}.xml"
CHAIN = "llmhw"
_PASSING = {"counter", "log", "limit"}  # statements that do not choose packets


class Chain(NamedTuple):
    """A base chain of nftables that decides about packets for this host, and drops."""

    family: str
    table: str
    name: str


def dropping_chains(ruleset: str) -> list[Chain]:
    """The input chains in `nft -j list ruleset` that drop what no rule accepts."""
    items = json.loads(ruleset)["nftables"] if ruleset.strip() else []
    rules: dict[tuple[str, str, str], list[list[Any]]] = {}
    for rule in (item["rule"] for item in items if "rule" in item):
        rules.setdefault((rule["family"], rule["table"], rule["chain"]), []).append(rule.get("expr", []))
    found = []
    for chain in (item["chain"] for item in items if "chain" in item):
        if chain.get("hook") != "input" or chain.get("type") != "filter":
            continue
        key = (chain["family"], chain["table"], chain["name"])
        if chain["family"] in ("ip", "ip6", "inet") and (chain.get("policy") == "drop" or _drops(key, rules, set())):
            found.append(Chain(*key))
    return found


def _drops(key: tuple[str, str, str], rules: dict[Any, list[list[Any]]], seen: set[Any]) -> bool:
    """Whether a chain, or one it always goes on to, ends in dropping everything."""
    if key in seen:
        return False
    seen.add(key)
    for expressions in rules.get(key, []):
        words = [word for expression in expressions for word in expression]
        rest = [expression for expression in expressions if not _PASSING & set(expression)]
        if len(rest) != 1:
            continue
        if "drop" in words or "reject" in words:
            return True
        for verb in ("jump", "goto"):
            if verb in rest[0] and _drops((key[0], key[1], rest[0][verb]["target"]), rules, seen):
                return True
    return False


def lines(chain: Chain, ports: Sequence[str], sources: Sequence[str]) -> list[str]:
    """The rules of our chain in one table, in nft's words."""
    found = []
    for family, word in (("4", "ip"), ("6", "ip6")):
        addresses = [source for source in sources if (":" in source) == (family == "6")]
        if not addresses or chain.family not in ("inet", word):
            continue
        for protocol in ("tcp", "udp"):
            numbers = [port.partition("/")[0] for port in ports if port.endswith("/" + protocol)]
            if numbers:
                match = f"{word} saddr {{ {', '.join(addresses)} }} {protocol} dport {{ {', '.join(numbers)} }}"
                found.append(f"{match} accept")
    return found


def mark(chain: Chain, ports: Sequence[str], sources: Sequence[str]) -> str:
    """The comment that each of our rules carries: tells whether the rules in force are the planned ones."""
    text = "\n".join(lines(chain, ports, sources))
    return f"llmhw-provision {hashlib.sha256(text.encode()).hexdigest()[:12]}"


def script(chains: Iterable[Chain], ports: Sequence[str], sources: Sequence[str]) -> str:
    """A shell script that puts our chains and jumps in place; run again it changes nothing."""
    found = ["#!/bin/sh", "# Written by llmhw-provision: planned ports, open for the hosts of the site only.", "set -e"]
    for chain in chains:
        where = f"{chain.family} {chain.table}"
        comment = mark(chain, ports, sources)
        rules = [f"add chain {where} {CHAIN}", f"flush chain {where} {CHAIN}"]
        rules += [f'add rule {where} {CHAIN} {line} comment "{comment}"' for line in lines(chain, ports, sources)]
        found += ["nft -f - <<'END'", *rules, "END"]
        found.append(f"nft list chain {where} {chain.name} | grep -q 'jump {CHAIN}' ||")
        found.append(f"    nft insert rule {where} {chain.name} jump {CHAIN}")
    return "\n".join(found) + "\n"


def in_force(ruleset: str, chain: Chain, ports: Sequence[str], sources: Sequence[str]) -> bool:
    """Whether the jump stands in the chain that drops and our chain holds exactly the planned rules."""
    rules = [item["rule"] for item in json.loads(ruleset)["nftables"] if "rule" in item]
    mine = [rule for rule in rules if (rule["family"], rule["table"]) == chain[:2]]
    jumps = [rule for rule in mine if rule["chain"] == chain.name and {"jump": {"target": CHAIN}} in rule["expr"]]
    comments = [rule.get("comment") for rule in mine if rule["chain"] == CHAIN]
    wanted = [mark(chain, ports, sources)] * len(lines(chain, ports, sources))
    return len(jumps) == 1 and comments == wanted


def unit_files(nftables_enabled: bool) -> dict[str, str]:
    """What loads our rules after the site's own, at boot and at each reload."""
    if nftables_enabled:
        return {DROP_IN: f"[Service]\nExecStart=-/bin/sh {SCRIPT}\nExecReload=-/bin/sh {SCRIPT}\n"}
    after = "nftables.service netfilter-persistent.service iptables.service"
    unit = f"[Unit]\nDescription=Planned ports of llmhw-provision\nAfter={after}\n\n"
    unit += f"[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh {SCRIPT}\n\n"
    return {UNIT: unit + "[Install]\nWantedBy=multi-user.target\n"}


def ufw_rules(ports: Sequence[str], sources: Sequence[str]) -> list[str]:
    """What `ufw` must be told, one line per host and protocol, as `ufw show added` prints them."""
    found = []
    for source in sources:
        for protocol in ("tcp", "udp"):
            numbers = [port.partition("/")[0].replace("-", ":") for port in ports if port.endswith("/" + protocol)]
            if numbers:
                found.append(f"allow from {source} to any port {','.join(numbers)} proto {protocol} comment 'llmhw'")
    return found


def firewalld_files(ports: Sequence[str], sources: Sequence[str]) -> dict[str, str]:
    """A policy of our own (no zone of the site is altered) and the sets of addresses it lets in."""
    head = '<?xml version="1.0" encoding="utf-8"?>\n'
    files: dict[str, str] = {}
    rules = ""
    for family, word in (("ipv4", "inet"), ("ipv6", "inet6")):
        addresses = [source for source in sources if (":" in source) == (family == "ipv6")]
        if not addresses:
            continue
        entries = "".join(f"  <entry>{address}</entry>\n" for address in addresses)
        option = f'  <option name="family" value="{word}"/>\n'
        files[IPSETS.format(family)] = f'{head}<ipset type="hash:ip">\n{option}{entries}</ipset>\n'
        for port in ports:
            number, _, protocol = port.partition("/")
            source = f'<source ipset="llmhw-{family}"/>'
            rules += (
                f'  <rule family="{family}">{source}<port port="{number}" protocol="{protocol}"/><accept/></rule>\n'
            )
    zones = '  <ingress-zone name="ANY"/>\n  <egress-zone name="HOST"/>\n'
    files[POLICY] = f'{head}<policy priority="-100" target="CONTINUE">\n{zones}{rules}</policy>\n'
    return files

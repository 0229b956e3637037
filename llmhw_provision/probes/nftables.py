"""Input chains of nftables that drop, and what our chain lets in, from `nft -j list ruleset`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from llmhw_provision.probes.reading import json_object, unreadable

CHAIN = "llmhw"


@dataclass(frozen=True)
class Gate:
    """One input chain that drops, and for whom our chain behind it opens what."""

    name: str
    jumps: bool
    opens: frozenset[tuple[str, str]]  # address, port with protocol


def gates(text: str) -> tuple[Gate, ...]:
    """Every input chain that drops what no rule accepts; none when the text is empty (nothing is loaded)."""
    if not text.strip():
        return ()
    items = json_object("nft", text.encode()).get("nftables")
    if not isinstance(items, list):
        raise unreadable("nft", text[:80], "no 'nftables' list")
    rules = [item["rule"] for item in items if "rule" in item]
    found = []
    for chain in (item["chain"] for item in items if "chain" in item):
        where = (chain["family"], chain["table"])
        inside = [rule for rule in rules if (rule["family"], rule["table"]) == where]
        mine = [rule["expr"] for rule in inside if rule["chain"] == chain["name"]]
        if (
            chain.get("hook") != "input"
            or chain.get("type") != "filter"
            or chain["family"] not in ("ip", "ip6", "inet")
        ):
            continue
        if chain.get("policy") == "drop" or any(_ends(rule, inside) for rule in mine):
            opened = {pair for rule in inside if rule["chain"] == CHAIN for pair in _opened(rule["expr"])}
            jumps = any({"jump": {"target": CHAIN}} in rule for rule in mine)
            found.append(Gate(" ".join((*where, chain["name"])), jumps, frozenset(opened)))
    return tuple(found)


def _ends(expressions: list[dict[str, Any]], inside: list[dict[str, Any]], depth: int = 0) -> bool:
    """Whether a rule drops every packet that comes to it, by itself or in the chain it goes on to."""
    rest = [expression for expression in expressions if not {"counter", "log", "limit"} & set(expression)]
    if len(rest) != 1 or depth > 16:
        return False
    for verb in ("jump", "goto"):
        if verb in rest[0]:
            chain = [rule["expr"] for rule in inside if rule["chain"] == rest[0][verb]["target"]]
            return any(_ends(rule, inside, depth + 1) for rule in chain)
    return "drop" in rest[0] or "reject" in rest[0]


def _opened(expressions: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Address and port of each pair that a rule `saddr … dport … accept` lets in."""
    matches = {}
    for expression in expressions:
        if "match" in expression:
            payload = expression["match"]["left"].get("payload", {})
            matches[payload.get("field", "")] = (payload.get("protocol", ""), expression["match"]["right"])
    if {"accept": None} not in expressions or set(matches) != {"saddr", "dport"}:
        return
    protocol = matches["dport"][0]
    for address in _items(matches["saddr"][1]):
        for port in _items(matches["dport"][1]):
            yield address, f"{port}/{protocol}"


def _items(right: Any) -> list[str]:
    values = right["set"] if isinstance(right, dict) and "set" in right else [right]
    return ["-".join(str(end) for end in item["range"]) if isinstance(item, dict) else str(item) for item in values]

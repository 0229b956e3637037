"""The InfiniBand fabric seen from a host: sminfo, ibhosts, iblinkinfo, perfquery, and `rdma link`."""

from __future__ import annotations

import re

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format, holds
from llmhw_provision.probes.reading import json_value, plain_lines, rows, unreadable, whole

SMINFO = Command("sminfo", ("sminfo",), 20)
HOSTS = Command("ibhosts", ("ibhosts",), 60)
LINKS = Command("iblinkinfo", ("iblinkinfo",), 60)
RDMA_LINK = Command("rdma-link", ("rdma", "link"), 10)
COMMANDS = (SMINFO, HOSTS, LINKS, RDMA_LINK)

_SM = re.compile(
    r"^sminfo: sm lid ([0-9]+) sm guid (0x[0-9a-f]+), activity count ([0-9]+) priority ([0-9]+)\s+"
    r"state ([0-9]+) SMINFO_([A-Z]+)\s*$"
)
_NODE = re.compile(r'^(Ca|Switch)\s*: (0x[0-9a-f]+) ports ([0-9]+) "([^"]*)"')
_LINK = re.compile(r"==\(\s*(?:([0-9]+)X\s+([0-9.]+ Gbps|FDR10)\s+)?([A-Za-z]+)/\s*([A-Za-z]+)\s*\)==>.*\((.*)\)\s*$")
_COUNTER = re.compile(r"^([A-Za-z0-9]+):\.*((?:0x[0-9a-fA-F]+)|(?:[0-9]+)|N/A)$")
_RDMA = re.compile(r"^(?:[0-9]+/[0-9]+: |link )([^\s/]+)/([0-9]+):? (.*)$")
_ERRORS = re.compile(r"(Error|Errors|Dropped|Discards|Downed|Recovery)(Counter|Ext)?$|Errors")


def sm_facts(raw: bytes) -> dict[str, object]:
    """The subnet manager that answers."""
    found = plain_lines("sminfo", raw)
    match = _SM.match(found[0]) if len(found) == 1 else None
    if not match:
        raise unreadable("sminfo", found[0] if found else "")
    lid, guid, count, priority, _, state = match.groups()
    numbers = {"sm_lid": int(lid), "activity": int(count), "priority": int(priority)}
    return {**numbers, "sm_guid": guid, "state": state, "error": False, "rc": 0}


def node_facts(raw: bytes) -> dict[str, object]:
    """The nodes that ibhosts, ibswitches or ibnodes list."""
    found = []
    for line in plain_lines("ibhosts", raw):
        match = _NODE.match(line)
        if not match:
            raise unreadable("ibhosts", line)
        found.append(match)
    hosts = [match[4].split()[0] if match[4] else match[2] for match in found if match[1] == "Ca"]
    cas = [match[2] for match in found if match[1] == "Ca"]
    return {"hosts": list(dict.fromkeys(hosts)), "cas": cas, "switches": len(found) - len(cas)}


def link_facts(raw: bytes) -> dict[str, object]:
    """Counts of port lines: active, polling, down, narrow (fewer lanes than both ends could), slow (less speed)."""
    found = {"active": 0, "polling": 0, "disabled": 0, "down": 0, "narrow": 0, "slow": 0}
    for line in plain_lines("iblinkinfo", raw):
        if "==(" not in line:
            if line.strip() and not re.match(r"^(CA|Switch|RT): .*:$", line):
                raise unreadable("iblinkinfo", line)
            continue
        match = _LINK.search(line)
        if not match:
            raise unreadable("iblinkinfo", line)
        _, _, state, physical, hint = match.groups()
        if state not in ("Down", "Initialize", "Armed", "Active"):
            raise unreadable("iblinkinfo", line, f"state {state}")
        found["active"] += state == "Active"
        found["down"] += state == "Down"
        found["polling"] += physical == "Polling"
        found["disabled"] += physical == "Disabled"
        found["narrow"] += bool(re.search(r"Could be [0-9]+X", hint))
        found["slow"] += bool(re.search(r"Could be (FDR10|[0-9.]+ Gbps)", hint))
    return dict(found)


def counter_facts(raw: bytes) -> dict[str, object]:
    """The port's counters and `errors`, the sum of those that count errors (not waits)."""
    counters: dict[str, object] = {}
    errors = 0
    for line in plain_lines("perfquery", raw):
        if line.startswith("# Port"):
            continue
        match = _COUNTER.match(line)
        if not match:
            raise unreadable("perfquery", line)
        if match[2].startswith("0x") or match[2] == "N/A":
            continue
        counters[match[1]] = int(match[2])
        errors += int(match[2]) if _ERRORS.search(match[1]) else 0
    if "PortRcvPkts" not in counters:
        raise unreadable("perfquery", next(iter(counters), ""), "cut off")
    return {**counters, "errors": errors}


def rdma_facts(raw: bytes) -> dict[str, object]:
    """Per device ACTIVE or DOWN; `NAME.netdev` where a network interface belongs to it."""
    found: dict[str, object] = {}
    for line in plain_lines("rdma link", raw):
        match = _RDMA.match(line.strip())
        words = match[3].split() if match else []
        if not match or len(words) % 2:
            raise unreadable("rdma link", line)
        _add_link(found, f"{match[1]}/{match[2]}", dict(zip(words[::2], words[1::2], strict=True)))
    return found


def _add_link(found: dict[str, object], port: str, values: dict[str, str]) -> None:
    if "state" not in values or "physical_state" not in values:
        raise unreadable("rdma link", port, "cut off")
    name = port.removesuffix("/1")
    found |= {name: values["state"], f"{name}.physical_state": values["physical_state"]}
    found |= {f"{name}.netdev": values["netdev"]} if "netdev" in values else {}


def rdma_json(raw: bytes) -> dict[str, object]:
    """As `rdma_facts`, from `rdma -j link`."""
    found: dict[str, object] = {}
    for entry in rows(json_value("rdma -j link", raw), "rdma -j link", "links"):
        port = whole("rdma -j link", entry.get("port", 1), "port")
        values = {key: str(value) for key, value in entry.items()}
        _add_link(found, f"{values.get('ifname', '')}/{port}", values)
    return found


def _failed(raw: bytes) -> dict[str, object]:
    plain_lines("sminfo", raw)
    return {"error": True, "rc": 255}


def _cards(raw: bytes) -> dict[str, object]:
    """Network interface of each RDMA device. The (Down) it prints for working InfiniBand is not to be used."""
    found: dict[str, object] = {}
    for line in plain_lines("ibdev2netdev", raw):
        match = re.match(r"^(\S+) port ([0-9]+) ==> (\S+) \((Up|Down)\)$", line.strip())
        if not match:
            raise unreadable("ibdev2netdev", line)
        found[match[1]] = match[3]
    return found


FORMATS = (
    Format("sminfo", holds(rb"^sminfo: sm lid [0-9]+ sm guid "), sm_facts),
    Format(
        "infiniband-diags error",
        holds(rb"^(sminfo|ibwarn|ibhosts|iblinkinfo|perfquery|ibnetdiscover|saquery)[^:\n]*: .*(iberror|fail|can't)"),
        _failed,
    ),
    Format("ibhosts", holds(rb'\A(Ca|Switch)\s*: 0x[0-9a-f]+ ports [0-9]+ "'), node_facts),
    Format("iblinkinfo", holds(rb"==\(.*[A-Za-z]+/ *[A-Za-z]+\)==>"), link_facts),
    Format("perfquery", holds(rb"^# Port (extended )?counters: Lid "), counter_facts),
    Format("rdma link", holds(rb"\A([0-9]+/[0-9]+: |link )[^\s/]+/[0-9]+:? .*state "), rdma_facts),
    Format(
        "rdma -j link", holds(rb'\A\s*\[\s*\{\s*"ifindex"\s*:\s*[0-9]+,\s*"ifname"[^}]*"physical_state"'), rdma_json
    ),
    Format("ibdev2netdev", holds(rb"\A\S+ port [0-9]+ ==> \S+ \((Up|Down)\)"), _cards),
)

"""InfiniBand and RoCE: the planned ports carry traffic at full rate and width; others may be down by design."""

from __future__ import annotations

import re

from llmhw_provision.checks.gpu_views import gpus_of, judged
from llmhw_provision.checks.model import Check, Outcome, failed, passed
from llmhw_provision.checks.views import NotThere
from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.expected import ExpectedFabric
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import dmesg, driver_files, ib_fabric, ib_sysfs, ibstat, mlxlink
from llmhw_provision.probes.reading import output, unreadable

# Gbit/s that one lane carries (InfiniBand Trade Association, roadmap); FDR rounds down to 56 for four
_LANE_GBIT = {"SDR": 2.5, "DDR": 5, "QDR": 10, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200}
_RATE = re.compile(r"^([0-9.]+) Gb/sec(?: \(([0-9]+)X(?: ([A-Z0-9]+))?\))?$")
_LANES = 4  # of a cable with one connector; 2X and 1X are degraded
# 8-bit counters that stay at their end (InfiniBand architecture, PortCounters)
_FULL = {"link_downed": 255, "link_error_recovery": 255}
_COUNTERS = (
    *("link_downed", "link_error_recovery", "symbol_error", "port_rcv_errors", "local_link_integrity_errors"),
    *("port_rcv_remote_physical_errors", "excessive_buffer_overrun_errors"),
)
_IPV4 = re.compile(r"^0000:0000:0000:0000:0000:ffff:")


def fabric_of(host: HostPlan) -> ExpectedFabric | None:
    """The planned RDMA ports."""
    return host.expected.fabric if host.expected else None


def _planned(host: HostPlan) -> ExpectedFabric:
    fabric = fabric_of(host)
    if fabric is None:
        raise NotThere("no RDMA port is planned for this host")
    return fabric


def _ports(evidence: Evidence) -> dict[str, ibstat.Port]:
    """The ports that ibstat lists; raises NotThere when it broke off, which `ib-adapters` tells."""
    raw = _listing(evidence)
    if _panic(raw):
        raise NotThere("ibstat broke off")
    return {port.name: port for port in ibstat.parse(raw)}


def _listing(evidence: Evidence) -> bytes:
    result = evidence.get(ibstat.COMMAND.key)
    if result is not None and _panic(result.stdout + result.stderr):
        return result.stdout + result.stderr
    return output(evidence, ibstat.COMMAND.key)


def _panic(raw: bytes) -> str:
    return next((line for line in raw.decode("utf-8", "replace").splitlines() if line.startswith("ibpanic:")), "")


def adapters(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Every planned adapter is listed. ibstat says nothing, and ends well, where there is none."""
    wanted, raw = _planned(host).ports, _listing(evidence)
    expected = f"{len(wanted)} adapters: {', '.join(wanted)}"
    if _panic(raw):
        return failed(_panic(raw), expected, "panic")
    found = {port.name for port in ibstat.parse(raw)}
    missing = [name for name in wanted if name not in found]
    if missing:
        text = f"no {', '.join(missing)}" if found else "no adapter at all"
        return failed(text, expected, "" if found else "none")
    return passed(f"{len(wanted)} adapters", expected)


def ports(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Every planned port is active at the planned rate."""
    wanted, found = _planned(host), _ports(evidence)
    expected = f"Active, {wanted.rate_gbit} Gbit/s, {wanted.link_layer}"
    bad, causes = {}, set()
    for name in wanted.ports:
        port = found.get(name)
        if port is None:
            raise NotThere(f"no adapter {name}")
        cause = _cause(port, wanted)
        if cause:
            bad[name] = f"{port.state}, {port.physical}, {port.rate_gbit} Gbit/s"
            bad[name] += f", {port.link_layer}" if cause == "layer" else ""
            causes.add(cause)
    if len(bad) == len(wanted.ports) > 1 and causes == {"initializing"}:
        return judged(bad, "", expected, variant="no-manager")
    first = next((name for name in ("layer", "cable", "initializing", "address", "rate") if name in causes), "")
    return judged(bad, f"{len(wanted.ports)} ports", expected, variant="" if first == "cable" else first)


def _cause(port: ibstat.Port, wanted: ExpectedFabric) -> str:
    """Why the port does not carry what is planned; empty when it does."""
    if port.link_layer != wanted.link_layer:
        return "layer"
    if port.physical != "LinkUp":
        return "cable"
    if port.state != "Active":
        return "initializing" if port.state == "Initializing" else "address"
    return "rate" if port.rate_gbit < wanted.rate_gbit else ""


def width(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """No planned port lacks lanes. Fewer than four are right where they carry the planned rate (HDR100, NDR200)."""
    planned, found = _planned(host), ib_sysfs.parse(output(evidence, ib_sysfs.COMMAND.key))
    bad = {}
    for name in planned.ports:
        if name not in found:
            raise NotThere(f"no adapter {name}")
        match = _RATE.match(found[name]["rate"])
        if not match:
            raise unreadable("/sys/class/infiniband", f"{name} rate {found[name]['rate']}")
        narrow = match[2] and int(match[2]) < _LANES and float(match[1]) < planned.rate_gbit
        if narrow and found[name]["phys_state"].startswith("5"):
            bad[name] = found[name]["rate"]
    return judged(bad, f"all on {len(planned.ports)} ports", f"lanes for {planned.rate_gbit} Gbit/s")


def manager(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """A subnet manager answers, and it is the master."""
    result = evidence.get(ib_fabric.SMINFO.key)
    expected = "a subnet manager answers as master"
    if result is not None and not result.missing and not result.timed_out and result.rc != 0:
        text = (result.stdout + result.stderr).decode("utf-8", "replace").strip().splitlines()
        closed = any("umad" in line.lower() or "failed to open" in line.lower() for line in text)
        shown = next((line for line in text if line.startswith("sminfo:")), f"status {result.rc}")
        return failed(shown, expected, "umad" if closed else "")
    found = ib_fabric.sm_facts(output(evidence, ib_fabric.SMINFO.key))
    text_found = f"lid {found['sm_lid']}, priority {found['priority']}, {found['state']}"
    return passed(text_found, expected) if found["state"] == "MASTER" else failed(text_found, expected, "several")


def firmware(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Planned adapters of one board have one firmware."""
    found = ib_sysfs.parse(output(evidence, ib_sysfs.COMMAND.key))
    boards: dict[str, dict[str, str]] = {}
    for name in _planned(host).ports:
        values = found.get(name)
        if values is None or "fw_ver" not in values:
            raise NotThere(f"no adapter {name}") if values is None else unreadable("fw_ver", name)
        boards.setdefault(values.get("board_id", "?"), {})[name] = values["fw_ver"]
    mixed = {board: names for board, names in boards.items() if len(set(names.values())) > 1}
    bad = {
        board: ", ".join(f"{text} on {list(names.values()).count(text)}" for text in sorted(set(names.values())))
        for board, names in mixed.items()
    }
    text = ", ".join(f"{board} {next(iter(names.values()))}" for board, names in boards.items())
    return judged(bad, text, "one firmware for each kind of adapter", status="warn")


def counters(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """No error counter of a planned port rose between the two readings; what they hold from before says nothing."""
    first, second = (ib_sysfs.parse(output(evidence, key)) for key in (ib_sysfs.COMMAND.key, ib_sysfs.LATER.key))
    bad, asked, full = {}, 0, []
    for name in _planned(host).ports:
        if name not in first or name not in second:
            raise NotThere(f"no adapter {name}")
        for counter in _COUNTERS:
            before, after = (values[name].get(f"counters/{counter}", "") for values in (first, second))
            if not before.isdigit() or not after.isdigit():
                continue
            asked += 1
            if int(after) > int(before):
                bad[f"{name} {counter}"] = f"+{int(after) - int(before)}"
            elif int(before) >= _FULL.get(counter, 2**64):
                full.append(f"{name} {counter}")
    if not asked:
        raise unreadable("/sys/class/infiniband", "no error counters")
    good = f"{asked} counters unchanged" + (f"; at their end, and silent: {', '.join(full)}" if full else "")
    return judged(bad, good, "no error between two readings")


def cable(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """The adapter itself finds no fault of cable or module, and uses all lanes."""
    found = mlxlink.facts(output(evidence, mlxlink.command(subject).key))
    text = f"{found['state']}, {found['speed']}, {found['width']}: {found['recommendation']}"
    rate = _planned(host).rate_gbit
    expected = f"Active, lanes for {rate} Gbit/s, no issue"
    if found["state"] not in ("Active", "LinkUp") or found["opcode"] != 0:
        return failed(text, expected)
    lane = _LANE_GBIT.get(str(found["speed"]).rpartition("-")[2])
    lanes = str(found["width"]).removesuffix("x")
    if lane is None or not lanes.isdigit():
        raise unreadable("mlxlink", text, "unknown speed or width")
    return passed(text, expected) if int(lanes) * lane >= rate else failed(text, expected, "width")


def gpu_direct(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The planned way for NICs to reach GPU memory is open."""
    files, wanted = driver_files.files(evidence), _planned(host).gpu_direct
    if wanted == "dmabuf":
        text = "open" if files.open_modules else "proprietary"
        return (
            passed(f"{text} modules", "open modules") if files.open_modules else failed(text, "open modules", "flavour")
        )
    expected = "nvidia_peermem loaded, ib_core offers peer clients"
    if files.peermem and files.peer_client:
        return passed(expected, expected)
    if not files.peer_client:
        return failed("ib_core offers no peer clients", expected)
    refused = "peermem" in dmesg.parse(output(evidence, dmesg.COMMAND.key)).other
    return failed("nvidia_peermem is not loaded" + (": the kernel refused it" if refused else ""), expected, "rebuild")


def gids(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Every planned RoCE port has a RoCE v2 address of IPv4; a fixed index in the launch files names that one."""
    wanted, found = _planned(host), ib_sysfs.parse(output(evidence, ib_sysfs.COMMAND.key))
    bad, good = {}, {}
    for name in wanted.ports:
        if name not in found:
            raise NotThere(f"no adapter {name}")
        places = [
            int(key.rpartition("/")[2])
            for key, value in found[name].items()
            if key.startswith("gid_attrs/types/") and value == "RoCE v2"
            if _IPV4.match(found[name].get(f"gids/{key.rpartition('/')[2]}", ""))
        ]
        good[name] = ", ".join(map(str, sorted(places)))
        if not places:
            bad[name] = "no RoCE v2 address of IPv4"
        elif wanted.gid_index is not None and wanted.gid_index not in places:
            bad[name] = f"index {good[name]}, the launch files say {wanted.gid_index}"
    return judged(bad, f"index {good[wanted.ports[0]]}", "the RoCE v2 address of IPv4 of each port")


def _fabric(host: HostPlan) -> tuple[str, ...]:
    return ("",) if fabric_of(host) else ()


def _managed(host: HostPlan) -> tuple[str, ...]:
    fabric = fabric_of(host)
    return ("",) if fabric and fabric.subnet_manager and fabric.link_layer == "InfiniBand" else ()


def _cabled(host: HostPlan) -> tuple[str, ...]:
    fabric = fabric_of(host)
    return fabric.ports if fabric and fabric.cable_tool else ()


def _direct(host: HostPlan) -> tuple[str, ...]:
    fabric, gpus = fabric_of(host), gpus_of(host)
    return ("",) if fabric and fabric.gpu_direct and gpus and gpus.driver else ()


def _roce(host: HostPlan) -> tuple[str, ...]:
    fabric = fabric_of(host)
    return ("",) if fabric and fabric.link_layer == "Ethernet" else ()


def commands(host: HostPlan) -> tuple[Command, ...]:
    """What must be read at first."""
    if not fabric_of(host):
        return ()
    wanted = [ibstat.COMMAND, ib_sysfs.COMMAND, *(mlxlink.command(name) for name in _cabled(host))]
    return (*wanted, ib_fabric.SMINFO) if _managed(host) else tuple(wanted)


def later(host: HostPlan) -> tuple[Command, ...]:
    """What must be read again at the end."""
    return (ib_sysfs.LATER,) if fabric_of(host) else ()


_PAGE, _LIST, _FILES = "infiniband", ibstat.COMMAND.key, ib_sysfs.COMMAND.key
_DRIVER = driver_files.COMMAND.key
CHECKS = (
    Check("ib-adapters", "fabric", ("quick",), "critical", _PAGE, _LIST, _fabric, adapters),
    Check("ib-ports", "fabric", ("quick",), "critical", _PAGE, _LIST, _fabric, ports),
    Check("ib-width", "fabric", ("quick",), "major", _PAGE, _FILES, _fabric, width),
    Check("ib-manager", "fabric", ("quick",), "critical", _PAGE, "sminfo", _managed, manager),
    Check("ib-firmware", "fabric", ("quick",), "minor", _PAGE, _FILES, _fabric, firmware),
    Check("ib-counters", "fabric", ("quick",), "major", _PAGE, ib_sysfs.LATER.key, _fabric, counters),
    Check("ib-cable", "fabric", ("quick",), "major", _PAGE, "mlxlink:{subject}", _cabled, cable),
    Check("ib-gpu-direct", "fabric", ("quick",), "major", _PAGE, _DRIVER, _direct, gpu_direct),
    Check("ib-gid", "fabric", ("quick",), "major", _PAGE, _FILES, _roce, gids),
)

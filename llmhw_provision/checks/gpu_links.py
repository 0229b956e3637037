"""How the GPUs are joined: fabric manager, fabric state, NVLinks, peer access, PCIe links, their own NICs."""

from __future__ import annotations

import re

from llmhw_provision.checks.gpu_views import (
    facts,
    gpus_of,
    judged,
    listed,
    outliers,
    planned,
    rows,
    said,
    with_driver,
    with_nvlink,
    with_peers,
    with_switch,
)
from llmhw_provision.checks.model import Check, Outcome, failed, passed
from llmhw_provision.checks.views import NotThere
from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import fabric_manager, lspci, nvidia_csv, nvidia_nvlink, nvidia_topo
from llmhw_provision.probes import nvidia_query as query
from llmhw_provision.probes.reading import ProbeError, output, unreadable

_NEAR = ("PIX", "PXB", "PHB")  # within one PCIe host bridge
_ERROR = re.compile(r"error|fail|discard|recover", re.IGNORECASE)
_AWAKE = ("P0", "P1", "P2")


def manager(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The fabric manager runs where NVSwitches are, and is absent where none are."""
    wanted = planned(host).nvlink == "switch"
    result = evidence.get(fabric_manager.STATUS.key)
    absent = result is not None and result.rc == 4
    if absent and not wanted:
        return passed("not installed", "not installed: there is no NVSwitch")
    if absent:
        return failed("not installed", "active", "absent")
    unit = _status(evidence)
    log = _journal(evidence)
    error = str(log.get("error") or unit.get("error") or "")
    text = f"{unit['active']}" + (f": {error.replace('_', ' ')}" if error != unit["active"] and error else "")
    if not wanted:
        idle = error == unit["active"] == "inactive" and not unit["enabled"]
        expected = "not installed: there is no NVSwitch"
        return passed("installed, not enabled", expected) if idle else failed(text, expected, "unwanted")
    if unit["active"] != "active" or error:
        return failed(text, "active, without an error", error.replace("_", "-") if error in _NAMED else "")
    return passed("active", "active, without an error")


_NAMED = ("version_mismatch", "topology_mismatch", "nvlsm_missing", "ib_umad_missing", "sxid_fatal", "nothing_to_do")


def _status(evidence: Evidence) -> dict[str, object]:
    result = evidence.get(fabric_manager.STATUS.key)
    if result is not None and result.rc == 3:  # systemctl status of a unit that is not active
        return fabric_manager.facts_status(result.stdout)
    return fabric_manager.facts_status(output(evidence, fabric_manager.STATUS.key))


def _journal(evidence: Evidence) -> dict[str, object]:
    """What the journal says; nothing where it has rotated away."""
    raw = output(evidence, fabric_manager.JOURNAL.key)
    return {} if raw.strip() in (b"", b"-- No entries --") else fabric_manager.facts_journal(raw)


def fabric(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Every GPU is registered with the NVLink fabric."""
    expected = "Completed, Success on every GPU"
    bad, going = {}, False
    found = facts(evidence)
    for gpu, values in found.items():
        if "fabric_state" not in values or "fabric_status" not in values:
            raise unreadable("nvidia-smi -q", gpu, "no Fabric block")
        state, status = str(values["fabric_state"]), str(values["fabric_status"])
        if (state, status) != ("Completed", "Success"):
            bad[gpu] = f"{state}, {status}"
            going = going or state == "In Progress"
    return judged(bad, f"Completed, Success on {len(found)} GPUs", expected, variant="waits" if going else "")


def topology(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Every pair of GPUs is joined as planned; where no NVLink is planned, the GPUs are in the matrix."""
    wanted = planned(host)
    result = evidence.get(nvidia_topo.MATRIX.key)
    if result is not None and result.timed_out:
        return failed(result.why(), f"{wanted.count} GPUs", "slow")
    found = _matrix(evidence)
    joined = wanted.nvlink != "none" and wanted.count > 1 and not wanted.mig  # MIG takes the links away
    expected = f"{wanted.count} GPUs" + (f", NV{wanted.links_per_pair} {_WHOSE[wanted.nvlink]}" if joined else "")
    if len(found.gpus) != wanted.count:
        return failed(f"{len(found.gpus)} GPUs", expected, "fewer")
    if not joined:
        return passed(f"{len(found.gpus)} GPUs", expected)
    kind = f"NV{wanted.links_per_pair}"
    bad: dict[str, str] = {}
    for gpu in found.gpus:
        others = [found.relations[gpu, other] for other in found.gpus if other != gpu]
        needed = 1 if wanted.nvlink == "pairs" else wanted.count - 1
        if others.count(kind) < needed:
            lacking = sorted({text for text in others if text != kind})
            bad[gpu] = f"{', '.join(lacking)} instead of {kind}" + (
                f" to {needed - others.count(kind)} of {needed} GPUs" if needed > 1 else ""
            )
    culprits = {gpu: bad[gpu] for gpu in nvidia_topo.degraded(found) if gpu in bad}
    return judged(culprits or bad, f"{len(found.gpus)} GPUs, {kind} {_WHOSE[wanted.nvlink]}", expected)


def _matrix(evidence: Evidence) -> nvidia_topo.Topology:
    """How the GPUs are joined; raises NotThere when the time limit ended the question, which `gpu-topology` tells."""
    result = evidence.get(nvidia_topo.MATRIX.key)
    if result is not None and result.timed_out:
        raise NotThere(result.why())
    return nvidia_topo.parse(said(evidence, nvidia_topo.MATRIX.key))


_WHOSE = {"switch": "between all", "mesh": "between all", "pairs": "in pairs", "none": ""}


def nvlink(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Every GPU has its planned number of links up, at one speed."""
    wanted = planned(host)
    found = nvidia_nvlink.parse(said(evidence, nvidia_nvlink.STATUS.key))
    expected = f"{wanted.links} links up on each of {wanted.count} GPUs"
    bad = {}
    for gpu in found:
        down = [str(link) for link, speed in gpu.links.items() if speed is None]
        if gpu.message:
            bad[f"GPU{gpu.index}"] = gpu.message
        elif gpu.active() < wanted.links:
            bad[f"GPU{gpu.index}"] = f"{gpu.active()} up, down: {', '.join(down)}"
    if bad:
        return failed(listed(bad), expected, "all" if len(bad) == len(found) > 1 else "")
    if len(found) != wanted.count:
        raise NotThere(f"{len(found)} of {wanted.count} GPUs answer")
    speeds = {f"GPU{gpu.index}": sorted({speed for speed in gpu.links.values() if speed}) for gpu in found}
    slow = {name: f"{values} GB/s" for name, values in outliers(dict(speeds)).items()}
    mixed = {name: f"{values} GB/s" for name, values in speeds.items() if len(values) > 1}
    return judged(slow | mixed, f"{wanted.links} on each of {len(found)} GPUs", expected, variant="speed")


def nvlink_errors(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """No error counter of a link rose between the two readings; what they hold from before says nothing."""
    first, second = (
        {
            (f"GPU{gpu.index} link {link}", name): count
            for gpu in nvidia_nvlink.parse(said(evidence, key))
            for link, counters in gpu.counters.items()
            for name, count in counters.items()
            if _ERROR.search(name)
        }
        for key in (nvidia_nvlink.ERRORS.key, nvidia_nvlink.ERRORS_LATER.key)
    )
    if not first or first.keys() != second.keys():
        raise unreadable("nvidia-smi nvlink -e", f"{len(first)} and {len(second)} counters", "not comparable")
    gained = {key: second[key] - first[key] for key in first if second[key] > first[key]}
    bad = {f"{link} {name}": f"+{count}" for (link, name), count in gained.items()}
    return judged(bad, f"{len(first)} counters unchanged", "no error between two readings")


def peers(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Every GPU reads and writes every other's memory."""
    found = nvidia_topo.parse_p2p(said(evidence, nvidia_topo.P2P.key))
    bad = {f"{one}-{other}": value for (one, other), value in found.items() if value != "OK" and one < other}
    return judged(bad, f"{len(found)} pairs OK", "OK between all", variant="chipset" if "CNS" in bad.values() else "")


def near_nics(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Every GPU has a planned NIC under its own host bridge."""
    wanted, ports = planned(host), host.expected.fabric.ports if host.expected and host.expected.fabric else ()
    found = _matrix(evidence)
    if len(found.gpus) != wanted.count:
        raise NotThere(f"{len(found.gpus)} of {wanted.count} GPUs in the matrix")
    names = {nic: found.nic_names.get(nic, nic) for nic in found.nics}
    mine = [nic for nic in found.nics if names[nic] in ports]
    far, side = {}, {}
    for gpu in found.gpus:
        relations = {found.relations[gpu, nic] for nic in mine}
        if "NODE" in relations and not relations & set(_NEAR):
            side[gpu] = "NODE to the nearest planned NIC"
        elif not relations & set(_NEAR):
            far[gpu] = f"{', '.join(sorted(relations)) or 'none'} to every planned NIC"
    expected = "a NIC under the host bridge of each GPU"
    if side and not far:
        return judged(side, "", expected, variant="side", status="warn")
    return judged(far, f"{len(found.gpus)} GPUs", expected)


def affinity(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The firmware tells to which processor each GPU belongs."""
    found = _matrix(evidence)
    bad = {gpu: "no CPU affinity" for gpu in found.gpus if found.cpu.get(gpu, "N/A") == "N/A"}
    nodes = sorted(set(found.numa.values()))
    return judged(bad, f"NUMA nodes {', '.join(nodes)}", "CPU affinity of every GPU")


def pcie(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """All planned lanes at any time; the planned generation at work, and within reach of a card that rests."""
    wanted, found = planned(host), rows(evidence)
    bad, resting = {}, []
    for gpu, row in found.items():
        cells = [nvidia_csv.number(row[f"pcie.link.{part}"]) for part in _LINK]
        if None in cells:
            raise unreadable("nvidia-smi", f"{gpu} {', '.join(row[f'pcie.link.{part}'] for part in _LINK)}")
        gen, gen_max, width, _ = (int(cell or 0) for cell in cells)
        awake = row["pstate"] in _AWAKE
        reached = gen if awake else gen_max
        if width < wanted.pcie_lanes or (wanted.pcie_generation and reached < wanted.pcie_generation):
            bad[gpu] = f"generation {reached} x{width} ({row['pci.bus_id']})"
        elif not awake and gen < gen_max:
            resting.append(gpu)
    bad |= {name: text for name, text in _listed_links(evidence).items() if not bad}
    expected = f"x{wanted.pcie_lanes}" + (f", generation {wanted.pcie_generation}" if wanted.pcie_generation else "")
    good = f"{len(found)} GPUs {expected}"
    if resting:
        good += f" within reach; {', '.join(resting)} at rest, so the speed at work is not shown here"
    return judged(bad, good, expected)


_LINK = ("gen.current", "gen.max", "width.current", "width.max")


def _listed_links(evidence: Evidence) -> dict[str, str]:
    """GPUs whose link lspci calls narrower, or slower at work, than they can do; nothing where lspci is missing."""
    try:
        functions = lspci.functions(evidence)
    except ProbeError:
        return {}  # gpu-bound says so
    return lspci.judge(functions)[1]


def _with_own_nics(host: HostPlan) -> tuple[str, ...]:
    gpus = gpus_of(host)
    fabric = host.expected.fabric if host.expected else None
    several = gpus is not None and gpus.driver is not None and gpus.count > 1
    return ("",) if several and gpus and fabric and len(fabric.ports) >= gpus.count else ()


_FABRIC, _PAGE = "gpu-fabric", "gpu-links"
_ROWS, _Q = nvidia_csv.QUERY.key, query.COMMAND.key
_TOPO, _UNIT = nvidia_topo.MATRIX.key, fabric_manager.STATUS.key
CHECKS = (
    Check("gpu-manager", "gpu", ("quick",), "critical", _FABRIC, _UNIT, with_driver, manager),
    Check("gpu-fabric", "gpu", ("quick",), "critical", _FABRIC, _Q, with_switch, fabric),
    Check("gpu-topology", "gpu", ("quick",), "critical", _PAGE, _TOPO, with_driver, topology),
    Check("gpu-nvlink", "gpu", ("quick",), "critical", _PAGE, "nvlink-status", with_nvlink, nvlink),
    Check("gpu-nvlink-errors", "gpu", ("quick",), "major", _PAGE, "nvlink-errors-later", with_nvlink, nvlink_errors),
    Check("gpu-peers", "gpu", ("quick",), "major", _PAGE, nvidia_topo.P2P.key, with_peers, peers),
    Check("gpu-nics", "gpu", ("quick",), "major", _PAGE, _TOPO, _with_own_nics, near_nics),
    Check("gpu-affinity", "gpu", ("quick",), "minor", _PAGE, _TOPO, with_driver, affinity),
    Check("gpu-pcie", "gpu", ("quick",), "major", _PAGE, _ROWS, with_driver, pcie),
)

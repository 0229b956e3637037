"""Speed and results of the GPUs under load: our own measurement, held to the plan's limits.

Limits are named after the tools that set them. What stands for nccl-tests here is torch.distributed, which calls the
same NCCL; for nvbandwidth and p2pBandwidthLatencyTest torch's copies, which use the same DMA engines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

from llmhw_provision.checks.gpu_views import gpus_of, judged, listed, planned
from llmhw_provision.checks.model import Check, Level, Outcome, failed, passed, warned
from llmhw_provision.checks.throughput_request import COLLECTIVES, size_of, with_bench
from llmhw_provision.checks.views import NotThere
from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.on_host.bench import formulas
from llmhw_provision.plan.model import HostPlan, Threshold
from llmhw_provision.probes import throughput
from llmhw_provision.probes.reading import ProbeError
from llmhw_provision.probes.throughput import Measured, moment

COPIES = {
    "nvbandwidth.host_to_device": "host_to_device",
    "nvbandwidth.device_to_host": "device_to_host",
    "p2p_bandwidth.diagonal": "own_memory",
}
PAIRS = ("p2p_bandwidth.unidirectional", "p2p_bandwidth.bidirectional")
GENERATION = "nvidia_smi.pcie_generation_under_load"
PRODUCTS = {
    "matmul.bf16_8192": ("bf16", "fixed"),
    "matmul.bf16_tuned": ("bf16", "tuned"),
    "matmul.fp8_tuned": ("fp8", "tuned"),
}
BEHIND = "matmul.bf16_behind_best"
_MIB, _GIB = 1 << 20, 1 << 30
_AS_RING = 1.05  # all_reduce no faster than this times the ring's speed: NVLS is not engaged
# nvmlClocksEventReasons of nvml.h; idle, application clocks and the display's are no slowdown
_SLOWED = {0x4: "its power limit", 0x8: "the board", 0x20: "heat", 0x40: "heat", 0x80: "the power brake"}
_DAY = timedelta(days=1)


def complete(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Every part of the measurement came to its end, on every planned GPU."""
    found, count = _measured(evidence), planned(host).count
    expected = f"every part measured on {count} GPUs"
    taken = [text for text in found.errors if "taken by others" in text]
    if taken:
        raise ProbeError("; ".join(taken[:2]))
    if found.device != "cuda":
        raise ProbeError(f"measured on {found.device}, not on GPUs")
    if found.errors:
        variant = "hangs" if any("hangs" in text for text in found.errors) else ""
        return failed("; ".join(found.errors[:3]), expected, variant)
    if len(found.gpus) != count:
        return failed(f"{len(found.gpus)} GPUs", expected, "fewer")
    left = f"; not measured: {', '.join(one.what for one in found.left[:3])}" if found.left else ""
    return passed(f"{count} GPUs at {found.began} with {found.versions}{left}", expected)


def values(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Every value of every collective is right, and what was copied between GPUs is what arrived."""
    found, wanted = _measured(evidence), planned(host).count
    bad = {
        f"{one.name} ({one.run}, {_size(one.bytes)})": f"{one.wrong} wrong" for one in found.collectives if one.wrong
    }
    bad |= {f"GPU{one.first} to GPU{one.second}": "other bytes arrived" for one in found.pairs if not one.equal}
    done = {one.name for one in found.collectives if one.run == "all"}
    if not bad and (done != set(formulas.COLLECTIVES) or len(found.pairs) != wanted * (wanted - 1)):
        raise NotThere(_missing(found))
    count = len(found.collectives)
    return judged(bad, f"{count} collectives and {len(found.pairs)} copies right", "no wrong value")


def sums(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The same seeded computation ends the same on every GPU, and each time."""
    found, wanted = _measured(evidence), planned(host).count
    expected = "one checksum on every GPU, each time"
    shaky = {f"GPU{one.gpu}": "another result each time" for one in found.sums if not one.stable}
    if shaky:
        return failed(listed(shaky), expected)
    if len(found.sums) != wanted:
        raise NotThere(_missing(found))
    usual, times = Counter(one.sha256 for one in found.sums).most_common(1)[0]
    others = {f"GPU{one.gpu}": f"{one.sha256[:12]}, not {usual[:12]}" for one in found.sums if one.sha256 != usual}
    if others and times * 2 <= wanted:
        return failed(f"{len({one.sha256 for one in found.sums})} checksums and no majority", expected)
    return judged(others, f"{usual[:12]} on {wanted} GPUs", expected)


def collectives(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """Bus bandwidth of one collective at the size that the limit speaks of, never the average of a sweep."""
    limit, found = _limit(host, subject), _measured(evidence)
    run, name = COLLECTIVES[subject]
    speed = {(one.run, one.name, one.asked): one for one in found.collectives}
    one = speed.get((run, name, size_of(limit)))
    if one is None:
        raise NotThere(_missing(found, name))
    ring = speed.get(("ring", name, size_of(_limits(host).get("nccl_tests.all_reduce_ring_busbw", limit))))
    alike = run == "all" and ring is not None and one.busbw <= ring.busbw * _AS_RING
    where = f"over {one.ranks} GPUs, {_size(one.bytes)}, torch.distributed"
    return _held({where: one.busbw}, limit, variant="ring" if alike and name == "all_reduce" else "")


def copies(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """Copies to and from the host, within and between GPUs, and the PCIe link while they run."""
    limit, found, wanted = _limit(host, subject), _measured(evidence), planned(host)
    if subject in PAIRS:
        return _held(_pairs(found, subject, wanted.count, best=wanted.nvlink == "pairs"), limit, variant="pairs")
    if subject == GENERATION:
        seen: dict[str, float] = {}
        for one in found.copies:
            if one.generation is not None and one.kind != "own_memory":
                seen[f"GPU{one.gpu}"] = min(one.generation, seen.get(f"GPU{one.gpu}", one.generation))
    else:
        seen = {f"GPU{one.gpu}": one.gbs for one in found.copies if one.kind == COPIES[subject]}
    if len(seen) != wanted.count:
        raise NotThere(_missing(found))
    return _held(seen, limit, variant="memory" if subject == "p2p_bandwidth.diagonal" else "")


def _pairs(found: Measured, subject: str, count: int, *, best: bool) -> dict[str, float]:
    """GB/s by pair; where only two each are joined, of each GPU with its best partner."""
    if len(found.pairs) != count * (count - 1):
        raise NotThere(_missing(found))
    both = subject.endswith("bidirectional")
    speeds = {(one.first, one.second): one.both if both else one.gbs for one in found.pairs}
    speeds = {ends: speed for ends, speed in speeds.items() if speed is not None}
    if best:
        tops = {gpu: max(speed or 0 for ends, speed in speeds.items() if gpu in ends) for gpu in range(count)}
        return {f"GPU{gpu}": speed for gpu, speed in tops.items()}
    return {f"GPU{first} to GPU{second}": speed or 0 for (first, second), speed in speeds.items()}


def products(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """TFLOP/s of products on each GPU, or how far the slowest GPU is behind the fastest."""
    limit, found = _limit(host, subject), _measured(evidence)
    dtype, kind = PRODUCTS.get(subject, ("bf16", "fixed"))
    seen = {f"GPU{one.gpu}": one for one in found.products if (one.dtype, one.kind) == (dtype, kind)}
    if len(seen) != planned(host).count:
        raise NotThere(_missing(found, dtype))
    speed = {gpu: one.tflops for gpu, one in seen.items()}
    if subject == BEHIND:
        top = max(speed.values())
        speed = {gpu: round((1 - value / top) * 100, 1) for gpu, value in speed.items()}
    return _held(speed, limit, remarks={gpu: _remark(one.load) for gpu, one in seen.items()})


def _remark(load: Mapping[str, float]) -> str:
    """Clock, power, temperature and what held the clock down, as far as nvidia-smi said it."""
    limit = f" of {load['limit_w']:.0f}" if "limit_w" in load else ""
    said = [
        text.format(load[name])
        for name, text in (("sm_mhz", "{:.0f} MHz"), ("power_w", f"{{:.0f}}{limit} W"), ("celsius", "{:.0f} °C"))
        if name in load
    ]
    mask = int(load.get("slowed_by", 0))
    slowed = dict.fromkeys(name for bit, name in _SLOWED.items() if mask & bit)
    said += [f"slowed by {' and '.join(slowed)}"] if slowed else []
    return f" ({', '.join(said)})" if said else ""


def _held(
    seen: Mapping[str, float], limit: Threshold, *, variant: str = "", remarks: Mapping[str, str] | None = None
) -> Outcome:
    """What was seen, by where, against a limit; those beyond it are named."""

    def beyond(line: float | None) -> dict[str, str]:
        said = remarks or {}
        return {
            name: f"{value:.4g} {limit.unit}{said.get(name, '')}"
            for name, value in sorted(seen.items(), key=lambda item: item[1], reverse=limit.better == "less")
            if line is not None and (value < line if limit.better == "more" else value > line)
        }

    word = "at least" if limit.better == "more" else "at most"
    expected = f"{word} {limit.fail:g} {limit.unit} (reference {limit.reference:g})"
    bad, poor = beyond(limit.fail), beyond(limit.warn)
    if bad:
        return failed(listed(bad), expected, variant)
    if poor:
        return warned(listed(poor), f"{expected}, warns at {limit.warn:g}", variant)
    least, most = min(seen.values()), max(seen.values())
    if len(seen) == 1:
        return passed(f"{least:.4g} {limit.unit}, {next(iter(seen))}", expected)
    span = f"{least:.4g}" if f"{least:.4g}" == f"{most:.4g}" else f"{least:.4g} to {most:.4g}"
    return passed(f"{span} {limit.unit}, {len(seen)} measured", expected)


def _measured(evidence: Evidence) -> Measured:
    """What the measurement found; raises ProbeError when it is of another day than the reading."""
    found = throughput.measured(evidence)
    if evidence.read_at and abs(moment(evidence.read_at) - moment(found.began)) > _DAY:
        raise ProbeError(f"measured at {found.began}, read at {evidence.read_at}: more than a day lies between")
    return found


def _missing(found: Measured, word: str = "") -> str:
    """Why a figure is not there."""
    left = next((f"{one.what}: {one.why}" for one in found.left if word and word in one.what), "")
    return f"not measured: {left or (found.errors[0] if found.errors else 'not part of the measurement')}"


def _size(nbytes: int) -> str:
    return f"{nbytes / _GIB:.4g} GiB" if nbytes >= _GIB else f"{nbytes / _MIB:.4g} MiB"


def _limits(host: HostPlan) -> dict[str, Threshold]:
    return {item.metric: item for item in host.thresholds}


def _limit(host: HostPlan, metric: str) -> Threshold:
    return _limits(host)[metric]


def _asked(host: HostPlan, metrics: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(item.metric for item in host.thresholds if item.metric in metrics) if with_bench(host) else ()


def _collectives(host: HostPlan) -> tuple[str, ...]:
    return _asked(host, tuple(COLLECTIVES))


def _copies(host: HostPlan) -> tuple[str, ...]:
    return _asked(host, (*COPIES, *PAIRS, GENERATION))


def _products(host: HostPlan) -> tuple[str, ...]:
    return _asked(host, (*PRODUCTS, BEHIND))


def _several(host: HostPlan) -> tuple[str, ...]:
    gpus = gpus_of(host)
    return with_bench(host) if gpus and gpus.count > 1 else ()


def commands(host: HostPlan, level: Level) -> tuple[Command, ...]:
    """What must be read on the host to answer these checks."""
    return (throughput.RESULT,) if level == "standard" and with_bench(host) else ()


_ON, _PAGE, _KEY = ("standard",), "throughput", throughput.KEY
CHECKS = (
    Check("bench-complete", "throughput", ("standard",), "major", _PAGE, _KEY, with_bench, complete),
    Check("bench-values", "throughput", ("standard",), "critical", _PAGE, _KEY, _several, values),
    Check("bench-sums", "throughput", ("standard",), "critical", _PAGE, _KEY, with_bench, sums),
    Check("bench-collectives", "throughput", ("standard",), "major", _PAGE, _KEY, _collectives, collectives),
    Check("bench-copies", "throughput", ("standard",), "major", _PAGE, _KEY, _copies, copies),
    Check("bench-products", "throughput", ("standard",), "major", _PAGE, _KEY, _products, products),
)

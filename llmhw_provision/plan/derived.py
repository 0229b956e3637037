"""Limits for parts that thresholds.yml has no row for: counts from the catalogue, percentages of what it says."""

from __future__ import annotations

from collections.abc import Iterator

from llmhw_provision.catalogue.loader import Gpu, find, names, sold_machine
from llmhw_provision.catalogue.thresholds import Better, Unit, thresholds
from llmhw_provision.expected import ExpectedGpus
from llmhw_provision.plan.model import Threshold
from llmhw_provision.sizing.machines import candidate

_LINK = 0.80  # of a GPU's links one way: 360 of 450 GB/s measured on H100, 240 of 300 on A100
_MEMORY = 0.75  # of the data sheet, read and write by a copy kernel: 2534 of 3350 GB/s on H100
_MATMUL = 0.80  # of the data sheet, best shape: 794.5 of 989 TFLOP/s on H100
_MATMUL_FP8 = 0.70  # 1403 of 1979 TFLOP/s on H100
_PORT = 0.97  # of the line: 388 of 400 Gbit/s on NDR
_PCIE = 0.88  # of the link one way: 55.4 of 63 GB/s on PCIe 5
_PCIE_LINK = {3: 15.8, 4: 31.0, 5: 63.0, 6: 121.0}  # GB/s one way over 16 lanes
_MEASURED = "stas00/ml-engineering accelerator and network, measured shares of the data sheet"
_COPY = "p2pBandwidthLatencyTest, P2P enabled, every joined pair"
_SHAPE = "product at the best shape (MAMF), normal random inputs, 50 warm-up and 100 timed runs"


def derived(gpus: ExpectedGpus | None, port: tuple[int, str] | None, machine: str | None) -> Iterator[Threshold]:
    """One limit for each quantity that follows from the catalogue; those that the table has are not to be taken."""
    if gpus is not None:
        yield from _counts(gpus)
        if gpus.kind in names("gpus"):
            yield from _speeds(gpus, find("gpus", gpus.kind, Gpu))
    if port is not None:
        yield _share("ib_write_bw.average", port[0], _PORT, "Gbit/s", "ib_write_bw -s 8388608 -q 4 -D 10 -F", "line")
    if machine is not None:
        yield _power(machine)


def _counts(gpus: ExpectedGpus) -> Iterator[Threshold]:
    if gpus.links:
        yield _exact("nvidia_smi.nvlink_links", gpus.links, "links", "nvidia-smi nvlink -s, active links of each GPU")
    if gpus.pcie_generation:
        method = "nvidia-smi pcie.link.gen.current while a copy runs"
        yield _exact("nvidia_smi.pcie_generation_under_load", gpus.pcie_generation, "generation", method)


def _speeds(gpus: ExpectedGpus, card: Gpu) -> Iterator[Threshold]:
    method = "p2pBandwidthLatencyTest, diagonal (read and write of the own memory)"
    yield _share("p2p_bandwidth.diagonal", card.memory_bandwidth_gbs, _MEMORY, "GB/s", method)
    if card.reached_16bit:
        yield _share("matmul.bf16_tuned", card.reached_16bit, 1, "TFLOP/s", f"bf16 {_SHAPE}", "best measured")
    else:
        yield _share("matmul.bf16_tuned", card.tflops_16bit, _MATMUL, "TFLOP/s", f"bf16 {_SHAPE}")
    if card.reached_fp8:
        yield _share("matmul.fp8_tuned", card.reached_fp8, 1, "TFLOP/s", f"fp8 {_SHAPE}", "best measured")
    elif card.tflops_fp8:
        yield _share("matmul.fp8_tuned", card.tflops_fp8, _MATMUL_FP8, "TFLOP/s", f"fp8 {_SHAPE}")
    if card.pcie in _PCIE_LINK:
        method = "nvbandwidth host_to_device_memcpy_ce, pinned memory, each GPU from its own NUMA node"
        yield _share("nvbandwidth.host_to_device", _PCIE_LINK[card.pcie], _PCIE, "GB/s", method, "link")
    if gpus.nvlink == "none" or gpus.mig:
        return
    one_way = card.nvlink_gbs_both_ways / 2
    if gpus.nvlink == "mesh":  # a pair has its part of a GPU's links
        one_way = one_way * gpus.links_per_pair / max(1, gpus.links)
    yield _share("p2p_bandwidth.unidirectional", one_way, _LINK, "GB/s", _COPY, "links")
    if gpus.nvlink == "switch":
        method = "all_reduce_perf over all GPUs of the host, 8 GiB, busbw of that size"
        yield _share("nccl_tests.all_reduce_busbw", one_way, _LINK, "GB/s", method, "links")


def _share(metric: str, of: float, share: float, unit: Unit, method: str, what: str = "data sheet") -> Threshold:
    """Reference is `share` of what the catalogue says, warning and failure the table's percentages of the reference."""
    rule, reference = thresholds().percentages, of * share
    return Threshold(
        metric=metric,
        reference=round(reference, 1),
        warn=round(reference * rule.warn / 100, 1),
        fail=round(reference * rule.fail / 100, 1),
        unit=unit,
        better="more",
        profile="percentages",
        method=method,
        reason=f"no row: {share:.0%} of {of:g} {unit} ({what}), of which {rule.warn} % warns and {rule.fail} % fails",
        source=f"{_MEASURED}; {rule.source}; {rule.date}",
    )


def _exact(metric: str, count: int, unit: Unit, method: str) -> Threshold:
    better: Better = "more"
    return Threshold(
        metric=metric,
        reference=count,
        fail=count,
        unit=unit,
        better=better,
        profile="catalogue",
        method=method,
        reason="no row: counted after the catalogue; one less is a fault",
        source=f"catalogue/gpus.yml; {thresholds().percentages.date}",
    )


def _power(machine: str) -> Threshold:
    """Watts at the wall; less is better, so the percentages are taken above the reference."""
    watts, rule = candidate(machine).watts, thresholds().percentages
    return Threshold(
        metric="ipmi.wall_power",
        reference=watts,
        warn=round(watts * (200 - rule.warn) / 100),
        fail=round(watts * (200 - rule.fail) / 100),
        unit="W",
        better="less",
        profile="percentages",
        method="ipmitool dcmi power reading, or a meter at the wall, all GPUs under load for ten minutes",
        reason=f"no row: the most that the parts of {sold_machine(machine).title} draw, supplies and fans included",
        source=f"catalogue, as llmhw-provision compare counts power; {rule.date}",
    )

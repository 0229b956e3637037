"""Bandwidths of our own measurement are those that nccl-tests counts."""

from __future__ import annotations

import pytest

from llmhw_provision.on_host.bench import formulas

GIB = 1 << 30


# rows that NVIDIA/nccl-tests printed: size, ranks, time in µs, algbw and busbw in GB/s
@pytest.mark.parametrize(
    ("name", "nbytes", "ranks", "us", "algbw", "busbw"),
    [
        ("all_reduce", 17179869184, 8, 62341, 275.58, 482.26),
        ("all_reduce", 1073741824, 16, 4511.97, 237.98, 446.21),
        ("all_reduce", 1073741824, 4, 74912, 14.33, 21.50),
        ("all_gather", 8589934592, 8, 33646, 255.31, 223.39),
        ("all_gather", 8589934592, 16, 42713, 201.11, 188.54),
    ],
)
def test_bandwidths_are_those_of_nccl_tests(
    name: str, nbytes: int, ranks: int, us: float, algbw: float, busbw: float
) -> None:
    assert formulas.algbw(nbytes, us / 1e6) == pytest.approx(algbw, abs=0.01)
    assert formulas.busbw(name, nbytes, us / 1e6, ranks) == pytest.approx(busbw, abs=0.02)


def test_factors_are_those_of_its_performance_page() -> None:
    assert formulas.factor("all_reduce", 2) == 1
    assert formulas.factor("all_reduce", 8) == 1.75
    assert [formulas.factor(name, 8) for name in formulas.COLLECTIVES[1:]] == [0.875] * 3


def test_sizes_are_counted_per_collective_as_nccl_tests_counts_them() -> None:
    assert formulas.share("all_reduce", GIB, 8, 4) == GIB // 4  # count of the table: the whole
    assert formulas.share("all_gather", GIB, 8, 4) == GIB // 4 // 8 == 33554432  # its column count for 8 ranks
    assert formulas.share("reduce_scatter", 1000, 3, 4) == 80  # 333 bytes, rounded down to 16
    assert formulas.size("reduce_scatter", 80, 3, 4) == 960
    with pytest.raises(ValueError, match="too few"):
        formulas.share("all_gather", 64, 8, 4)
    with pytest.raises(ValueError, match="unknown collective"):
        formulas.share("broadcast", GIB, 8, 4)


def test_the_middle() -> None:
    assert (formulas.median([3, 1, 2]), formulas.median([4, 1, 2, 3])) == (2, 2.5)

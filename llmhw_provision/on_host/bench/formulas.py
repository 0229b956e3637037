"""Sizes and bandwidths of collectives, defined as by NVIDIA/nccl-tests (doc/PERFORMANCE.md and Get...ByteCount)."""

from __future__ import annotations

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
_ALIGNED = 16  # bytes to which nccl-tests rounds a rank's share


def share(name: str, nbytes: int, ranks: int, width: int) -> int:
    """Elements of `width` bytes that each rank owns: all of them in all_reduce, else its aligned part of the whole.

    Raises ValueError for another collective, and where a rank would own nothing.
    """
    if name not in COLLECTIVES:
        raise ValueError(f"unknown collective {name}")
    each = nbytes if name == "all_reduce" else nbytes // ranks
    count = each // _ALIGNED * _ALIGNED // width
    if count < 1:
        raise ValueError(f"{nbytes} bytes are too few for {ranks} ranks")
    return count


def size(name: str, count: int, ranks: int, width: int) -> int:
    """Bytes of the whole operation, nccl-tests' column `size`, for a rank's share of `count` elements."""
    return count * width * (1 if name == "all_reduce" else ranks)


def algbw(nbytes: int, seconds: float) -> float:
    """Algorithm bandwidth in GB/s: size over time."""
    return nbytes / 1e9 / seconds


def factor(name: str, ranks: int) -> float:
    """What algbw is multiplied with, so that it can be held against a link: 2(n-1)/n, or (n-1)/n."""
    return (2 if name == "all_reduce" else 1) * (ranks - 1) / ranks


def busbw(name: str, nbytes: int, seconds: float, ranks: int) -> float:
    """Bus bandwidth in GB/s."""
    return algbw(nbytes, seconds) * factor(name, ranks)


def median(values: list[float]) -> float:
    """The middle value; of an even number the mean of the two in the middle."""
    found, half = sorted(values), len(values) // 2
    return found[half] if len(found) % 2 else (found[half - 1] + found[half]) / 2

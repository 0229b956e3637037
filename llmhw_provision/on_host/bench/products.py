"""Products of matrices: speed at fixed and at the best shapes, and a seeded computation that must end equal everywhere.

Inputs are random normal, since zeros draw less power and run faster; L2 is flushed between runs; the median counts.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .device import Device
from .formulas import median
from .watch import under_load

_SEARCH = (10, 20)  # warm-up and timed runs of each shape while the best is looked for
Shape = tuple[int, int, int]


def work_of(device: Device, dtype: str, shape: Shape) -> Callable[[], object]:
    """One product of m × k by k × n in bf16 or fp8 (e4m3, fast accumulation, bf16 out)."""
    rows, columns, inner = shape
    generator = torch.Generator(device=device.place).manual_seed(7)

    def normal(*sizes: int) -> Any:
        return torch.randn(*sizes, device=device.place, generator=generator)

    if dtype == "bf16":
        left, right = normal(rows, inner).bfloat16(), normal(inner, columns).bfloat16()
        out = torch.empty(rows, columns, dtype=torch.bfloat16, device=device.place)
        return lambda: torch.mm(left, right, out=out)
    eighth = torch.float8_e4m3fn
    left, right = normal(rows, inner).to(eighth), normal(columns, inner).to(eighth).t()  # column-major, as cuBLAS wants
    one = torch.ones((), device=device.place)
    return lambda: torch._scaled_mm(
        left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=device.cuda
    )


def tflops(shape: Shape, seconds: float) -> float:
    """TFLOP/s of a product: 2·m·n·k over the time."""
    return 2 * shape[0] * shape[1] * shape[2] / seconds / 1e12


def measured(device: Device, dtype: str, shape: Shape, request: dict[str, Any]) -> dict[str, Any]:
    """One row: seconds and TFLOP/s (by the median), and on a GPU clocks and power while it ran."""
    work, runs = work_of(device, dtype, shape), request["product"]
    each, _ = device.timed(work, int(runs["warm"]), int(runs["iterations"]), flushed=True)
    middle = median(each)
    seconds = {"min": min(each), "median": middle, "max": max(each)}
    row = {"gpu": device.index, "dtype": dtype, "shape": list(shape), "seconds": seconds}
    return {**row, "tflops": tflops(shape, middle), **under_load(device, work, middle)}


def best(device: Device, dtype: str, shapes: list[Shape]) -> Shape:
    """The shape with the most TFLOP/s in a short run."""

    def speed(shape: Shape) -> float:
        return tflops(shape, median(device.timed(work_of(device, dtype, shape), *_SEARCH, flushed=True)[0]))

    return max(shapes, key=speed)


def can(device: Device, dtype: str) -> str:
    """Why the device has no such products; empty when it has."""
    try:
        work_of(device, dtype, (64, 64, 64))()
        device.wait()
    except (RuntimeError, NotImplementedError, AttributeError) as error:
        return str(error).splitlines()[0][:200] or type(error).__name__
    return ""


def all_of(device: Device, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows of each kind asked for; `unsupported` where the device has no such products."""
    for dtype, wanted in request["products"].items():
        reason = can(device, dtype)
        if reason:
            yield {"gpu": device.index, "dtype": dtype, "unsupported": reason}
            continue
        fixed = [(int(m), int(n), int(k)) for m, n, k in wanted["fixed"]]
        tuned = [(int(m), int(n), int(k)) for m, n, k in wanted["tuned"]]
        for shape in fixed:
            yield {**measured(device, dtype, shape, request), "kind": "fixed"}
        if tuned:
            yield {**measured(device, dtype, best(device, dtype, tuned), request), "kind": "tuned"}


def checksum(device: Device, request: dict[str, Any]) -> dict[str, Any]:
    """SHA-256 of what a chain of products ends with, and whether every repetition ended the same.

    Inputs come from the processor's generator, so that they are the same on every GPU; so is the order of all steps.
    """
    torch.use_deterministic_algorithms(True)
    side, rounds = int(request["sum"]["side"]), int(request["sum"]["rounds"])
    generator = torch.Generator().manual_seed(20260217)
    first = torch.randn(side, side, generator=generator)
    second = torch.randn(side, side, generator=generator)
    sums = [
        _chain(first.to(device.place), second.to(device.place), rounds) for _ in range(int(request["sum"]["repeats"]))
    ]
    return {"gpu": device.index, "sha256": sums[0], "side": side, "rounds": rounds, "stable": len(set(sums)) == 1}


def _chain(state: Any, weights: Any, rounds: int) -> str:
    halved = weights.bfloat16()
    for _ in range(rounds):
        state = state @ weights
        state = state / state.abs().max()
        small = state.bfloat16() @ halved
        state = state + (small / small.abs().max()).float()
    done = state.cpu().contiguous()
    return hashlib.sha256(ctypes.string_at(done.data_ptr(), done.numel() * done.element_size())).hexdigest()

"""One device as the measurements see it: a GPU through CUDA, or the processor, by the same calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

_FLUSH = 512 << 20  # bytes written between two runs: several times the L2 of any GPU


class Device:
    """A device with a clock that runs in the order of its work."""

    def __init__(self, kind: str, index: int) -> None:
        self.cuda = kind == "cuda"
        self.index = index
        self.place = torch.device("cuda", index) if self.cuda else torch.device("cpu")
        self._flush: Any = None
        if self.cuda:
            torch.cuda.set_device(index)

    def mark(self) -> Any:
        """A moment between two pieces of work; on a GPU it is reached when all work before it is done."""
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, first: Any, second: Any) -> float:
        """Seconds from one mark to another; `wait` first."""
        return float(first.elapsed_time(second)) / 1e3 if self.cuda else float(second - first)

    def wait(self) -> None:
        """Returns when all work is done."""
        if self.cuda:
            torch.cuda.synchronize(self.place)

    def flush(self) -> None:
        """Drives what earlier runs left out of the L2; on the processor nothing."""
        if not self.cuda:
            return
        if self._flush is None:
            self._flush = torch.empty(_FLUSH, dtype=torch.uint8, device=self.place)
        self._flush.zero_()

    def timed(
        self, work: Callable[[], object], warm: int, iterations: int, *, flushed: bool = False
    ) -> tuple[list[float], float]:
        """Seconds of each run after `warm` unmeasured ones, and of all runs together, pauses included."""
        for _ in range(warm):
            work()
        self.wait()
        marks = []
        for _ in range(iterations):
            if flushed:
                self.flush()
            first = self.mark()
            work()
            marks.append((first, self.mark()))
        self.wait()
        return [self.between(*pair) for pair in marks], self.between(marks[0][0], marks[-1][1])


def spread(values: list[float]) -> dict[str, float]:
    """Least, mean and greatest of some seconds."""
    return {"min": min(values), "avg": sum(values) / len(values), "max": max(values)}

"""Times whole processes, interleaved so that a busy moment hits both sides."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """Seconds of one command over several runs."""

    name: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median in seconds."""
        return statistics.median(self.seconds)

    def row(self) -> str:
        """One line of a Markdown table: name, minimum, median, maximum."""
        return f"| {self.name} | {min(self.seconds):.3f} | {self.median:.3f} | {max(self.seconds):.3f} |"


HEADER = "| command | min s | median s | max s |\n|---|---|---|---|"


def once(command: Sequence[str], cwd: str | None = None) -> float:
    """Seconds of one run; raises CalledProcessError when the command fails."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, cwd=cwd)
    return time.perf_counter() - start


def interleaved(commands: Mapping[str, Sequence[str]], runs: int) -> list[Sample]:
    """Each command `runs` times in turn, after one run of each that is not counted."""
    for command in commands.values():
        once(command)
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            taken[name].append(once(command))
    return [Sample(name, tuple(seconds)) for name, seconds in taken.items()]

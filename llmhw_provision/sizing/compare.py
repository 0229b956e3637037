"""One workload over several machines: on how few of their GPUs it fits, what they draw, how fast they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from llmhw_provision.catalogue.loader import Gpu, find
from llmhw_provision.errors import InputError
from llmhw_provision.sizing.estimate import Estimate, Hardware
from llmhw_provision.sizing.layout import best
from llmhw_provision.sizing.need import Need
from llmhw_provision.sizing.power import power
from llmhw_provision.sizing.speed import speed


@dataclass(frozen=True)
class Candidate:
    """A machine that can be bought: `hardware` is one host with all its GPUs."""

    name: str
    title: str
    hardware: Hardware

    @property
    def watts(self) -> int:
        """Most that one whole machine draws, whether all its GPUs are used or not."""
        gpu, hardware = find("gpus", self.hardware.card.kind, Gpu), self.hardware
        return power(
            gpus=hardware.gpus,
            gpu_watts=gpu.power_w,
            switched=gpu.nvswitch and hardware.gpus > 1,
            cpu_watts=hardware.cpu_watts,
            memory=hardware.host_memory,
            nics=hardware.nics,
            disks=hardware.disks,
        ).host


@dataclass(frozen=True)
class Choice:
    """A candidate with its fewest GPUs; `found` is the estimate on them, or on all it has when nothing fits."""

    candidate: Candidate
    found: Estimate | None
    problem: str = ""
    tight_on: int = 0  # fewer GPUs on which it can work within the uncertainty of the need, 0: none

    @property
    def fits(self) -> bool:
        """Whether it fits, tightly at least."""
        return self.found is not None and self.found.verdict != "does not fit"

    @property
    def gpus(self) -> int:
        """GPUs used, 0 when it does not fit."""
        return self.found.hardware.all_gpus if self.found and self.fits else 0

    @property
    def hosts(self) -> int:
        """Machines needed."""
        return self.found.hardware.nodes if self.found else 1

    @property
    def watts(self) -> int:
        """What all machines draw at most."""
        return self.hosts * self.candidate.watts

    @property
    def tokens_per_second(self) -> float:
        """Of all GPUs used, 0 where it is not predicted."""
        predicted = speed(self.found) if self.found and self.fits else None
        return predicted.tokens_per_second if predicted else 0.0


def compare(need: Need, candidates: tuple[Candidate, ...], *, most_hosts: int = 64) -> tuple[Choice, ...]:
    """Every candidate: first those it fits surely, by GPUs and then watts; tight ones; then where it does not fit."""
    found = [_fewest(need, candidate, most_hosts) for candidate in candidates]
    ranks = {"fits": 0, "tight": 1, "does not fit": 2}

    def order(item: Choice) -> tuple[int, int, int]:
        return ranks[item.found.verdict] if item.found else 3, item.gpus, item.watts

    return tuple(sorted(found, key=order))


def sizes(hardware: Hardware, most_hosts: int) -> tuple[Hardware, ...]:
    """Powers of two of a machine's GPUs, then more machines where they have adapters to reach each other."""
    counts = [count for count in (1 << power for power in range(20)) if count < hardware.gpus] + [hardware.gpus]
    hosts = [1 << power for power in range(1, 20) if 1 << power <= most_hosts] if hardware.nics else []
    return (*(replace(hardware, gpus=count) for count in counts), *(replace(hardware, nodes=count) for count in hosts))


def _fewest(need: Need, candidate: Candidate, most_hosts: int) -> Choice:
    tight: Estimate | None = None
    largest: Estimate | None = None
    problem = ""
    for hardware in sizes(candidate.hardware, most_hosts):
        try:
            tried = best(need.job, need.model, hardware, need.workload.layout, need.workload.batch)
        except InputError as error:
            problem = problem or str(error)
            continue
        if tried.verdict == "fits":
            return Choice(candidate, tried, tight_on=tight.hardware.all_gpus if tight else 0)
        tight = tight or (tried if tried.verdict == "tight" else None)
        largest = tried
    return Choice(candidate, tight or largest, problem if largest is None else "")

"""Which machine of the catalogue a workload wants, why, and the next best ones with what they would cost.

Rule: it fits surely before it fits within the uncertainty of the need; then fewest GPUs bought, of whole machines;
then least power of the whole machines. Nothing is offloaded unless the workload asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from llmhw_provision.catalogue.loader import names
from llmhw_provision.errors import InputError
from llmhw_provision.sizing.compare import Candidate
from llmhw_provision.sizing.estimate import VERDICTS, Estimate, Verdict
from llmhw_provision.sizing.layout import best, describe
from llmhw_provision.sizing.machines import candidate, without_offload
from llmhw_provision.sizing.need import Need
from llmhw_provision.sizing.placement import Placed, place
from llmhw_provision.sizing.speed import speed
from llmhw_provision.units import memory

RULE = "machine: what fits surely, then fewest GPUs bought, then least power; nothing offloaded unless asked"
_NEXT = 2  # alternatives that are shown


@dataclass(frozen=True)
class Option:
    """Whole machines of one kind; `found` is None where the workload has no layout on them, `problem` says why."""

    candidate: Candidate
    hosts: int
    found: Estimate | Placed | None
    problem: str = ""

    @property
    def verdict(self) -> Verdict:
        """Whether the workload fits."""
        return self.found.verdict if self.found is not None else "does not fit"

    @property
    def gpus(self) -> int:
        """GPUs bought."""
        return self.hosts * self.candidate.hardware.gpus

    @property
    def watts(self) -> int:
        """What the machines draw at most, at the wall."""
        return self.hosts * self.candidate.watts

    @property
    def cost(self) -> str:
        """`2 × AlphaPro660: 16 GPUs, 20.4 kW`."""
        gpus = f"{self.gpus:,} GPU{'s' * (self.gpus != 1)}"
        return f"{self.hosts} × {self.candidate.title}: {gpus}, {self.watts / 1000:.1f} kW"

    @property
    def words(self) -> str:
        """The machines with their cost and how the workload lies on them, or why it does not."""
        if self.found is None:
            return f"{self.cost}; no layout: {self.problem}"
        if isinstance(self.found, Placed):
            return f"{self.cost}; {self.verdict}"
        need = f"{memory(self.found.device_bytes)} of {memory(self.found.limit)} per GPU"
        if self.found.device_verdict != "does not fit" and self.verdict == "does not fit":
            room = self.found.hardware.host_memory
            need = f"{memory(self.found.host_bytes)} of {memory(room)} of host memory"
        text = f"{self.cost}; {self.verdict}, {need}"
        if self.verdict == "does not fit":
            return text
        predicted = speed(self.found)
        rate = f", about {predicted.tokens_per_second * self._servers:,.0f} tokens/s" if predicted else ""
        return f"{text}, {describe(self.found.job, self.found.layout)}{rate}"

    @property
    def _servers(self) -> int:
        """Hosts that serve side by side, each with its part of the requests; 1 when the estimate spans all hosts."""
        return 1 if self.found is None or self.found.hardware.nodes == self.hosts else self.hosts


@dataclass(frozen=True)
class Chosen:
    """The options in order: `best` is None where none fits; `others` are the nearest alternatives."""

    best: Option | None
    others: tuple[Option, ...]
    refused: tuple[Option, ...]


def sold() -> tuple[Candidate, ...]:
    """Every machine and tier of the catalogue."""
    return tuple(candidate(name) for table in ("machines", "tiers") for name in names(table))


def choose(need: Need, candidates: tuple[Candidate, ...], counts: tuple[int, ...]) -> Chosen:
    """The choice among `candidates`; of each the first of `counts` machines on which the workload fits is tried."""
    need = without_offload(need)
    tried = [_first(need, item, counts) for item in candidates]
    ranked = sorted(tried, key=lambda item: (VERDICTS.index(item.verdict), item.gpus, item.watts))
    fitting = [item for item in ranked if item.verdict != "does not fit"]
    refused = [item for item in ranked if item.verdict == "does not fit"]
    return Chosen(fitting[0] if fitting else None, tuple(fitting[1 : 1 + _NEXT]), tuple(refused))


def _first(need: Need, item: Candidate, counts: tuple[int, ...]) -> Option:
    tight: Option | None = None
    last: Option | None = None
    for hosts in counts:
        tried = on(need, item, hosts)
        if tried.verdict == "fits":
            return tried
        tight = tight or (tried if tried.verdict == "tight" else None)
        last = tried if last is None or tried.found is not None else last
    if last is None:
        raise ValueError("no number of machines to try")
    return tight or last


def on(need: Need, item: Candidate, hosts: int) -> Option:
    """The workload on `hosts` machines: training spans them, a server stands on each with its part of the requests."""
    job, load = need.job, need.workload
    if job.trains and hosts > 1 and not item.hardware.nics:
        return Option(item, hosts, None, "no network adapter joins its machines")
    if not job.trains:
        job = replace(job, concurrency=-(-job.concurrency // hosts))
    hardware = replace(item.hardware, nodes=hosts if job.trains else 1)
    try:
        if load.placement is not None:
            return Option(item, hosts, place(job, need.model, hardware, load.layout, load.batch, load.placement))
        return Option(item, hosts, best(job, need.model, hardware, load.layout, load.batch))
    except InputError as error:
        return Option(item, hosts, None, str(error))

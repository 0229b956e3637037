"""estimate(workload, model, machine, layout) → Estimate: memory per GPU and per host, every number with its terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llmhw_provision.model import Architecture
from llmhw_provision.sizing.bands import band
from llmhw_provision.sizing.cards import Card
from llmhw_provision.sizing.host import host_terms
from llmhw_provision.sizing.job import Job, Layout
from llmhw_provision.sizing.limits import require
from llmhw_provision.sizing.serving import VllmMemory, serving, vllm_memory
from llmhw_provision.sizing.terms import Term, total
from llmhw_provision.sizing.training import Known, Moment, moments

Verdict = Literal["fits", "tight", "does not fit"]
VERDICTS: tuple[Verdict, ...] = ("fits", "tight", "does not fit")  # the worst last


@dataclass(frozen=True)
class Hardware:
    """GPUs of one kind in equal hosts; `host_memory` in bytes, 0 when it is not known."""

    card: Card
    gpus: int  # of one host
    nodes: int = 1
    host_memory: int = 0
    # of one host; 0 when it is not known
    nics: int = 0
    nic_rate: int = 0  # bytes/s of one port, one way
    disks: int = 0  # that are not the system's
    disk_rate: int = 0  # bytes/s that one of them writes
    cpu_watts: int = 0
    cores: int = 0

    @property
    def all_gpus(self) -> int:
        """GPUs of all hosts."""
        return self.gpus * self.nodes


@dataclass(frozen=True)
class Estimate:
    """What a job needs on each GPU at its peak and on each host, and whether the hardware has it."""

    model: Architecture
    job: Job
    layout: Layout
    hardware: Hardware
    moments: tuple[Moment, ...]
    host: tuple[Term, ...]
    cache: VllmMemory | None

    @property
    def peak(self) -> Moment:
        """The moment that needs most."""
        return max(self.moments, key=lambda moment: moment.device)

    @property
    def device_bytes(self) -> int:
        """Bytes per GPU at the peak."""
        return self.peak.device

    @property
    def device_band(self) -> int:
        """Bytes by which the need may be wrong, either way."""
        return band(self.peak.terms)

    @property
    def host_bytes(self) -> int:
        """Bytes per host, without what takes only memory that is left."""
        return host_bytes(self.host)

    @property
    def limit(self) -> int:
        """Bytes of one GPU that the job may take: in vLLM its share of the card."""
        return limit(self.job, self.hardware.card.usable)

    @property
    def device_verdict(self) -> Verdict:
        """Whether one GPU holds it."""
        return verdict(self.device_bytes, self.device_band, self.limit)

    @property
    def host_verdict(self) -> Verdict:
        """Whether one host holds it; fits where its memory is not known."""
        return host_verdict(self.host, self.hardware)

    @property
    def verdict(self) -> Verdict:
        """The worse of GPU and host."""
        return max(self.device_verdict, self.host_verdict, key=VERDICTS.index)


def limit(job: Job, usable: int) -> int:
    """Bytes of a card with `usable` bytes that a job may take."""
    return usable * job.utilisation // 100 if not job.trains and job.runtime == "vllm" else usable


def verdict(need: int, uncertain: int, room: int) -> Verdict:
    """fits: even with the whole band on top; tight: only within the band; else does not fit."""
    if need + uncertain <= room:
        return "fits"
    return "tight" if need - uncertain <= room else "does not fit"


def host_bytes(terms: tuple[Term, ...]) -> int:
    """Bytes of one host, without what takes only memory that is left."""
    return total(term for term in terms if term.kind == "host")


def host_verdict(terms: tuple[Term, ...], hardware: Hardware) -> Verdict:
    """Whether one host holds `terms`; fits where its memory is not known."""
    if not hardware.host_memory:
        return "fits"
    return verdict(host_bytes(terms), band(terms), hardware.host_memory)


def estimate(job: Job, model: Architecture, hardware: Hardware, layout: Layout, known: Known | None = None) -> Estimate:
    """The memory of `job` on `hardware` spread as `layout`; raises InputError naming every contradiction.

    `known` is what other layouts of the same job on the same GPUs have in common with this one.
    """
    require(model, job, layout)
    found = moments(model, job, layout, known=known) if job.trains else (serving(model, job, layout),)
    cache = None
    if not job.trains and job.runtime == "vllm":
        cache = vllm_memory(model, job, layout, hardware.card.usable)
    return Estimate(model, job, layout, hardware, found, host_terms(model, job, layout), cache)

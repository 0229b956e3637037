"""The best layouts of a job on its GPUs: all legal ones, ranked by predicted time, then simplicity.

Rank: what fits before what is tight; then what makes up exactly the batch before what rounds it; then the seconds of a
training step (of a token when serving, whose number of requests is given: tokens per second are requests over these
seconds); then simplicity among those that the prediction cannot tell apart, in steps of 2 % from the fastest on.
Keeping states in the host is tried only where nothing fits without it. PPO and GRPO are ranked by their training phase.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import itemgetter

from llmhw_provision.errors import InputError
from llmhw_provision.model import Architecture
from llmhw_provision.sizing.bands import PARTS, bands
from llmhw_provision.sizing.cards import Card
from llmhw_provision.sizing.estimate import Estimate, Hardware, estimate, limit
from llmhw_provision.sizing.job import Job, Layout, under
from llmhw_provision.sizing.legal import Space
from llmhw_provision.sizing.speed import links_of, served
from llmhw_provision.sizing.step_time import StepTimes
from llmhw_provision.sizing.terms import total
from llmhw_provision.sizing.training import Known, gradients_persist
from llmhw_provision.workload import Parallel

_KINDS = ("states", "activations", "logits", "kv", "buffers", "overhead")
_RECOMPUTED = {"none": 0, "selective-op": 1, "selective": 1, "full": 2}
ALIKE = 0.02  # far below the error of any predicted speed, which is kept in efficiency.json
_NODE = 8  # GPUs of a host where only a number of GPUs is asked for
_MOST = 16_384


@dataclass(frozen=True)
class Ranked:
    """A layout with its estimate; `seconds` of a step or token, 0 where the chip is not known."""

    seconds: float
    estimate: Estimate

    @property
    def layout(self) -> Layout:
        """The layout."""
        return self.estimate.layout

    def level(self, fastest: Ranked | None) -> int:
        """Steps of 2 % from the fastest on."""
        return level(self.seconds, fastest.seconds if fastest else 0.0)


@dataclass(frozen=True)
class Found:
    """The best layouts in order, and how many there were to choose from."""

    ranked: tuple[Ranked, ...]
    legal: int
    estimated: int  # those whose memory had to be computed in full


def level(seconds: float, fastest: float) -> int:
    """Steps of 2 % from the fastest on; what is on one step is equally fast."""
    return math.floor(math.log(seconds / fastest) / math.log(1 + ALIKE)) if fastest else 0


def simplicity(layout: Layout) -> tuple[int, ...]:
    """Smaller is simpler: states at home, fewer ways to be split, less recomputation, fewer micro-batches."""
    tp, pp, cp, ep = layout.tp, layout.pp, layout.cp * layout.dcp, layout.ep
    return (
        layout.offload_params + layout.offload_optimizer,
        (tp > 1) + (pp > 1) + (cp > 1) + (ep > 1),
        tp * pp * cp * ep,
        _RECOMPUTED[layout.recompute],
        layout.zero,
        layout.micro_batches,
        *(tp, pp, cp, ep),
    )


@dataclass(frozen=True)
class Floor:
    """Bytes that a layout needs at least, held against a card: a bound that never drops a layout that could win.

    Every term of the floor is one of the terms of one real moment, and terms are never negative, so the peak is at
    least the floor. A need fits when need + band ≤ card, and is tight when need - band ≤ card. The band is a sum over
    kinds of share × size: at least the smallest share of the need, at most the largest (and one byte of rounding per
    kind). Hence floor × (1 + smallest) > card excludes fits, floor × (1 - largest) - kinds > card excludes tight.
    """

    card: int

    def may_fit(self, floor: int) -> bool:
        """Whether a need of at least `floor` can still fit."""
        return floor * (PARTS + _shares()[0]) <= self.card * PARTS

    def may_be_tight(self, floor: int) -> bool:
        """Whether a need of at least `floor` can still be tight."""
        return floor * (PARTS - _shares()[1]) <= (self.card + len(_KINDS)) * PARTS


def _shares() -> tuple[int, int]:
    found = [int(bands()["bands"][kind]) for kind in _KINDS]
    return min(found), max(found)


@dataclass
class _Search:
    """One search: what layouts have in common is kept for its duration."""

    space: Space
    known: Known = field(default_factory=Known)
    legal: int = 0
    estimated: int = 0

    def __post_init__(self) -> None:
        space = self.space
        self.floor = Floor(limit(space.job, space.hardware.card.usable))
        self.times = None
        if space.job.trains and space.chip is not None:
            self.times = StepTimes(space.model, space.job, links_of(space.hardware, space.chip))

    def of(self, layout: Layout) -> Estimate:
        """The whole estimate; replicas that serve divide the requests among them."""
        job = self.space.job
        self.estimated += 1
        if not job.trains:
            job = replace(job, concurrency=-(-job.concurrency // layout.dp))
        return estimate(job, self.space.model, self.space.hardware, layout, self.known)

    def states(self, layout: Layout) -> int:
        """Bytes of states that live through every moment of training; 0 when serving."""
        if not self.space.job.trains:
            return 0
        job = under(self.space.job, layout)
        return max(total(self.known.held(self.space.model, job, layout, stage).kept) for stage in layout.stages)

    def need(self, layout: Layout) -> int:
        """Bytes of one moment at least, the end of forward: states, gradients that persist, activations, logits."""
        if not self.space.job.trains:
            return 0
        job, model, found = under(self.space.job, layout), self.space.model, 0
        for stage in layout.stages:
            held, active = self.known.held(model, job, layout, stage), self.known.active(model, job, layout, stage)
            size = total(held.kept) + total(active.kept) + total(active.loss)
            found = max(found, size + (total(held.gradients) if gradients_persist(layout) else 0))
        return found

    def seconds(self, layout: Layout) -> float:
        """Seconds of a step, or of a token."""
        if self.times is not None:
            return self.times.seconds(layout)
        return served(self.of(layout), self.space.chip).token_seconds if self.space.chip is not None else 0.0

    def candidates(self, *, offload: bool = False) -> list[tuple[float, Layout]]:
        """Layouts whose states leave a chance, with their seconds, best first."""
        found = []
        for frame in self.space.frames(offload=offload):
            hopeless = not self.floor.may_be_tight(self.states(frame))
            for layout in self.space.filled(frame):
                self.legal += 1
                if not hopeless:
                    found.append((self.seconds(layout), layout))
        return sorted(found, key=_order)

    def those(self, ordered: list[tuple[float, Layout]], verdict: str, count: int) -> list[Ranked]:
        """The first `count` layouts with this verdict; `ordered` by seconds."""
        possible = self.floor.may_fit if verdict == "fits" else self.floor.may_be_tight
        found: list[Ranked] = []
        for seconds, layout in ordered if count > 0 else ():
            enough = len(found) >= count and found[count - 1].level(found[0]) < level(seconds, found[0].seconds)
            if enough or (len(found) >= count and not seconds):
                break
            if possible(self.need(layout)) and (item := self.of(layout)).verdict == verdict:
                found.append(Ranked(seconds, item))
        fastest = found[0] if found else None
        return sorted(found, key=lambda item: (item.level(fastest), simplicity(item.layout), item.seconds))[:count]

    def exact_first(self, ordered: list[tuple[float, Layout]], verdict: str, count: int) -> list[Ranked]:
        """The first `count` layouts with this verdict, those with exactly the batch that is asked for before others."""
        exact = [item for item in ordered if self.space.exact(item[1])]
        found = self.those(exact, verdict, count)
        if len(found) < count and len(exact) < len(ordered):
            others = [item for item in ordered if not self.space.exact(item[1])]
            found += self.those(others, verdict, count - len(found))
        return found

    def least(self) -> list[Ranked]:
        """Of layouts that all do not fit the one that needs least on a GPU: without offload, unless it is asked for.

        With two micro-batches or more no term shrinks when the micro-batch grows; with a single one gradients may not
        pile up. So the smallest and the largest micro-batch of a frame are all that can need least.
        """
        least: Estimate | None = None
        chosen = self.space.given.micro_batch or self.space.given.micro_batches
        for states, frame in sorted(((self.states(frame), frame) for frame in self.space.frames()), key=itemgetter(0)):
            if least is not None and states > least.device_bytes:
                break
            for layout in self.space.filled(frame):
                end = chosen or layout.micro_batch == 1 or layout.micro_batches == 1
                if not end or (least is not None and self.need(layout) > least.device_bytes):
                    continue
                tried = self.of(layout)
                if least is None or _size(tried) < _size(least):
                    least = tried
        return [] if least is None else [Ranked(self.seconds(least.layout), least)]


def _order(item: tuple[float, Layout]) -> tuple[float, tuple[int, ...]]:
    return item[0], simplicity(item[1])


def _size(found: Estimate) -> tuple[int, tuple[int, ...]]:
    return found.device_bytes, simplicity(found.layout)


def search(space: Space, count: int = 1) -> Found:
    """The best `count` layouts; raises InputError when none is legal, else there is at least one, fitting or not."""
    at_work = _Search(space)
    near = at_work.candidates()
    found = at_work.exact_first(near, "fits", count)
    if len(found) < count:
        host = [] if found else at_work.candidates(offload=True)
        found += at_work.exact_first(host, "fits", count)
        found += at_work.exact_first(sorted(near + host, key=_order), "tight", count - len(found))
    found = found or at_work.least()
    if not found:
        raise space.refuse()
    return Found(tuple(found), at_work.legal, at_work.estimated)


@lru_cache(maxsize=64)
def best(job: Job, model: Architecture, hardware: Hardware, given: Parallel, batch: int) -> Estimate:
    """The layout to choose; raises InputError when no layout is possible with what is given."""
    return search(Space(job, model, hardware, given, batch)).ranked[0].estimate


def describe(job: Job, layout: Layout) -> str:
    """The layout in words: `FSDP over 8, full recompute, micro-batch 1`."""
    parts = [
        f"{name} {ways}"
        for name, ways in (("TP", layout.tp), ("PP", layout.pp), ("CP", layout.cp * layout.dcp), ("EP", layout.ep))
        if ways > 1
    ]
    if not job.trains:
        if layout.dp > 1:  # with expert parallelism they are ranks of one server
            parts.append(f"{layout.dp} replicas" if layout.ep == 1 else f"DP {layout.dp}")
        return ", ".join(parts) or "one GPU per replica"
    parts += _sharding_words(layout)
    if layout.recompute != "none":
        parts.append({"selective-op": "selective"}.get(layout.recompute, layout.recompute) + " recompute")
    if layout.offload_params or layout.offload_optimizer:
        what = "everything" if layout.offload_params else "optimizer"
        parts.append(f"{what} offloaded to {'NVMe' if layout.nvme else 'host'}")
    parts.append(f"micro-batch {layout.micro_batch}")
    return ", ".join(parts)


def _sharding_words(layout: Layout) -> list[str]:
    if layout.zero == 0:
        return [f"DDP over {layout.dp}"] if layout.dp > 1 else []
    fsdp = "FSDP" if layout.zero == 3 else "FSDP SHARD_GRAD_OP"
    names = {"fsdp": fsdp, "megatron": "distributed optimizer", "deepspeed": f"ZeRO-{layout.zero}", "ddp": "DDP"}
    return [names[layout.sharder] + (f" over {layout.shards}" if layout.shards > 1 else "")]


def counts() -> Iterator[int]:
    """Numbers of GPUs that machines come in: powers of two."""
    count = 1
    while count <= _MOST:
        yield count
        count *= 2


def fewest(model: Architecture, job: Job, card: Card, *, tight: bool = False) -> int:
    """GPUs that hold a job, one sample per micro-batch and nothing offloaded; raises InputError beyond 16,384.

    `tight` counts what can work within the uncertainty of the need, instead of what surely does.
    """
    wanted = ("fits", "tight") if tight else ("fits",)
    for gpus in counts():
        host = min(_NODE, gpus)
        at_work = _Search(Space(job, model, Hardware(card, host, gpus // host)))
        possible = at_work.floor.may_be_tight if tight else at_work.floor.may_fit
        frames = (frame for frame in at_work.space.frames() if possible(at_work.states(frame)))
        tried = (layout for frame in frames for layout in at_work.space.filled(frame))
        if any(possible(at_work.need(layout)) and at_work.of(layout).verdict in wanted for layout in tried):
            return gpus
    raise InputError(f"{model.title}: does not fit {_MOST:,} GPUs")

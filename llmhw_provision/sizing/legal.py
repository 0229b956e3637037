"""Every legal layout of a job on its GPUs, and the rules that keep others out.

A frame is a layout without its recomputation and micro-batch: TP × PP × DP × CP × EP × ZeRO stage. Pinned values are
taken as they are: rules of practice bind only what is left to choose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

from llmhw_provision.errors import InputError
from llmhw_provision.model import Architecture
from llmhw_provision.sizing.chips import Chip, chip_of
from llmhw_provision.sizing.estimate import Hardware
from llmhw_provision.sizing.job import Job, Layout, Recompute, Sharder
from llmhw_provision.sizing.launchers import ON_HOST, cannot_split, counted_as_layers
from llmhw_provision.sizing.limits import require
from llmhw_provision.workload import Parallel

_PAIR = 2  # cards without a switch: tensor parallelism stays inside a bridged pair, or one hop over PCIe
_DOMAIN = 8  # GPUs of one NVLink domain where the card is not in the catalogue
_LEAST_TOKENS = 4096  # of a context-parallel rank: NeMo's Llama 3 8B recipe and MLPerf 405B split 8,192 tokens in two
_RACK = 8  # a switched domain larger than this spans hosts
_STAGES: dict[Sharder, tuple[int, ...]] = {"ddp": (0,), "deepspeed": (1, 2, 3), "fsdp": (2, 3), "megatron": (0, 1)}
_OFFLOAD: dict[str, dict[str, Any]] = {
    "none": {"offload_optimizer": False, "offload_params": False},
    "optimizer": {"offload_optimizer": True, "offload_params": False},
    "all": {"offload_optimizer": True, "offload_params": True},
}
_FILLED = ("recompute", "micro_batch", "micro_batches")
_TAKEN = ("vpp", "nvme", "offload_activations")  # never chosen, only given


def divisors(count: int) -> list[int]:
    """All divisors, ascending."""
    low = [ways for ways in range(1, int(count**0.5) + 1) if count % ways == 0]
    return low + [count // ways for ways in reversed(low) if ways * ways != count]


@dataclass(frozen=True)
class Space:
    """What is spread over what; `batch` in samples per step of all GPUs together."""

    job: Job
    model: Architecture
    hardware: Hardware
    given: Parallel = field(default_factory=Parallel)
    batch: int = 1

    @cached_property
    def chip(self) -> Chip | None:
        """The chip; None when nothing but the size of the card is known."""
        return chip_of(self.hardware.card.kind) if self.hardware.card.kind else None

    @cached_property
    def pinned(self) -> dict[str, Any]:
        """What the workload fixes."""
        return {name: value for name, value in self.given if value is not None}

    @cached_property
    def undivided(self) -> str:
        """Why no launcher splits tensors, layers, sequences or experts of this job; empty: one does, or it serves."""
        return cannot_split(self.model, self.job) if self.job.trains else ""

    def exact(self, layout: Layout) -> bool:
        """Whether the ranks' samples are the batch that is asked for, as launchers want it."""
        given = self.given.micro_batch and self.given.micro_batches
        samples = layout.micro_batch * layout.micro_batches * layout.dp
        return not self.job.trains or bool(given) or samples == self.batch

    @cached_property
    def reach(self) -> int:
        """GPUs that tensor parallelism may span: an NVSwitch domain, a pair of other cards in training, else a host."""
        host = self.hardware.gpus
        if self.chip is None:
            return min(host, _DOMAIN)
        if self.chip.switched:
            return min(self.hardware.all_gpus, self.chip.domain) if self.chip.domain > _RACK else host
        return min(host, _PAIR) if self.job.trains else host

    def frames(self, *, offload: bool = False) -> Iterator[Layout]:
        """Every legal frame; with `offload` those that keep states in the host instead."""
        all_gpus = self.hardware.all_gpus
        for tp in self._values("tp", divisors(all_gpus)):
            for pp in self._values("pp", divisors(all_gpus // tp) if all_gpus % tp == 0 else ()):
                for cp in self._values("cp", self._contexts(all_gpus, tp * pp)) if self.job.trains else (1,):
                    if all_gpus % (tp * pp * cp):
                        continue
                    base = Layout(gpus=all_gpus, nodes=self.hardware.nodes, tp=tp, pp=pp, cp=cp)
                    if any(name not in self.pinned for name, _ in spread_rules(self, base)):
                        continue
                    yield from self._sharded(base, offload=offload)

    def filled(self, frame: Layout) -> Iterator[Layout]:
        """The frame with every recomputation and every micro-batch that divides the samples of a rank."""
        if not self.job.trains:
            yield frame
            return
        fields = {name: value for name, value in frame.__dict__.items() if name not in _FILLED}
        for recompute in self._recomputations():
            for micro, count in self._micro_batches(frame):
                if not (self.job.in_backward and count > 1):
                    yield Layout(**fields, recompute=recompute, micro_batch=micro, micro_batches=count)

    def refuse(self) -> InputError:
        """Why there is no legal layout at all."""
        job, pinned = self.job, self.pinned
        fields = {name: value for name, value in pinned.items() if name != "offload"}
        if not job.trains:
            fields["dcp"] = fields.pop("cp", 1)
        if "sharder" not in pinned:
            fields["sharder"] = _sharder(pinned.get("zero", 0), split=pinned.get("pp", 1) > 1)
        elif "zero" not in pinned:
            fields["zero"] = _STAGES[pinned["sharder"]][-1]
        fields |= _OFFLOAD[pinned.get("offload", "none")]
        try:
            require(self.model, job, Layout(gpus=self.hardware.all_gpus, nodes=self.hardware.nodes, **fields))
        except InputError as error:
            return error
        return InputError(f"{self.model.title}: no layout is possible on {self.hardware.all_gpus} GPUs")

    def _values(self, name: str, found: Any) -> Any:
        return (self.pinned[name],) if name in self.pinned else found

    def _contexts(self, all_gpus: int, ways: int) -> list[int]:
        if all_gpus % ways:
            return []
        return [cp for cp in divisors(all_gpus // ways) if cp == 1 or self.job.sequence % (2 * cp) == 0]

    def _sharded(self, base: Layout, *, offload: bool) -> Iterator[Layout]:
        parallel = self.pinned.get("sequence_parallel", base.tp > 1 and self.job.trains)
        more: dict[str, Any] = {name: self.pinned[name] for name in _TAKEN if name in self.pinned}
        for ep, dcp in product(self._values("ep", self._experts(base)), self._caches(base)):
            spread = replace(base, ep=ep, dcp=dcp, sequence_parallel=parallel, **more)
            for zero, sharder in self._stages(spread, offload=offload):
                for states in self._offloads(spread, zero, offload=offload):
                    frame = replace(spread, zero=zero, sharder=sharder, **states)
                    if _stands(self.model, self.job, frame):
                        yield frame

    def _experts(self, base: Layout) -> list[int]:
        if not self.model.experts or self.undivided or (not self.job.trains and self.job.runtime != "vllm"):
            return [1]
        return [ep for ep in divisors(self.model.experts) if base.dp * base.cp % ep == 0]

    def _caches(self, base: Layout) -> Any:
        """Context parallelism of a server: ranks that cache the same keys and values divide them by position."""
        if self.job.trains:
            return (1,)
        same = base.tp if self.model.mla else base.tp // self.model.kv_heads
        return self._values("cp", divisors(same) if same and self.job.runtime == "vllm" else (1,))

    def _stages(self, base: Layout, *, offload: bool) -> list[tuple[int, Sharder]]:
        """ZeRO stages, each with the framework that has it: Megatron-LM where tensors, stages or experts are split."""
        pinned = self.pinned
        if not self.job.trains:
            return [(pinned.get("zero", 0), "ddp")]
        if "sharder" in pinned:
            return [(zero, pinned["sharder"]) for zero in self._values("zero", _STAGES[pinned["sharder"]])]
        stages: tuple[int, ...] = (0, 1, 3) if base.pp > 1 else (0, 1, 2, 3)  # FSDP keeps a stage whole: 3 is 2
        if base.dp * base.cp == 1 and not offload and pinned.get("offload", "none") == "none":
            stages = (0,)  # one rank divides nothing
        split = base.tp * base.pp * base.cp * base.ep > 1
        if split:
            stages = tuple(zero for zero in stages if zero < 2)  # who splits has no FSDP
        return [(zero, _sharder(zero, split=split)) for zero in self._values("zero", stages)]

    def _offloads(self, base: Layout, zero: int, *, offload: bool) -> list[dict[str, Any]]:
        if "offload" in self.pinned:
            return [_OFFLOAD[self.pinned["offload"]]] if not offload else []
        if not offload:
            return [_OFFLOAD["none"]]
        if zero < 2 or base.pp > 1 or self.job.optimizer not in ON_HOST:
            return []
        if _adapts(self.job) and base.dp * base.cp == 1:
            return []  # one GPU would fetch the whole frozen base over PCIe in every pass
        return [_OFFLOAD["optimizer"], _OFFLOAD["all"]] if zero == 3 else [_OFFLOAD["optimizer"]]

    def _recomputations(self) -> tuple[Recompute, ...]:
        if self.given.recompute:
            return (self.given.recompute,)
        return ("none", "selective-op", "full") if self.job.flash else ("none", "selective", "selective-op", "full")

    def _micro_batches(self, frame: Layout) -> list[tuple[int, int]]:
        samples = -(-self.batch // frame.dp)
        micro, count = self.given.micro_batch, self.given.micro_batches
        if micro:
            return [(micro, count or -(-samples // micro))]
        if count:
            return [(-(-samples // count), count)]
        return [(size, samples // size) for size in divisors(samples)]


def _sharder(zero: int, *, split: bool) -> Sharder:
    if zero >= 2:
        return "fsdp"
    if split:
        return "megatron"
    return "deepspeed" if zero else "ddp"


def _adapts(job: Job) -> bool:
    return job.trains and job.method != "full"


def _stands(model: Architecture, job: Job, frame: Layout) -> bool:
    try:
        require(model, job, frame)
    except InputError:
        return False
    return True


def spread_rules(space: Space, layout: Layout) -> list[tuple[str, str]]:
    """Rules of practice that a layout breaks: the field and the reason. They bind only what is not given."""
    found: list[tuple[str, str]] = []
    tp, pp, host = layout.tp, layout.pp, space.hardware.gpus
    if tp > space.reach:
        found.append(("tp", f"tp {tp} {_beyond(space)}"))
    elif host % tp and tp % host:
        found.append(("tp", f"tp {tp} does not divide the {host} GPUs of a host"))
    if layout.cp > 1 and space.job.sequence < _LEAST_TOKENS * layout.cp:
        text = f"cp {layout.cp} leaves a rank {space.job.sequence // layout.cp:,} tokens, less than {_LEAST_TOKENS:,}"
        found.append(("cp", text))
    if space.undivided:
        found += [
            (name, f"{name} {ways}: {space.undivided}")
            for name, ways in (("tp", tp), ("pp", pp), ("cp", layout.cp), ("ep", layout.ep))
            if ways > 1
        ]
    if space.job.trains and pp > 1 and counted_as_layers(space.model, layout) is None:
        found.append(("pp", f"pp {pp}: {space.model.layers} layers, embedding and loss do not divide by the stages"))
    if pp > 1 and not space.job.trains and space.job.runtime != "vllm":
        found.append(("pp", f"pp {pp}: {space.job.runtime} has no pipeline"))
    return found


def _beyond(space: Space) -> str:
    if space.chip is None or space.chip.switched or not space.job.trains:
        return f"reaches beyond the {space.reach} GPUs of a host or NVLink domain"
    links = "linked by NVLink bridges in pairs" if space.chip.nvlink else "without NVLink"
    return f"exceeds {space.reach}: {space.chip.title} cards are {links}, further ones are reached over PCIe"

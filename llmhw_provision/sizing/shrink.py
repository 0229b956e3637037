"""What must shrink for a workload to fit given hardware: each suggestion is estimated before it is made.

First single changes; where none suffices, changes on top of each other until it fits. A number is lowered
in steps until it fits: requests by a quarter, the batch and tokens by half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from llmhw_provision.catalogue.loader import Gpu, find, names
from llmhw_provision.errors import InputError
from llmhw_provision.sizing.estimate import Estimate, Hardware
from llmhw_provision.sizing.layout import best, fewest
from llmhw_provision.sizing.need import Need, need
from llmhw_provision.units import memory
from llmhw_provision.workload import Workload

_LEAST_TOKENS = 256
_QUANTISED = ("fp8", "int8", "int4-g32")
_WIDE = ("published", "fp32", "bf16", "fp16")

Change = tuple[str, Workload]


@dataclass(frozen=True)
class Suggestion:
    """A change under which the workload fits, in words, with its estimate."""

    words: str
    found: Estimate

    @property
    def text(self) -> str:
        """`method qlora instead of full (46.2 of 79.1 GiB per GPU)`, with `tight` where it is."""
        size = f"{memory(self.found.device_bytes)} of {memory(self.found.limit)} per GPU"
        return f"{self.words} ({size}{', tight' if self.found.verdict == 'tight' else ''})"


def suggestions(asked: Need, hardware: Hardware) -> tuple[Suggestion, ...]:
    """Changes that make `asked` fit `hardware`, each by itself; else one combination; empty where nothing helps."""
    single = [found for ladder in _ladders(asked.workload, hardware) if (found := _largest(asked, ladder, hardware))]
    sure = [item for item in single if item.found.verdict == "fits"]
    return tuple(sure or single) or _together(asked, hardware)


def _largest(asked: Need, ladder: Iterator[Change], hardware: Hardware) -> Suggestion | None:
    """The first step of `ladder` that fits surely, else the first that fits tightly."""
    tight: Suggestion | None = None
    for words, workload in ladder:
        found = _estimate(asked, workload, hardware)
        if found is None or found.verdict == "does not fit":
            continue
        if found.verdict == "fits":
            return Suggestion(words, found)
        tight = tight or Suggestion(words, found)
    return tight


def _estimate(asked: Need, workload: Workload, hardware: Hardware) -> Estimate | None:
    try:
        job = need(workload, asked.model).job
        return best(job, asked.model, hardware, workload.layout, workload.batch)
    except InputError:  # the change contradicts the rest of the workload
        return None


def _together(asked: Need, hardware: Hardware) -> tuple[Suggestion, ...]:
    """The changes one on top of the other, each as far as its ladder goes, until they fit; empty where they do not."""
    said: list[str] = []
    workload = asked.workload
    for number in range(len(tuple(_ladders(workload, hardware)))):
        last: Change | None = None
        for words, changed in tuple(_ladders(workload, hardware))[number]:
            found = _estimate(asked, changed, hardware)
            if found is None:
                continue
            if found.verdict != "does not fit":
                return (Suggestion(", ".join([*said, words]), found),)
            last = words, changed
        if last is not None:
            said, workload = [*said, last[0]], last[1]
    return ()


def _ladders(workload: Workload, hardware: Hardware) -> tuple[Iterator[Change], ...]:
    """Kinds of change in the order in which they cost least; each goes from the mildest step to the strongest."""
    if workload.job == "serve":
        card = find("gpus", hardware.card.kind, Gpu) if hardware.card.kind in names("gpus") else None
        fp8 = card is None or card.tflops_fp8 > 0
        return (_weights(workload, fp8=fp8), _cache(workload, fp8=fp8), _requests(workload), _context(workload))
    return (
        _freed(workload),
        _states(workload),
        _loss(workload),
        _method(workload),
        _batch(workload),
        _tokens(workload),
    )


def _weights(load: Workload, *, fp8: bool) -> Iterator[Change]:
    for name in _QUANTISED if load.weights in _WIDE else ():
        if name != "fp8" or fp8:
            yield f"weights {name} instead of {load.weights}", load.model_copy(update={"weights": name})


def _cache(load: Workload, *, fp8: bool) -> Iterator[Change]:
    if load.serving is not None and load.serving.kv in ("fp32", "bf16", "fp16") and fp8:
        yield f"KV cache fp8 instead of {load.serving.kv}", _serving(load, kv="fp8")


def _requests(load: Workload) -> Iterator[Change]:
    asked = load.serving.concurrency if load.serving is not None else 1
    for count in _down(asked, lambda value: value * 3 // 4, 1):
        yield f"{count:,} requests at once instead of {asked:,}", _serving(load, concurrency=count)


def _context(load: Workload) -> Iterator[Change]:
    asked = load.serving.context if load.serving is not None else 1
    for tokens in _down(asked, lambda value: value // 2, _LEAST_TOKENS):
        yield f"context of {tokens:,} tokens instead of {asked:,}", _serving(load, context=tokens)


def _serving(load: Workload, **changes: Any) -> Workload:
    return load.model_copy(update={"serving": load.serving.model_copy(update=changes) if load.serving else None})


def _freed(load: Workload) -> Iterator[Change]:
    """What the layout fixes, left to the planner."""
    fixed = sorted(load.layout.model_fields_set)
    for name in (*fixed, *((",".join(fixed),) if len(fixed) > 1 else ())):
        left = name.split(",")
        layout = load.layout.model_copy(update=dict.fromkeys(left))
        given = ", ".join(f"{each} {getattr(load.layout, each)}" for each in left)
        yield f"layout without {given}", load.model_copy(update={"layout": layout})


def _states(load: Workload) -> Iterator[Change]:
    if load.method == "full" and load.training.optimizer == "adamw":
        yield "optimizer adamw-8bit instead of adamw", _training(load, optimizer="adamw-8bit")


def _loss(load: Workload) -> Iterator[Change]:
    if load.training.loss in ("eager", "trainer", "autocast") and load.job != "dpo":
        yield f"loss fused instead of {load.training.loss}", _training(load, loss="fused")


def _training(load: Workload, **changes: Any) -> Workload:
    return load.model_copy(update={"training": load.training.model_copy(update=changes)})


def _method(load: Workload) -> Iterator[Change]:
    if load.job == "pretrain":  # adapters do not teach a model that knows nothing
        return
    plain = {"precision": "mixed", "optimizer": "adamw", "optimizer_in_backward": False}
    for name in {"full": ("lora", "qlora"), "lora": ("qlora",)}.get(load.method, ()):
        changed = _training(load, **plain).model_copy(update={"method": name})
        yield f"method {name} instead of {load.method}", changed


def _batch(load: Workload) -> Iterator[Change]:
    for count in _down(load.batch, lambda value: value // 2, 1):
        yield f"batch {count:,} instead of {load.batch:,}", load.model_copy(update={"batch": count})


def _tokens(load: Workload) -> Iterator[Change]:
    for tokens in _down(load.sequence, lambda value: value // 2, _LEAST_TOKENS):
        yield f"sequence {tokens:,} instead of {load.sequence:,} tokens", load.model_copy(update={"sequence": tokens})


def _down(value: int, smaller: Callable[[int], int], least: int) -> Iterator[int]:
    while smaller(value) >= least:
        value = smaller(value)
        yield value


def larger(asked: Need, hardware: Hardware) -> int | None:
    """Fewest GPUs of this kind in powers of two that hold the job as it is, None where it is not known."""
    try:
        return fewest(asked.model, asked.job, hardware.card)
    except InputError:
        return None

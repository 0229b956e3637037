"""Why one layout is chosen over another: seconds and bytes beside each other, or the rule that forbids it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from llmhw_provision.errors import InputError
from llmhw_provision.sizing.compute import training_step
from llmhw_provision.sizing.estimate import Estimate
from llmhw_provision.sizing.layout import ALIKE, Ranked, search
from llmhw_provision.sizing.legal import Space, spread_rules
from llmhw_provision.sizing.speed import links_of, served
from llmhw_provision.sizing.step import Part
from llmhw_provision.units import memory
from llmhw_provision.workload import Parallel


@dataclass(frozen=True)
class Answer:
    """The chosen layout and the best of those that were asked about; `rules` are what those break."""

    chosen: Ranked
    asked: Ranked | None
    rules: tuple[str, ...]
    reason: str

    @property
    def seconds(self) -> tuple[tuple[str, float], ...]:
        """Parts of the step or token in which the asked one takes longer (or shorter, below 0), largest first."""
        if self.asked is None:
            return ()
        mine, other = (
            {part.name: part.seconds for part in parts_of(item.estimate)} for item in (self.chosen, self.asked)
        )
        return _differences(mine, other)

    @property
    def bytes(self) -> tuple[tuple[str, float], ...]:
        """Kinds of memory at the peak of which the asked one needs more (or less, below 0), largest first."""
        if self.asked is None:
            return ()
        mine, other = (_kinds(item.estimate) for item in (self.chosen, self.asked))
        return _differences(mine, other)


def why(space: Space, asked: Parallel) -> Answer:
    """Why what is `asked` for is not chosen; raises InputError when no layout is legal even without it."""
    chosen = search(space).ranked[0]
    wanted = replace(space, given=space.given.model_copy(update={k: v for k, v in asked if v is not None}))
    try:
        other = search(wanted).ranked[0]
    except InputError as error:
        rules = tuple(problem.message for problem in error.problems)
        return Answer(chosen, None, rules, f"cannot be: {'; '.join(rules)}")
    rules = tuple(text for name, text in spread_rules(space, other.layout) if getattr(space.given, name) is None)
    return Answer(chosen, other, rules, _reason(chosen, other))


def parts_of(found: Estimate) -> tuple[Part, ...]:
    """Parts of a training step, or of a served token; none where the chip is not known."""
    space = Space(found.job, found.model, found.hardware)
    if space.chip is None:
        return ()
    if not found.job.trains:
        return served(found, space.chip).token
    return training_step(found.model, found.job, found.layout, links_of(found.hardware, space.chip)).parts


def _reason(chosen: Ranked, other: Ranked) -> str:
    mine, its = chosen.estimate, other.estimate
    if chosen.layout == other.layout:
        return "it is the one that is chosen" if mine.verdict != "does not fit" else "nothing fits; it needs least"
    if its.device_verdict == "does not fit":
        over = memory(its.device_bytes - its.limit)
        terms = sorted(its.peak.terms, key=lambda term: -term.size)[:3]
        largest = ", ".join(f"{term.name} {memory(term.size)}" for term in terms)
        return f"cannot be: {over} more than the {memory(its.limit)} of a GPU at {its.peak.name} ({largest})"
    if its.host_verdict == "does not fit":
        room = memory(its.hardware.host_memory)
        return f"cannot be: the host needs {memory(its.host_bytes)}, has {room}"
    if its.verdict != mine.verdict:
        return f"lost: only {its.verdict}, within the uncertainty of the need; the chosen one {mine.verdict}"
    more = other.seconds / chosen.seconds - 1 if chosen.seconds else 0.0
    if more <= ALIKE:
        return f"lost: as fast within {100 * ALIKE:.0f} %, but less simple"
    return f"lost: {100 * more:.0f} % slower" if more >= 0.1 else f"lost: {100 * more:.1f} % slower"


def _kinds(found: Estimate) -> dict[str, float]:
    sizes: dict[str, float] = {}
    for term in found.peak.terms:
        sizes[term.kind] = sizes.get(term.kind, 0) + term.size
    return sizes


def _differences(mine: dict[str, float], other: dict[str, float]) -> tuple[tuple[str, float], ...]:
    names = dict.fromkeys((*other, *mine))
    found = [(name, other.get(name, 0.0) - mine.get(name, 0.0)) for name in names]
    return tuple(sorted((item for item in found if item[1]), key=lambda item: -abs(item[1])))

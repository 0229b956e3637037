"""Several jobs on one machine: some GPUs serve while others train; actor, critic and rollout engine of PPO and GRPO.

Groups take GPUs of every host alike, one after the other. Each is laid out by itself, as if the rest were not there;
the memory of the host they share. Of splits that are not given the one is taken that fits without offloading, then has
the shortest step as far as it can be told: writing the answers, then the longer of the trainings side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from llmhw_provision.errors import InputError
from llmhw_provision.model import Architecture
from llmhw_provision.sizing.estimate import VERDICTS, Estimate, Hardware, Verdict, host_bytes, host_verdict
from llmhw_provision.sizing.job import Job
from llmhw_provision.sizing.layout import Ranked, search
from llmhw_provision.sizing.legal import Space
from llmhw_provision.sizing.search import largest_concurrency
from llmhw_provision.sizing.terms import Term
from llmhw_provision.workload import Parallel, Placement

# terms of a moment that belong to another role than the first of its group
_ROLES = {
    "reference": "reference",
    "reward model": "reward model",
    "critic with optimizer": "critic",
    "weights for generation": "rollout engine",
    "KV cache": "rollout engine",
}
_SHARED = "context, NCCL, fragmentation"
_ENGINE = "rollout engine"


@dataclass(frozen=True)
class Group:
    """GPUs `first` to `first + count - 1` of every host, and what works on them."""

    roles: tuple[str, ...]
    first: int
    count: int
    found: Ranked

    @property
    def estimate(self) -> Estimate:
        """What one GPU and the host need."""
        return self.found.estimate

    @property
    def shares(self) -> tuple[tuple[str, int], ...]:
        """Bytes per GPU of each role, the most of any moment: roles that take turns do not add up to the peak."""
        sizes: dict[str, int] = {}
        for moment in self.estimate.moments:
            each: dict[str, int] = {}
            for term in moment.terms:
                role = self._role(term)
                each[role] = each.get(role, 0) + term.size
            sizes = {role: max(sizes.get(role, 0), each.get(role, 0)) for role in (*sizes, *each)}
        return tuple(sizes.items())

    def _role(self, term: Term) -> str:
        if term.kind == "overhead":
            return _SHARED
        role = _ROLES.get(term.name, self.roles[0])
        return role if role in self.roles else self.roles[0]

    @property
    def room(self) -> float:
        """Share of the GPU that is left at the peak, below 0 when it does not fit."""
        return 1 - self.estimate.device_bytes / self.estimate.limit

    @property
    def at_once(self) -> int:
        """Sequences that a group which serves holds at once on all its replicas, 0 for one that trains."""
        found = self.estimate
        if found.job.trains:
            return 0
        return largest_concurrency(found.model, found.job, found.layout, found.limit) * found.layout.dp


@dataclass(frozen=True)
class Placed:
    """All groups of the hardware."""

    groups: tuple[Group, ...]
    hardware: Hardware

    @property
    def host(self) -> tuple[Term, ...]:
        """What one host needs for all groups; the operating system counts once."""
        found = [term for group in self.groups for term in group.estimate.host]
        system = [term for term in found if term.name == "operating system"]
        return (*(term for term in found if term.name != "operating system"), *system[:1])

    @property
    def host_bytes(self) -> int:
        """Bytes per host, without what takes only memory that is left."""
        return host_bytes(self.host)

    @property
    def host_verdict(self) -> Verdict:
        """Whether one host holds all groups; fits where its memory is not known."""
        return host_verdict(self.host, self.hardware)

    @property
    def verdict(self) -> Verdict:
        """The worst of all groups and of the host."""
        found = [self.host_verdict, *(group.estimate.device_verdict for group in self.groups)]
        return max(found, key=VERDICTS.index)

    @property
    def seconds(self) -> float:
        """Seconds of one step of PPO or GRPO as far as the groups tell: all answers, then the longest training."""
        writing = [group for group in self.groups if not group.estimate.job.trains]
        training = [group.found.seconds for group in self.groups if group.estimate.job.trains]
        rounds = sum(_rounds(group) * group.estimate.job.context * group.found.seconds for group in writing)
        return rounds + max(training, default=0.0)

    @property
    def rank(self) -> tuple[int, bool, float, float]:
        """Smaller is better: verdict, offloading, time, then the room on the fullest GPU."""
        away = any(group.estimate.layout.offload_optimizer for group in self.groups)
        room = min(group.room for group in self.groups)
        return VERDICTS.index(self.verdict), away, self.seconds, -room


def _rounds(group: Group) -> int:
    """How often a group fills its cache until all answers are written."""
    asked = group.estimate.job.concurrency * group.estimate.layout.dp
    return -(-asked // max(1, group.at_once))


@dataclass(frozen=True)
class Part:
    """What one group works on, before it has GPUs."""

    roles: tuple[str, ...]
    job: Job
    given: Parallel
    wanted: int | None  # GPUs per host


def place(job: Job, model: Architecture, hardware: Hardware, given: Parallel, batch: int, wanted: Placement) -> Placed:
    """The groups on the hardware; raises InputError for numbers that contradict the job or the machine."""
    _agree(job, wanted, hardware.gpus)
    parts = _parts(job, given, batch, wanted)
    tried: dict[tuple[int, int], Ranked | InputError] = {}
    found: list[Placed] = []
    problem: InputError | None = None
    for counts in _splits(parts, hardware.gpus):
        for number, count in enumerate(counts):
            if (number, count) not in tried:
                tried[number, count] = _laid_out(parts[number], model, hardware, count, batch)
        groups = [tried[number, count] for number, count in enumerate(counts)]
        wrong = next((item for item in groups if isinstance(item, InputError)), None)
        if wrong is not None:
            problem = problem or wrong
            continue
        found.append(_numbered(parts, counts, [item for item in groups if isinstance(item, Ranked)], hardware))
    if not found:
        raise problem or InputError(f"placement: {len(parts)} groups do not fit {hardware.gpus} GPUs of a host")
    return min(found, key=lambda placed: placed.rank)


def _agree(job: Job, wanted: Placement, gpus: int) -> None:
    learns = job.kind in ("ppo", "grpo")
    names = {"ppo": {"actor", "critic", "rollout"}, "grpo": {"actor", "rollout"}}.get(job.kind, {"serve"})
    numbers = {name: value for name, value in wanted if name != "colocated" and value is not None}
    for name in sorted(numbers.keys() - names):
        raise InputError(f"placement: {name} is not a group of job {job.kind}", f"groups: {', '.join(sorted(names))}")
    if job.kind == "serve":
        raise InputError("placement: job serve has one group", "name a job that trains, and serving: beside it")
    if wanted.colocated and (numbers or not learns):
        raise InputError("placement: colocated is for ppo and grpo, without numbers of GPUs")
    if not learns and not numbers:
        raise InputError("placement: serve is missing", f"job {job.kind} beside a server: --place serve=2")
    if wanted.colocated:
        return
    free = len(names - numbers.keys()) if learns else 1
    used = sum(numbers.values())
    text = " + ".join(f"{name} {count}" for name, count in numbers.items())
    if used + free > gpus:
        others = f" and one for each of {free} more" if free and text else "one for each group" if free else ""
        raise InputError(f"placement: {text}{others} need {used + free} GPUs of a host, it has {gpus}")
    if not free and used != gpus:
        raise InputError(
            f"placement: {text} are {used} of the {gpus} GPUs of a host", "leave one number out to fill it"
        )


def _parts(job: Job, given: Parallel, batch: int, wanted: Placement) -> list[Part]:
    frozen = ("reference",) if job.method == "full" else ()
    if wanted.colocated:
        roles = ("actor", *frozen, *(("critic", "reward model") if job.kind == "ppo" else ()), _ENGINE)
        return [Part(roles, job, given, None)]
    if job.kind not in ("ppo", "grpo"):
        serve = replace(job, kind="serve", method="full")
        return [Part(("training",), job, given, None), Part(("serving",), serve, Parallel(), wanted.serve)]
    answers = batch * (job.rollouts if job.kind == "grpo" else 1)
    engine = replace(job, kind="serve", method="full", context=job.sequence, concurrency=answers)
    actor = replace(job, kind="sft", beside=frozen)
    critic = replace(job, kind="sft", beside=("reward model",), loss="fused")  # one value per token, no logits
    found = [Part(("actor", *frozen), actor, given, wanted.actor)]
    found += [Part(("critic", "reward model"), critic, Parallel(), wanted.critic)] if job.kind == "ppo" else []
    return [*found, Part((_ENGINE,), engine, Parallel(), wanted.rollout)]


def _splits(parts: list[Part], gpus: int) -> Iterator[tuple[int, ...]]:
    """Numbers of GPUs of all groups that make a host."""
    choices = [(part.wanted,) if part.wanted else range(1, gpus + 1) for part in parts]
    for counts in product(*choices):
        if sum(counts) == gpus:
            yield counts


def _laid_out(part: Part, model: Architecture, hardware: Hardware, count: int, batch: int) -> Ranked | InputError:
    own = replace(hardware, gpus=count, nics=hardware.nics * count // hardware.gpus)
    space = Space(part.job, model, own, part.given, batch)
    try:
        found = search(space).ranked[0]
        if part.roles == (_ENGINE,) and found.estimate.device_verdict != "fits":  # answers wait: one at once will do
            found = search(replace(space, job=replace(part.job, concurrency=1))).ranked[0]
    except InputError as error:
        return error
    return found


def _numbered(parts: list[Part], counts: tuple[int, ...], found: list[Ranked], hardware: Hardware) -> Placed:
    """Groups of an even number of GPUs come first, so that they do not part bridged pairs."""
    first, groups = 0, []
    ordered = sorted(zip(parts, counts, found, strict=True), key=lambda each: each[1] % 2)
    for part, count, item in ordered:
        groups.append(Group(part.roles, first, count, item))
        first += count
    return Placed(tuple(groups), hardware)

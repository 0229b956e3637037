"""Which parameters one GPU holds after tensor, pipeline and expert parallelism; ZeRO and FSDP divide them further."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from llmhw_provision.model import Architecture
from llmhw_provision.sizing.job import Layout
from llmhw_provision.sizing.terms import divided, up

VOCAB_MULTIPLE = 128  # Megatron and torchtitan pad the vocabulary to a multiple of this times the TP degree


@dataclass(frozen=True)
class Part:
    """Parameters of one kind on one GPU; `shards` is how many ranks hold the same and can divide it."""

    group: str
    parameters: int
    shards: int = 1

    @property
    def divided(self) -> int:
        """Parameters left on one rank when all that hold them divide them."""
        return divided(self.parameters, self.shards) if self.parameters > 0 else -(-self.parameters // self.shards)


def stage_layers(model: Architecture, layout: Layout) -> int:
    """Layers of the most loaded pipeline stage."""
    return divided(model.layers, layout.pp)


def padded_vocab(vocab: int, tp: int) -> int:
    """Rows of the embedding after padding so that tensor parallelism divides it; as published without it."""
    multiple = VOCAB_MULTIPLE * tp
    return vocab if tp == 1 else divided(vocab, multiple) * multiple


def held(model: Architecture, layout: Layout, stage: str = "only") -> tuple[Part, ...]:
    """Parameters on one GPU of `stage`, by kind, before ZeRO or FSDP; a tied head is a copy on the last stage."""
    expert, dense = layout.expert_shards, layout.shards
    found = _held(model, layout.tp, layout.pp, layout.ep, stage)
    return tuple(Part(group, count, expert if group == "experts" else dense) for group, count in found)


@lru_cache(maxsize=1024)
def _held(model: Architecture, tp: int, pp: int, ep: int, stage: str) -> tuple[tuple[str, int], ...]:
    """Kinds and counts of `held`, which does not depend on how many ranks hold the same."""
    share = Fraction(divided(model.layers, pp), model.layers)
    parts: dict[str, int] = {}
    for matrix in model.matrices:
        ways = tp if matrix.sharded else 1
        ways *= ep if matrix.group == "experts" else 1
        parts[matrix.group] = parts.get(matrix.group, 0) + up(Fraction(matrix.weights, ways) * share)
    outer = outer_vectors(model)
    parts["vectors"] = up((model.vector_parameters - outer) * share) + outer
    rows = divided(padded_vocab(model.vocab + model.extra_vocab_rows, tp), tp)
    if stage in ("only", "first"):
        parts["embedding"] = (rows + model.position_rows) * model.hidden
        parts["other"] = up(Fraction(model.vision_parameters + model.other_parameters, tp * pp))
    elif model.other_parameters:
        parts["other"] = up(Fraction(model.other_parameters, tp * pp))
    if stage == "last" or (stage == "only" and not model.tied):
        parts["head"] = rows * model.hidden + (rows if model.head_bias else 0)
    return tuple((group, count) for group, count in parts.items() if count)


def outer_vectors(model: Architecture) -> int:
    """Parameters of the norms that belong to no layer."""
    return model.outer_norms * model.hidden * (2 if model.norm_bias else 1)


def parameters(parts: tuple[Part, ...]) -> int:
    """All parameters of `parts`."""
    return sum(part.parameters for part in parts)


def block_parameters(model: Architecture, layout: Layout) -> int:
    """Parameters of one layer on one GPU once ZeRO-3 or FSDP has gathered it."""
    layers = max(1, stage_layers(model, layout))
    inner = ("embedding", "head", "other")
    whole = sum(part.parameters for part in held(model, layout) if part.group not in inner)
    return divided(whole - outer_vectors(model), layers)

"""Serving: vLLM's accounting of one GPU, and the peak of plain generation with Hugging Face transformers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from llmhw_provision.model import Architecture
from llmhw_provision.sizing import overhead
from llmhw_provision.sizing.buffers import dequantised
from llmhw_provision.sizing.formats import Format, format_of
from llmhw_provision.sizing.job import Job, Layout
from llmhw_provision.sizing.kv import BLOCK, kv_cache, per_token, value_bytes
from llmhw_provision.sizing.states import frozen_weights
from llmhw_provision.sizing.terms import Term, divided, number, up
from llmhw_provision.sizing.training import Moment

PROFILE = "vLLM profile run: gate, up and product of one layer, three hidden copies, 16 bits (vLLM issue 10517)"
PREFILL = "prefill in transformers: gate, up and product of one layer, four hidden copies, 16 bits (Qwen2.5 tables)"
MARLIN = "vLLM Marlin kernel for MXFP4: hidden size padded to 256, expert width to 128"
_HIDDEN_MULTIPLE, _WIDTH_MULTIPLE = 256, 128


def serving_weights(model: Architecture, layout: Layout, form: Format) -> Term:
    """Weights of one GPU as the server loads them; MXFP4 experts are padded for its kernel."""
    base = frozen_weights(model, replace(layout, zero=0), "only" if layout.pp == 1 else "first", form)
    if (form.name != "mxfp4" and "mxfp4" not in form.name) or not model.moe_ffn:
        return base
    width = divided(model.moe_ffn, layout.tp)
    padded = Fraction(_round(model.hidden, _HIDDEN_MULTIPLE) * _round(width, _WIDTH_MULTIPLE), model.hidden * width)
    experts = Fraction(model.group_parameters("experts"), layout.tp * layout.ep * layout.pp) * form.bits / 8
    more = up(experts * (padded - 1))
    return replace(base, size=base.size + more, formula=f"{base.formula} + padding {more:,} B", source=MARLIN)


def _round(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def profiled_activations(model: Architecture, layout: Layout, count: int) -> Term:
    """Peak of vLLM's profile run with `count` tokens."""
    width = _widest(model) / layout.tp
    text = f"{count:,} tokens × 2 B × (3 × {number(width)} + 3 × {model.hidden:,})"
    return Term("activations", up(count * 2 * (3 * width + 3 * model.hidden)), text, PROFILE, "activations")


def prefill_activations(model: Architecture, layout: Layout, count: int) -> Term:
    """Peak of a prefill of `count` tokens in transformers; its logits are those of the last token."""
    width = _widest(model) / layout.tp
    text = f"{count:,} tokens × 2 B × (3 × {number(width)} + 4 × {model.hidden:,})"
    return Term("activations", up(count * 2 * (3 * width + 4 * model.hidden)), text, PREFILL, "activations")


def _widest(model: Architecture) -> Fraction:
    routed = model.experts_per_token * model.moe_ffn + model.shared_ffn if model.moe_layers else 0
    return Fraction(max(model.ffn if model.dense_layers else 0, routed))


def sampler_logits(model: Architecture, job: Job) -> Term:
    """fp32 logits of all sequences that are sampled at once."""
    count = min(job.sequences, job.batched_tokens)
    text = f"{count:,} sequences × {model.vocab:,} × 4 B"
    return Term("logits", 4 * count * model.vocab, text, "vLLM sampler: fp32 logits of max_num_seqs", "logits")


@dataclass(frozen=True)
class VllmMemory:
    """One GPU in vLLM: what it may take, what is gone before the cache, and what is left for it."""

    limit: int
    terms: tuple[Term, ...]
    token_bytes: Fraction

    @property
    def cache(self) -> int:
        """Bytes left for the KV cache; negative when the rest does not fit."""
        return self.limit - sum(term.size for term in self.terms)

    @property
    def tokens(self) -> int:
        """Tokens that the cache holds, in whole blocks."""
        return max(0, int(self.cache / self.token_bytes) // BLOCK * BLOCK)


@dataclass(frozen=True)
class Known:
    """What a vLLM log already says, in bytes; None is computed."""

    weights: int | None = None
    activations: int | None = None
    non_torch: int | None = None


def vllm_memory(model: Architecture, job: Job, layout: Layout, card: int, known: Known | None = None) -> VllmMemory:
    """vLLM's accounting on a card of `card` bytes: utilisation × card, less weights, profile run and graphs."""
    known = known or Known()
    profile = max(
        profiled_activations(model, layout, job.batched_tokens), sampler_logits(model, job), key=lambda term: term.size
    )
    outside = overhead.NON_TORCH + (overhead.NON_TORCH_NCCL if layout.tp > 1 else 0)
    terms: tuple[Term, ...] = (
        _known("weights", known.weights) or serving_weights(model, layout, format_of(model, job.weights)),
        _known("activations", known.activations) or profile,
        _known("non-torch memory", known.non_torch)
        or Term("non-torch memory", outside, "context, libraries, NCCL buffers", "vLLM start-up logs", "overhead"),
    )
    stated = known.activations is not None and known.non_torch is not None
    if job.graphs_inside and not stated:  # a log that states both is of a version that leaves graphs outside
        terms += (_graphs(),)
    each = value_bytes(job.kv)
    return VllmMemory(card * job.utilisation // 100, terms, per_token(model, layout, each=each))


def _graphs() -> Term:
    source = "vLLM start-up logs: 0.1 to 1.9 GiB"
    return Term("CUDA graphs", overhead.CUDA_GRAPHS, "captured batch sizes", source, "overhead")


def _known(name: str, size: int | None) -> Term | None:
    return None if size is None else Term(name, size, "as stated", "stated")


def serving(model: Architecture, job: Job, layout: Layout) -> Moment:
    """One GPU that serves `concurrency` sequences of `context` tokens."""
    weights = serving_weights(model, layout, format_of(model, job.weights))
    paged = job.runtime == "vllm"
    cache = kv_cache(model, layout, context=job.context, concurrency=job.concurrency, kv=job.kv, paged=paged)
    if paged:
        profile = profiled_activations(model, layout, job.batched_tokens)
        rest: tuple[Term, ...] = (
            max(profile, sampler_logits(model, job), key=lambda term: term.size),
            _graphs(),
        )
    else:
        rest = (prefill_activations(model, layout, (job.prompt or job.context) * job.concurrency),)
        form = format_of(model, job.weights)
        rest += (dequantised(model, layout, form),) if form.quantised else ()
    replica = replace(layout, gpus=layout.tp * layout.pp * layout.cp) if layout.ep == 1 else layout
    more = overhead.communicators(replica)  # replicas do not talk to each other
    tail = (overhead.context(), *((more,) if more else ()))
    return Moment("serving", "only", (weights, cache, *rest, *tail))

"""Activations that one GPU keeps between forward and backward."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from llmhw_provision.model import Architecture
from llmhw_provision.sizing.job import Job, Layout
from llmhw_provision.sizing.shards import stage_layers
from llmhw_provision.sizing.terms import Term, up

KORTHIKANTI = "Reducing Activation Recomputation, Korthikanti et al. 2022, arXiv 2205.05198, equations 1 to 6"
LLAMA = "autograd of a Llama block: inputs of every linear layer, q, k, v, gate, up and their product, fp32 norm inputs"
CHECKPOINTS = "Chen et al. 2016, arXiv 1604.06174: only the input of each layer is kept"
OP_SELECTIVE = "torchtitan selective operator checkpointing: every second matrix product and the attention output"
PIPELINE = "PipeDream-Flush, Narayanan et al. 2021, arXiv 2104.04473, section 2.2"
COMPILED = Fraction(4, 5)  # torch.compile fuses norms and activation functions: torchtune 60.0 to 51.0 GiB


@dataclass(frozen=True)
class PerToken:
    """Bytes that one layer keeps per token: outside tensor-parallel regions, inside, and per token of context."""

    whole: Fraction
    divided: Fraction
    quadratic: int = 0

    def bytes(self, layout: Layout, sequence: int) -> Fraction:
        """Bytes per token on one GPU."""
        outside = self.whole / layout.tp if layout.sequence_parallel else self.whole
        return outside + (self.divided + self.quadratic * sequence) / layout.tp


def tokens(job: Job, layout: Layout) -> int:
    """Tokens of one micro-batch on one GPU; DPO runs the chosen and the rejected answer together."""
    pairs = 2 if job.kind == "dpo" else 1
    return -(-pairs * layout.micro_batch * job.sequence // layout.cp)


def width(job: Job) -> int:
    """Bytes of an activation value."""
    return 4 if job.scheme == "fp32" else 2


def layer(model: Architecture, job: Job, layout: Layout) -> PerToken:
    """What an average layer keeps per token when nothing is recomputed."""
    a, h = width(job), model.hidden
    mixer = Fraction(_attention(model) * model.softmax_layers + _linear(model) * model.linear_layers, model.layers)
    network = Fraction(_network(model, job) * model.layers, model.layers)
    whole = Fraction(_outside(model, a))
    whole += a * _routed_copies(model)
    if job.method != "full" and job.adapted and not set(job.adapted) & {"gate_proj", "up_proj"}:
        whole -= a * h
    quadratic = 0 if job.fused_attention or layout.recompute == "selective" else _scores(model, job)
    norms = Fraction(_inner_norms(model, a) * model.softmax_layers, model.layers)
    found = PerToken(whole, a * (mixer + network) + norms, quadratic)
    if not job.compile:
        return found
    return PerToken(found.whole * COMPILED, found.divided * COMPILED, quadratic)


def _outside(model: Architecture, a: int) -> int:
    """Bytes per token of norms, residuals and dropout, which tensor parallelism alone does not divide."""
    h = model.hidden
    if layer_norm(model):  # equation 1: the fused kernel keeps its input; dropout one byte per mask
        return 4 * a * h + (2 * h if dropout(model) else 0)
    return model.norms_per_layer * _normed(model, a) * h + 3 * a * h


def _normed(model: Architecture, a: int) -> int:
    """Bytes that an RMSNorm in eager mode keeps per value: its input in fp32 and its result, in fp32 for Gemma."""
    return 4 + (4 if model.family.startswith("gemma") else a)


def _inner_norms(model: Architecture, a: int) -> int:
    """Bytes per token of the norms of queries and keys, or of the latent vectors."""
    values = model.q_dim + model.kv_dim if model.qk_norm else 0
    return _normed(model, a) * (values + model.q_lora_rank + model.kv_lora_rank)


def layer_norm(model: Architecture) -> bool:
    """Whether the model is of the GPT kind, with LayerNorm; those with a gated network have RMSNorm."""
    return model.norm_bias or not model.gated


def dropout(model: Architecture) -> bool:
    """Whether the model trains with dropout: GPT-2 and 3, OPT; not MPT, whose norms have no bias."""
    return model.norm_bias and not model.gated


def _attention(model: Architecture) -> int:
    """Values per token of queries, keys, values and the attention's output."""
    if not model.mla:
        return 2 * model.q_dim + 2 * model.kv_dim
    latent = model.q_lora_rank + model.kv_lora_rank + model.qk_rope_head_dim
    return latent + 2 * model.q_dim + 2 * model.heads * model.v_head_dim


def _linear(model: Architecture) -> int:
    return model.linear_in + 2 * model.linear_out


def _network(model: Architecture, job: Job) -> Fraction:
    """Values per token of an average feed-forward network: gate, up, their product and its input, or in and out."""
    copies = 4 if model.gated else 2
    if job.method != "full" and job.adapted and "down_proj" not in job.adapted:
        copies -= 1
    moe = copies * (model.experts_per_token * model.moe_ffn + model.shared_ffn)
    return Fraction(copies * model.ffn * model.dense_layers + moe * model.moe_layers, model.layers)


def _routed_copies(model: Architecture) -> Fraction:
    """Values per token of the permuted inputs and outputs of the experts."""
    return Fraction(2 * model.experts_per_token * model.hidden * model.moe_layers, model.layers)


def _scores(model: Architecture, job: Job) -> int:
    """Bytes per pair of tokens without a fused attention kernel: probabilities, dropout mask, dropped probabilities."""
    if layer_norm(model):
        return model.heads * (2 * width(job) + (1 if dropout(model) else 0))
    return model.heads * (4 + width(job))


def in_flight(layout: Layout, stage: str) -> Fraction:
    """Micro-batches whose activations a stage holds at once: the first of 1F1B as many as there are stages."""
    if layout.pp == 1 or stage == "last":
        return Fraction(1)
    held = min(layout.pp, layout.micro_batches) if layout.micro_batches > 1 else layout.pp
    return held * (1 + Fraction(layout.pp - 1, layout.pp * layout.vpp)) if layout.vpp > 1 else Fraction(held)


def _selective(model: Architecture, job: Job) -> PerToken:
    """Operator checkpointing: layer input, every second product (q, v, gate, down), attention output."""
    a = width(job)
    values = 2 * model.q_dim + model.kv_dim + _network(model, job) / (4 if model.gated else 2)
    found = PerToken(Fraction(a * 2 * model.hidden), a * Fraction(values))
    return PerToken(found.whole * COMPILED, found.divided * COMPILED) if job.compile else found


def kept(model: Architecture, job: Job, layout: Layout, stage: str = "only") -> Term:
    """Activations of all layers of a stage at the end of forward."""
    count, layers = tokens(job, layout), stage_layers(model, layout)
    if layout.recompute == "full":
        each = Fraction(width(job) * model.hidden, layout.tp if layout.sequence_parallel else 1)
        name, source = "checkpointed layer inputs", CHECKPOINTS
    elif layout.recompute == "selective-op":
        each, name = _selective(model, job).bytes(layout, job.sequence), "activations, selective by operator"
        source = OP_SELECTIVE
    else:
        each, name = layer(model, job, layout).bytes(layout, job.sequence), "activations"
        source = KORTHIKANTI if layer_norm(model) else LLAMA
    batches = in_flight(layout, stage)
    text = f"{layers} layers × {count:,} tokens × {up(each):,} B"
    if batches > 1:
        text += f" × {float(batches):.4g} micro-batches in flight"
        source += f"; {PIPELINE}"
    if layout.offload_activations:
        ahead = min(2, layers)
        return Term(
            name, up(each * ahead * count), f"{ahead} of {text}: the rest is on the host", source, "activations"
        )
    return Term(name, up(each * layers * count * batches), text, source, "activations")


def one_block(model: Architecture, job: Job, layout: Layout) -> Term:
    """Everything one layer keeps: what lives while a checkpointed layer is computed again."""
    count = tokens(job, layout)
    each = layer(model, job, layout).bytes(layout, job.sequence)
    text = f"1 layer × {count:,} tokens × {up(each):,} B"
    return Term(
        "one layer recomputed", up(each * count), text, KORTHIKANTI if layer_norm(model) else LLAMA, "activations"
    )


def embedding_dropout(model: Architecture, job: Job, layout: Layout, stage: str = "only") -> Term | None:
    """Dropout mask behind the embedding of models that have one, on the first stage."""
    if not dropout(model) or stage == "last":
        return None
    ways = layout.tp if layout.sequence_parallel else 1
    batches = in_flight(layout, stage)
    size = up(Fraction(model.hidden * tokens(job, layout), ways) * batches)
    text = f"{tokens(job, layout):,} tokens × {model.hidden:,} B × {float(batches):.4g} / {ways}"
    return Term("embedding dropout mask", size, text, "Megatron-LM, theoretical_memory_usage.py", "activations")

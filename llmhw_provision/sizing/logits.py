"""Logits and what cross-entropy keeps of them."""

from __future__ import annotations

from fractions import Fraction

from llmhw_provision.model import Architecture
from llmhw_provision.sizing.activations import tokens
from llmhw_provision.sizing.job import Job, Layout, Loss
from llmhw_provision.sizing.shards import padded_vocab
from llmhw_provision.sizing.terms import Term, number, up

# bytes per logit with 16-bit activations
_BYTES: dict[Loss, tuple[int, str]] = {
    "eager": (14, "eager cross-entropy: bf16 logits 2, fp32 copy 4, log-softmax 4, its gradient 4"),
    "trainer": (18, "Hugging Face trainer: eager cross-entropy and a shifted fp32 copy 4"),
    "autocast": (10, "cross-entropy under fp16 autocast: logits 2, fp32 copy 4, log-softmax 4 (Qwen Q-LoRA tables)"),
    "compiled": (6, "compiled loss (torchtitan 2025): bf16 logits 2, fp32 gradient 4"),
    "chunked": (14, "chunked cross-entropy: bf16 logits 2 and log-softmax 4 of all chunks, the rest of one at a time"),
    "fused": (0, "Liger Kernel, Cut Cross-Entropy (Wijmans et al. 2024, arXiv 2411.09009): logits are never stored"),
    "log-probabilities": (6, "TRL selective_log_softmax: bf16 logits, log-softmax row by row, gradient, 2 each"),
    "vocab-parallel": (6, "Megatron-LM vocabulary-parallel cross-entropy: bf16 logits 2, fp32 softmax in place 4"),
}
_FP32_SAVING = 2  # fp32 logits need no separate copy: 4 + 4 + 4
# chunked: what autograd keeps of every chunk until its backward, and of the chunk at work; eager and compiled
_KEPT, _AT_WORK = 2 + 4, 4 + 4
_KEPT_COMPILED, _AT_WORK_COMPILED = 2, 4  # a compiled loss computes the log-softmax again from the logits


def per_logit(job: Job) -> Fraction:
    """Bytes per logit at the peak of the loss."""
    each = Fraction(_BYTES[job.loss][0])
    if job.loss == "chunked":
        kept, work = (_KEPT_COMPILED, _AT_WORK_COMPILED) if job.compile else (_KEPT, _AT_WORK)
        each = kept + Fraction(work, job.chunks)
    return each - _FP32_SAVING if job.scheme == "fp32" and each > _FP32_SAVING else each


def logits(model: Architecture, job: Job, layout: Layout) -> Term:
    """Logits and the buffers of their cross-entropy for one micro-batch, divided by tensor parallelism."""
    count, each = tokens(job, layout), per_logit(job)
    vocab = padded_vocab(model.vocab, layout.tp)
    text = f"{count:,} tokens × {vocab:,} × {number(each)} B" + (f" / {layout.tp}" if layout.tp > 1 else "")
    return Term("logits and loss", up(each * count * vocab / layout.tp), text, _BYTES[job.loss][1], "logits")


def kept_outputs(model: Architecture, job: Job, layout: Layout) -> Term:
    """Logits of all micro-batches that PyTorch's pipeline schedules keep on the last stage, in 16 bits."""
    count, vocab = tokens(job, layout) * (layout.micro_batches - 1), padded_vocab(model.vocab, layout.tp)
    text = f"{layout.micro_batches - 1} micro-batches × {tokens(job, layout):,} tokens × {vocab:,} × 2 B / {layout.tp}"
    source = "torch.distributed.pipelining: outputs are kept until the step is merged"
    return Term("outputs of the pipeline", up(Fraction(2 * count * vocab, layout.tp)), text, source, "logits")


def one_copy(model: Architecture, count: int, size: int) -> Term:
    """One copy of the logits of `count` tokens in `size` bytes each."""
    text = f"{count:,} tokens × {model.vocab:,} × {size} B"
    return Term("one logits copy", count * model.vocab * size, text, "bytes of the number format", "logits")

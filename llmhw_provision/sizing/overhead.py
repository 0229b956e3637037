"""Memory that no tensor accounts for: CUDA context, communicators, fragmentation, CUDA graphs."""

from __future__ import annotations

from llmhw_provision.sizing.job import Layout
from llmhw_provision.sizing.terms import Term
from llmhw_provision.units import GIB, MIB, memory

STAS = "stas00/ml-engineering, debug chapter (A100, torch 2.1.1)"
CONTEXT = 512 * MIB  # lazy module loading, CUDA 11.7 and later
EAGER_CONTEXT = 1343 * MIB  # all kernels loaded at once, before CUDA 11.7
COMMUNICATOR = 1280 * MIB  # first NCCL communicator after a collective: 1.0 to 1.5 GiB
NEXT_COMMUNICATOR = 400 * MIB  # each further process group
FRAGMENTATION = 5  # percent of what PyTorch's allocator hands out
CUDA_GRAPHS = GIB // 2  # vLLM, 0.1 to 1.9 GiB by model and number of batch sizes
NON_TORCH = 300 * MIB  # vLLM beside the context, one GPU
NON_TORCH_NCCL = 400 * MIB  # more with tensor parallelism


def context(*, lazy: bool = True) -> Term:
    """CUDA context and kernels of one process."""
    if lazy:
        text, source = "context with lazy module loading", f"{STAS}: 0.47 GiB"
        return Term("CUDA context", CONTEXT, text, source, "overhead")
    source = "Hugging Face performance guide: context and kernels after the first tensor"
    return Term("CUDA context", EAGER_CONTEXT, "context with all kernels loaded", source, "overhead")


def communicators(layout: Layout) -> Term | None:
    """NCCL buffers: one process group for the first parallel dimension, a smaller one for each further."""
    if layout.gpus == 1:
        return None
    groups = sum(ways > 1 for ways in (layout.dp, layout.tp, layout.pp, layout.cp, layout.ep))
    more = max(0, groups - 1)
    text = f"{memory(COMMUNICATOR)} + {more} × {memory(NEXT_COMMUNICATOR)}"
    return Term("NCCL", COMMUNICATOR + more * NEXT_COMMUNICATOR, text, f"{STAS}: 1.5 GiB at two GPUs", "overhead")


def fragmentation(allocated: int) -> Term:
    """Blocks that PyTorch's caching allocator holds but cannot use."""
    text = f"{FRAGMENTATION} % of {memory(allocated)}"
    source = "PyTorch CUDA caching allocator: 0 to 6 %, about 2 % with expandable_segments"
    return Term("fragmentation", -(-allocated * FRAGMENTATION // 100), text, source, "overhead")

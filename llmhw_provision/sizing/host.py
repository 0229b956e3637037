"""Memory of one host: offloaded states, loading, pinned buffers, data loaders, page cache."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from llmhw_provision.model import Architecture
from llmhw_provision.sizing import activations
from llmhw_provision.sizing.formats import format_of
from llmhw_provision.sizing.job import Job, Layout
from llmhw_provision.sizing.shards import held
from llmhw_provision.sizing.states import frozen_format, lora_parameters, optimizer_bytes, weight_bytes
from llmhw_provision.sizing.terms import Term, divided, number, up
from llmhw_provision.units import GIB, memory

OFFLOAD = "ZeRO-Offload, Ren et al. 2021, arXiv 2101.06840: fp32 states and gradients of the CPU optimizer"
FACTOR = Fraction(3, 2)  # DeepSpeed's estimators: additional_buffer_factor
_DEEPSPEED = "DeepSpeed estimators, additional_buffer_factor 1.5; 10B model: 296 GB seen in htop"
_WORKERS, _WORKER = 4, GIB  # data loader processes per GPU and what each holds
_SHARD = 5_000_000_000  # bytes of one safetensors shard
_SWAP = 4 * GIB  # vLLM --swap-space per GPU
_SYSTEM = 8 * GIB
_NVME_BUFFERS = 12  # pinned buffers of the NVMe swapper


def host_terms(model: Architecture, job: Job, layout: Layout) -> tuple[Term, ...]:
    """What one host needs; elastic terms take only what is left."""
    ranks = divided(layout.gpus, layout.nodes)
    found: list[Term] = [_loading(model, job, ranks)]
    if job.trains:
        found += offloaded(model, job, layout)
        text = f"{ranks} GPUs × {_WORKERS} workers × {memory(_WORKER)}"
        found.append(Term("data loaders", ranks * _WORKERS * _WORKER, text, "PyTorch DataLoader, typical", "host"))
        found.append(_staging(model, job, layout))
    else:
        found.append(Term("swap space", ranks * _SWAP, f"{ranks} GPUs × {memory(_SWAP)}", "vLLM --swap-space", "host"))
    found.append(Term("operating system", _SYSTEM, memory(_SYSTEM), "Ubuntu server with its services", "host"))
    return tuple(found)


def _loading(model: Architecture, job: Job, ranks: int) -> Term:
    """Loading from safetensors: one shard per rank in flight; a server keeps the weights in the page cache."""
    form = format_of(model, job.weights)
    if job.trains:
        shard = min(_SHARD, 2 * model.parameters)
        text = f"{ranks} ranks × {shard / 1e9:.3g} GB shard"
        return Term("loading", ranks * shard, text, "transformers low_cpu_mem_usage with safetensors", "host")
    parts = held(model, Layout(), "only")
    size = sum(up(part.parameters * form.bytes_of(part.group)) for part in parts)
    return Term(
        "weights in the page cache", size, f"one copy of the {form.name} weights", "mmap of safetensors", "elastic"
    )


def _staging(model: Architecture, job: Job, layout: Layout) -> Term:
    """Copy of the states that an asynchronous checkpoint writes while training goes on."""
    count = model.parameters if job.method == "full" else lora_parameters(model, job)
    each = 2 + optimizer_bytes(job)
    text = f"{count:,} parameters × {number(each)} B / {layout.nodes} hosts"
    source = "torch.distributed.checkpoint.async_save: staged in host memory"
    return Term("checkpoint staging", up(count * each / layout.nodes), text, source, "elastic")


def offloaded(model: Architecture, job: Job, layout: Layout) -> list[Term]:
    """Optimizer, gradients, parameters and activations that live on one host instead of its GPUs."""
    found: list[Term] = []
    if job.optimizer == "paged-adamw-8bit" and job.method == "full":
        size = up(model.parameters * optimizer_bytes(job) / layout.nodes)
        text = f"{model.parameters:,} parameters × {number(optimizer_bytes(job))} B / {layout.nodes} hosts"
        found.append(Term("paged optimizer", size, text, "bitsandbytes paged optimizers", "host"))
    if layout.offload_optimizer and job.method == "full":
        found += _optimizer(model, job, layout)
    if layout.offload_params:
        each = Fraction(weight_bytes(job)) if job.method == "full" else frozen_format(model, job).bits / 8
        size = up(each * model.parameters / layout.nodes)
        text = f"{model.parameters:,} parameters × {number(each)} B / {layout.nodes} hosts"
        found.append(_place("offloaded parameters", size, text, "ZeRO-Infinity, arXiv 2104.07857", layout))
    if found and not layout.nvme and job.optimizer != "paged-adamw-8bit":
        size = up(sum(term.size for term in found) * (FACTOR - 1))
        text = f"{number(FACTOR - 1)} × {memory(sum(term.size for term in found))}"
        found.append(Term("pinned buffers and loading copies", size, text, _DEEPSPEED, "host"))
    if layout.offload_activations:
        found.append(_activations(model, job, layout))
    return found


def _activations(model: Architecture, job: Job, layout: Layout) -> Term:
    """Activations of all ranks of a host, in pinned memory until backward."""
    ranks = divided(layout.gpus, layout.nodes)
    kept = activations.kept(model, job, replace(layout, offload_activations=False), layout.stages[0])
    source = "torch save_on_cpu, Unsloth gradient checkpointing: pinned host memory"
    return Term("offloaded activations", ranks * kept.size, f"{ranks} ranks × ({kept.formula})", source, "host")


def _optimizer(model: Architecture, job: Job, layout: Layout) -> list[Term]:
    count, nodes = model.parameters, layout.nodes
    each = optimizer_bytes(job)
    states = f"{count:,} parameters × {number(each)} B / {nodes} hosts"
    grads = f"{count:,} parameters × 4 B / {nodes} hosts"
    return [
        _place("offloaded optimizer", up(count * each / nodes), states, OFFLOAD, layout),
        _place("offloaded gradients", divided(4 * count, nodes), grads, OFFLOAD, layout),
        Term(
            "pinned parameters",
            divided(2 * count, nodes),
            f"{count:,} parameters × 2 B / {nodes} hosts",
            OFFLOAD,
            "host",
        ),
    ]


def _place(name: str, size: int, text: str, source: str, layout: Layout) -> Term:
    """The term in host memory, or as what NVMe needs of it: pinned buffers."""
    if not layout.nvme:
        return Term(name, size, text, source, "host")
    ranks = divided(layout.gpus, layout.nodes)
    buffers = min(size, _NVME_BUFFERS * ranks * GIB // 4)
    return Term(f"{name}: NVMe buffers", buffers, f"{_NVME_BUFFERS} × 256 MiB × {ranks} ranks", source, "host")

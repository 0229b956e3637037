"""What runs, and how it is spread over GPUs, in plain values. Files and options become these two before arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

JobKind = Literal["pretrain", "sft", "dpo", "ppo", "grpo", "serve"]
Method = Literal["full", "lora", "qlora"]
Scheme = Literal["mixed", "mixed-fp32-grads", "fp32-params", "pure", "fp32", "fp8"]
Optimizer = Literal["adamw", "adamw-8bit", "paged-adamw-8bit", "adafactor", "muon", "sgd", "galore-8bit"]
Loss = Literal["eager", "trainer", "autocast", "compiled", "chunked", "fused", "log-probabilities", "vocab-parallel"]
Recompute = Literal["none", "selective", "selective-op", "full"]
Sharder = Literal["ddp", "deepspeed", "fsdp", "megatron"]
Runtime = Literal["vllm", "transformers"]

GPTQ = ("int4", "int4-g32", "gptq-int8")
ALL_LINEAR = ("all-linear",)


@dataclass(frozen=True)
class Job:
    """A training or serving job; sequence lengths and contexts in tokens."""

    kind: JobKind = "sft"
    method: Method = "full"
    weights: str = "bf16"  # a name of formats.FORMATS, or "published"
    scheme: Scheme = "mixed"
    optimizer: Optimizer = "adamw"
    in_backward: bool = False  # the optimizer runs per parameter inside backward: gradients never pile up
    sequence: int = 2048
    loss: Loss = "eager"
    chunks: int = 8
    flash: bool = True
    compile: bool = False
    rank: int = 16
    targets: tuple[str, ...] = ()  # names of the adapted matrices; empty: as the method's paper does
    adapter_parameters: int = 0  # where published instead of following from rank and targets
    adapter_bytes: int = 0  # bytes per adapter parameter where published instead of following from the scheme
    beside: tuple[str, ...] = ()  # frozen models of the same size on the same GPUs
    state_bytes: int = 0  # bytes per parameter of weights, gradients and optimizer where a source states them
    # serving
    runtime: Runtime = "vllm"
    concurrency: int = 1
    context: int = 4096
    prompt: int = 0  # of the context; 0: all of it
    kv: str = "bf16"
    utilisation: int = 90  # percent of the card that vLLM may take
    batched_tokens: int = 8192  # max_num_batched_tokens
    graphs_inside: bool = True  # CUDA graphs count against the share, as in vLLM 0.21 and later
    sequences: int = 256  # max_num_seqs
    rollouts: int = 8  # answers per prompt in GRPO

    @property
    def fused_attention(self) -> bool:
        """Whether scores are never stored: fused kernels compute in 16 bits only."""
        return self.flash and self.scheme != "fp32"

    @property
    def adapted(self) -> tuple[str, ...]:
        """Names of the adapted matrices; () means all linear layers, as QLoRA does. LoRA adapts queries and values."""
        if self.targets == ALL_LINEAR or (not self.targets and self.method == "qlora"):
            return ()
        return self.targets or ("q_proj", "v_proj")

    @property
    def trains(self) -> bool:
        """Whether parameters are updated."""
        return self.kind != "serve"


@dataclass(frozen=True)
class Layout:
    """How a job is spread: `gpus` = data × tensor × pipeline × context parallel."""

    gpus: int = 1
    nodes: int = 1
    tp: int = 1
    pp: int = 1
    vpp: int = 1  # model chunks per pipeline stage: interleaved schedule when above 1
    cp: int = 1
    ep: int = 1
    zero: int = 0
    sharder: Sharder = "ddp"
    shard: int = 0  # ranks that share the states; 0: all of one data-parallel group
    sequence_parallel: bool = False
    micro_batch: int = 1
    micro_batches: int = 1  # per step: gradient accumulation, or what fills the pipeline
    recompute: Recompute = "none"
    offload_optimizer: bool = False
    offload_params: bool = False
    nvme: bool = False  # offloaded states go to NVMe instead of host memory
    offload_activations: bool = False
    dcp: int = 1  # decode context parallel: ranks that share one latent KV cache

    @property
    def dp(self) -> int:
        """Data-parallel ranks."""
        return max(1, self.gpus // (self.tp * self.pp * self.cp))

    @property
    def shards(self) -> int:
        """Ranks over which ZeRO or FSDP divides dense states: context-parallel ranks hold the same parameters."""
        return self.shard or self.dp * self.cp

    @property
    def expert_shards(self) -> int:
        """Ranks over which it divides experts, which expert parallelism has divided already."""
        return max(1, self.shards // self.ep)

    @property
    def stages(self) -> tuple[str, ...]:
        """The pipeline stages that can be the most loaded."""
        return ("only",) if self.pp == 1 else ("first", "last")


def under(job: Job, layout: Layout) -> Job:
    """The job as its framework runs it where nothing else is said.

    Megatron-LM keeps fp32 gradients beside bf16 weights and divides the vocabulary in cross-entropy. Kernels for GPTQ
    weights compute in fp16, so that adapters on them are trained under autocast.
    """
    if job.method == "qlora" and job.weights in GPTQ and job.loss == "eager":
        return replace(job, loss="autocast")
    if layout.sharder != "megatron":
        return job
    scheme: Scheme = "mixed-fp32-grads" if job.scheme == "mixed" else job.scheme
    loss: Loss = "vocab-parallel" if job.loss == "eager" else job.loss
    return replace(job, scheme=scheme, loss=loss)

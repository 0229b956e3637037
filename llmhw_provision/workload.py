"""workload.yaml: what must run on the machine."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from llmhw_provision.documents import Record
from llmhw_provision.units import parse_size

MemorySize = Annotated[int, BeforeValidator(lambda value: parse_size(value, example="20 GiB"))]
DiskSize = Annotated[int, BeforeValidator(lambda value: parse_size(value, example="2 TB"))]

JobName = Literal["pretrain", "sft", "dpo", "ppo", "grpo", "serve"]
MethodName = Literal["full", "lora", "qlora"]
Precision = Literal[
    "published", "fp32", "bf16", "fp16", "fp8", "int8", "int4", "nf4", "nf4-dq", "gptq-int8", "int4-g32", "mxfp4"
]
CacheType = Literal["fp32", "bf16", "fp16", "fp8", "int8", "int4"]
SchemeName = Literal["mixed", "mixed-fp32-grads", "fp32-params", "pure", "fp32", "fp8"]
OptimizerName = Literal["adamw", "adamw-8bit", "paged-adamw-8bit", "adafactor", "muon", "sgd", "galore-8bit"]
LossName = Literal[
    "eager", "trainer", "autocast", "compiled", "chunked", "fused", "log-probabilities", "vocab-parallel"
]
RecomputeName = Literal["none", "selective", "selective-op", "full"]
SharderName = Literal["ddp", "deepspeed", "fsdp", "megatron"]
OffloadName = Literal["none", "optimizer", "all"]
FrameworkName = Literal["llamafactory", "trl", "accelerate", "megatron", "vllm", "tgi", "tensorrt-llm", "triton"]


class Dataset(Record):
    """The training data as it lies on disk."""

    size: DiskSize
    hot: MemorySize | None = Field(
        default=None,
        description="the part read again and again (tokenizer, index, small corpus): goes to tmpfs",
    )


class Checkpoints(Record):
    """How many checkpoints are kept on the machine at once."""

    keep: int = Field(default=3, ge=1, le=100)


class Serving(Record):
    """What the server must hold at once."""

    concurrency: int = Field(ge=1, le=100_000, description="requests in flight")
    context: int = Field(ge=1, le=10_000_000, description="tokens of prompt and answer together")
    kv: CacheType = "bf16"
    runtime: Literal["vllm", "transformers"] = "vllm"
    utilisation: int = Field(default=90, ge=1, le=100, description="percent of the GPU that vLLM may take")
    batched_tokens: int = Field(default=8192, ge=1, le=10_000_000, description="vLLM max_num_batched_tokens")


class Training(Record):
    """How training computes."""

    precision: SchemeName = Field(default="mixed", description="of weights, gradients and optimizer states")
    optimizer: OptimizerName = "adamw"
    optimizer_in_backward: bool = Field(default=False, description="step per parameter: gradients never pile up")
    loss: LossName = Field(default="eager", description="how cross-entropy keeps its logits")
    rank: int = Field(default=16, ge=1, le=65_536, description="of LoRA adapters")
    targets: Literal["default", "all-linear"] = Field(
        default="default", description="adapted matrices: queries and values for lora, all linear layers for qlora"
    )
    flash: bool = Field(default=True, description="fused attention kernel: no matrix of scores")
    compile: bool = Field(default=False, description="torch.compile")


class Parallel(Record):
    """How the job is spread. What is left out is chosen."""

    tp: int | None = Field(default=None, ge=1, le=1024, description="tensor parallel")
    pp: int | None = Field(default=None, ge=1, le=1024, description="pipeline stages")
    vpp: int | None = Field(default=None, ge=1, le=64, description="model chunks per stage (interleaved schedule)")
    cp: int | None = Field(default=None, ge=1, le=1024, description="context parallel")
    ep: int | None = Field(default=None, ge=1, le=4096, description="expert parallel")
    zero: int | None = Field(default=None, ge=0, le=3, description="ZeRO stage; 3 is also FSDP FULL_SHARD")
    sharder: SharderName | None = None
    sequence_parallel: bool | None = None
    micro_batch: int | None = Field(default=None, ge=1, le=100_000, description="samples per GPU at once")
    micro_batches: int | None = Field(default=None, ge=1, le=100_000, description="gradient accumulation")
    recompute: RecomputeName | None = None
    offload: OffloadName | None = None
    nvme: bool | None = Field(default=None, description="offload to NVMe instead of host memory")
    offload_activations: bool | None = None


class Placement(Record):
    """GPUs of each host by what they do; the rest trains. Numbers that are left out are chosen."""

    serve: int | None = Field(default=None, ge=1, le=1024, description="they serve while the others train")
    actor: int | None = Field(default=None, ge=1, le=1024, description="ppo, grpo: the policy and its reference")
    critic: int | None = Field(default=None, ge=1, le=1024, description="ppo: the critic and the reward model")
    rollout: int | None = Field(default=None, ge=1, le=1024, description="ppo, grpo: the engine that writes answers")
    colocated: bool = Field(default=False, description="ppo, grpo: all of them on all GPUs, in turn")


_REFERENCE = r"^[a-z0-9][a-z0-9._:/-]{0,200}@sha256:[0-9a-f]{64}$"
_PATH = r"^(/[A-Za-z0-9_][A-Za-z0-9_.-]*)+$"
_FILE = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,100}$"


class Launch(Record):
    """What the files that start the work say beyond the layout. What is left out is chosen."""

    framework: FrameworkName | None = Field(default=None, description="whose files are written")
    model_path: str | None = Field(default=None, pattern=_PATH, description="folder with the model; below the project")
    data: str | None = Field(default=None, pattern=_FILE, description="file of samples in the data folder")
    data_format: Literal["alpaca", "sharegpt", "openai"] = Field(default="alpaca", description="of LLaMA-Factory")
    template: str | None = Field(default=None, pattern=_FILE, description="chat template of LLaMA-Factory")
    reward_model: str | None = Field(default=None, pattern=_PATH, description="ppo, grpo: folder of the reward model")
    steps: int | None = Field(default=None, ge=1, le=10**9, description="optimizer steps; else one pass over dataset")
    learning_rate: float | None = Field(default=None, gt=0, lt=1)
    save_every: int | None = Field(default=None, ge=1, le=10**9, description="steps from checkpoint to checkpoint")
    zero_plus_plus: bool = Field(default=False, description="ZeRO++: quantised weights and gradients on the wire")
    one_bit: bool = Field(default=False, description="1-bit Adam of DeepSpeed")
    port: int = Field(default=8000, ge=1024, le=65535, description="of a server")
    listen: Literal["loopback", "all"] = Field(default="loopback", description="all: only with a key")
    image: str | None = Field(default=None, pattern=_REFERENCE, description="container image by digest: NAME@sha256:…")


def _placement(value: object) -> object:
    """`split`, `colocated` or `actor=4,critic=2,rollout=2` beside the mapping itself."""
    if not isinstance(value, str):
        return value
    if value in ("split", "colocated"):
        return {"colocated": value == "colocated"}
    pairs = [item.partition("=") for item in value.split(",")]
    if not all(equals and count.strip().isdecimal() for _, equals, count in pairs):
        raise ValueError(f"{value[:60]!r} is not split, colocated or ROLE=GPUS such as serve=2")
    return {name.strip(): int(count) for name, _, count in pairs}


class Workload(Record):
    """workload.yaml."""

    format: Literal[1] = Field(alias="schema", description="version of this file's form")
    model: str = Field(
        min_length=1,
        max_length=400,
        description="name in the catalogue, path to a config.json, or a parameter count such as 7B",
    )
    job: JobName
    method: MethodName = "full"
    weights: Precision = "bf16"
    sequence: int = Field(default=2048, ge=1, le=10_000_000, description="tokens per sample in training")
    batch: int = Field(default=8, ge=1, le=10_000_000, description="samples per optimizer step, all GPUs together")
    training: Training = Training()
    serving: Serving | None = None
    layout: Parallel = Parallel()
    placement: Annotated[Placement | None, BeforeValidator(_placement)] = Field(
        default=None, description="who works on which GPUs of a host; also: split, colocated, or text such as serve=2"
    )
    dataset: Dataset | None = None
    checkpoints: Checkpoints = Checkpoints()
    launch: Launch = Launch()

"""workload.yaml: what must run on the machine."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from llmhw_provision.documents import Record
from llmhw_provision.units import parse_size

MemorySize = Annotated[int, BeforeValidator(lambda value: parse_size(value, example="20 GiB"))]
DiskSize = Annotated[int, BeforeValidator(lambda value: parse_size(value, example="2 TB"))]

Precision = Literal["fp32", "bf16", "fp16", "fp8", "int8", "int4"]


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
    kv: Precision = "bf16"


class Workload(Record):
    """workload.yaml."""

    format: Literal[1] = Field(alias="schema", description="version of this file's form")
    model: str = Field(min_length=1, max_length=120, description="name in the catalogue, for example llama-3.1-8b")
    job: Literal["pretrain", "sft", "serve"]
    method: Literal["full", "lora", "qlora"] = "full"
    weights: Precision = "bf16"
    sequence: int = Field(default=4096, ge=1, le=10_000_000, description="tokens per sample in training")
    batch: int = Field(default=8, ge=1, le=10_000_000, description="samples per optimizer step, all GPUs together")
    serving: Serving | None = None
    dataset: Dataset | None = None
    checkpoints: Checkpoints = Checkpoints()

"""Which GPUs do what, and in which layout: what launch files are written from."""

from __future__ import annotations

from dataclasses import asdict
from typing import Literal

from pydantic import Field

from llmhw_provision.documents import Record
from llmhw_provision.sizing.job import Layout


class WorkLayout(Record):
    """A layout as in sizing/job.py; counts of GPUs, ranks, samples."""

    gpus: int
    nodes: int
    tp: int
    pp: int
    vpp: int
    cp: int
    ep: int
    dcp: int
    zero: int
    sharder: Literal["ddp", "deepspeed", "fsdp", "megatron"]
    shard: int
    sequence_parallel: bool
    micro_batch: int
    micro_batches: int
    recompute: Literal["none", "selective", "selective-op", "full"]
    offload_optimizer: bool
    offload_params: bool
    nvme: bool
    offload_activations: bool

    @classmethod
    def of(cls, layout: Layout) -> WorkLayout:
        """The record of a layout."""
        return cls(**asdict(layout))

    @property
    def layout(self) -> Layout:
        """The layout."""
        return Layout(**self.model_dump())


class Work(Record):
    """GPUs `first` to `first + count - 1` of each of `hosts` and what they do together."""

    hosts: tuple[str, ...] = Field(description="training spans them; each of them serves by itself")
    roles: tuple[str, ...]
    first: int = Field(ge=0)
    count: int = Field(ge=1, description="GPUs of one host")
    gpu: str = Field(description="kind, a name in the catalogue")
    cores: int = Field(ge=1, description="processor cores of one host")
    memory_bytes: int = Field(ge=0, description="of one host")
    save_every: int = Field(ge=0, description="optimizer steps between checkpoints that lose least; 0: not predicted")
    layout: WorkLayout

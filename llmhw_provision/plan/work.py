"""Which GPUs do what, and in which layout: what launch files are written from."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Literal

from pydantic import Field

from llmhw_provision.documents import Record
from llmhw_provision.site import Site
from llmhw_provision.sizing.job import Layout
from llmhw_provision.sizing.need import Need
from llmhw_provision.workload import JobName, Launch, MethodName, Precision, Serving, Training


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


class LaunchInputs(Record):
    """What launch files are written from beside layouts, hosts and versions: whoever changes one changes the plan."""

    model: str = Field(description="as workload.yaml names it")
    architecture: str = Field(description="first 12 hex digits of the SHA-256 over the model's figures")
    job: JobName
    method: MethodName
    weights: Precision
    sequence: int
    batch: int
    training: Training
    serving: Serving | None = None
    settings: Launch = Field(description="launch in workload.yaml")
    dataset_bytes: int = 0
    keep: int = Field(description="checkpoints")
    scratch: str = Field(description="mount")
    project: str = Field(description="folder")

    @classmethod
    def of(cls, need: Need, site: Site) -> LaunchInputs:
        """The record of a need at a site."""
        load = need.workload
        figures = json.dumps(asdict(need.model), sort_keys=True, default=str)
        return cls(
            model=load.model,
            architecture=hashlib.sha256(figures.encode()).hexdigest()[:12],
            job=load.job,
            method=load.method,
            weights=load.weights,
            sequence=load.sequence,
            batch=load.batch,
            training=load.training,
            serving=load.serving,
            settings=load.launch,
            dataset_bytes=load.dataset.size if load.dataset else 0,
            keep=load.checkpoints.keep,
            scratch=site.storage.scratch.mount,
            project=site.storage.project.path,
        )

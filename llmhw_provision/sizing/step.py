"""One training step: what its parts are computed from, the parts, and the figures that follow from them."""

from __future__ import annotations

from dataclasses import dataclass

from llmhw_provision.model import Architecture
from llmhw_provision.sizing import flops
from llmhw_provision.sizing.efficiency import Efficiency
from llmhw_provision.sizing.job import Job, Layout
from llmhw_provision.sizing.network import Links


@dataclass(frozen=True)
class Part:
    """Seconds of a step, as computed and from where."""

    name: str
    seconds: float
    formula: str
    source: str
    moved: float = 0.0  # bytes that each GPU sends


@dataclass(frozen=True)
class Step:
    """One optimizer step of the whole cluster."""

    parts: tuple[Part, ...]
    tokens: int  # of all GPUs together
    gpus: int
    model_flops: float  # per token, as `convention` counts
    convention: flops.Convention
    top: float  # FLOP/s of one GPU against which MFU is counted

    @property
    def seconds(self) -> float:
        """Seconds of the step."""
        return sum(part.seconds for part in self.parts)

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of all GPUs."""
        return self.tokens / self.seconds

    @property
    def per_gpu(self) -> float:
        """Tokens per second of one GPU."""
        return self.tokens_per_second / self.gpus

    @property
    def moved(self) -> float:
        """Bytes per second that each GPU sends on average, whether hidden or not."""
        return sum(part.moved for part in self.parts) / self.seconds

    @property
    def exposed(self) -> float:
        """Share of the step, 0 to 1, in which a GPU only waits for its links."""
        return sum(part.seconds for part in self.parts if part.moved) / self.seconds

    @property
    def mfu(self) -> float:
        """Model FLOPs utilisation, 0 to 1."""
        return self.per_gpu * self.model_flops / self.top


@dataclass(frozen=True)
class Setting:
    """All that a part is computed from."""

    model: Architecture
    job: Job
    layout: Layout
    links: Links
    fp8: bool
    use: Efficiency

    @property
    def tokens(self) -> float:
        """Tokens per step whose whole way through the model one GPU computes: its share of those of its group."""
        layout = self.layout
        return self.batch / (layout.tp * layout.pp * layout.cp)

    @property
    def batch(self) -> int:
        """Tokens per step of one data-parallel group; DPO compares two answers."""
        count = self.layout.micro_batch * self.layout.micro_batches * self.job.sequence
        return count * (2 if self.job.kind == "dpo" else 1)

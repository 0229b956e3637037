"""How fast an estimate runs, how often it saves, and what it draws."""

from __future__ import annotations

from dataclasses import dataclass, replace

from llmhw_provision.sizing.checkpoint import Saving, read_rate, write_rate
from llmhw_provision.sizing.chips import Chip, chip_of
from llmhw_provision.sizing.compute import training_step
from llmhw_provision.sizing.decode import Serving, decode_step, prefill
from llmhw_provision.sizing.estimate import Estimate, Hardware
from llmhw_provision.sizing.job import Job
from llmhw_provision.sizing.network import Links
from llmhw_provision.sizing.power import Power, power
from llmhw_provision.sizing.step import Part, Step
from llmhw_provision.sizing.terms import Term

WORKERS = 4  # data loader processes per GPU, as in the term of host memory
CORES = "one process and four data loader workers per GPU, two for the system; vLLM: one per GPU and its API server"


def cores(job: Job, gpus: int) -> int:
    """Cores that one host with `gpus` GPUs keeps busy."""
    return gpus * (1 + WORKERS) + 2 if job.trains else gpus + 2


@dataclass(frozen=True)
class Served:
    """Serving by `replicas` equal groups of GPUs, each with its share of the requests."""

    prompt: int
    first: tuple[Part, ...]
    token: tuple[Part, ...]
    batch: int
    replicas: int

    @property
    def first_seconds(self) -> float:
        """Seconds until the first token of a prompt that waits for nobody."""
        return sum(part.seconds for part in self.first)

    @property
    def token_seconds(self) -> float:
        """Seconds from token to token of every request."""
        return sum(part.seconds for part in self.token)

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of all requests."""
        return self.batch * self.replicas / self.token_seconds


@dataclass(frozen=True)
class Speed:
    """Exactly one of `step` and `served`; neither for PPO and GRPO, whose phases follow each other."""

    chip: Chip
    step: Step | None
    served: Served | None
    saving: Saving | None
    read: float  # bytes/s of tokens
    power: Power
    hosts: int
    cores: int  # of one host
    cores_there: int  # 0 when they are not known
    connected: bool  # whether the hosts' adapters are known

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of the whole hardware, 0 when not predicted."""
        found = self.step or self.served
        return found.tokens_per_second if found else 0.0


def speed(found: Estimate, checkpoint: Term | None = None) -> Speed | None:
    """The speed of `found`; None when nothing but the size of its card is known."""
    hardware = found.hardware
    if not hardware.card.kind:
        return None
    chip = chip_of(hardware.card.kind)
    step = reply = None
    if not found.job.trains:
        reply = served(found, chip)
    elif found.job.kind not in ("ppo", "grpo"):
        step = training_step(found.model, found.job, found.layout, links_of(hardware, chip))
    rate = read_rate(step.tokens_per_second, found.model.vocab) if step else 0.0
    drawn = power(
        gpus=hardware.gpus,
        gpu_watts=int(chip.power),
        switched=chip.switched and hardware.gpus > 1,
        cpu_watts=hardware.cpu_watts,
        memory=hardware.host_memory,
        nics=hardware.nics,
        disks=hardware.disks,
    )
    return Speed(
        chip=chip,
        step=step,
        served=reply,
        saving=_saving(hardware, checkpoint),
        read=rate,
        power=drawn,
        hosts=hardware.nodes,
        cores=cores(found.job, hardware.gpus),
        cores_there=hardware.cores,
        connected=hardware.nics > 0,
    )


def links_of(hardware: Hardware, chip: Chip) -> Links:
    """What connects the GPUs of the hardware."""
    return Links(chip, hardware.gpus, hardware.nics * hardware.nic_rate / hardware.gpus)


def _saving(hardware: Hardware, checkpoint: Term | None) -> Saving | None:
    if checkpoint is None:
        return None
    rate = write_rate(
        writers=hardware.all_gpus, disks=hardware.disks, disk_rate=hardware.disk_rate, hosts=hardware.nodes
    )
    return Saving(checkpoint.size, rate, hardware.all_gpus)


def serving_of(found: Estimate, chip: Chip) -> Serving:
    """What serving of an estimate is timed by: one replica on GPUs of one kind, all its sequences at work."""
    job, layout = found.job, found.layout
    return Serving(
        model=found.model,
        weights=job.weights,
        layout=replace(layout, gpus=layout.tp * layout.pp),
        chip=chip,
        batch=job.concurrency,
        context=job.context,
        cache=job.kv,
        host_gpus=found.hardware.gpus,
        engine="vllm" if job.runtime == "vllm" else "eager",
    )


def served(found: Estimate, chip: Chip) -> Served:
    """Serving of an estimate on GPUs of one kind."""
    job, serving = found.job, serving_of(found, chip)
    prompt = job.prompt or job.context
    return Served(prompt, prefill(serving, prompt), decode_step(serving), job.concurrency, found.layout.dp)

"""Everything that launch files are written from, in one value."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from llmhw_provision.catalogue.loader import Gpu, find, names
from llmhw_provision.catalogue.software import software
from llmhw_provision.errors import InputError
from llmhw_provision.launch.files import Setting
from llmhw_provision.plan.model import HostPlan, Plan
from llmhw_provision.plan.stack import Stack
from llmhw_provision.plan.work import Work
from llmhw_provision.site import Site
from llmhw_provision.sizing.checkpoint import token_bytes
from llmhw_provision.sizing.job import Job, Layout, under
from llmhw_provision.sizing.need import Need
from llmhw_provision.sizing.speed import CORES, WORKERS
from llmhw_provision.units import memory
from llmhw_provision.workload import Launch

_PRETRAIN_RATE = (3e-4, "Llama 3 8B, arXiv 2407.21783, table 3")
_FULL_RATE = (1e-5, "LLaMA-Factory, full SFT examples")
_LARGE_RATES = ((300e9, 8e-5), (50e9, 1.5e-4))  # parameters from which on; arXiv 2407.21783, table 3
_LORA_RATE = (1e-4, "LLaMA-Factory, LoRA examples")
_PREFERENCE_RATE = (5e-6, "LLaMA-Factory, DPO examples")
MASTER_PORT = 29_500


@dataclass(frozen=True)
class Setup:
    """One group of GPUs, its hosts, its job and the folders that the plan made."""

    plan: Plan
    need: Need
    site: Site
    work: Work

    @property
    def launch(self) -> Launch:
        """What the workload says of launch files."""
        return self.need.workload.launch

    @cached_property
    def layout(self) -> Layout:
        """The layout."""
        return self.work.layout.layout

    @cached_property
    def job(self) -> Job:
        """The job as its framework runs it."""
        return under(self.need.job, self.layout)

    @property
    def hosts(self) -> tuple[HostPlan, ...]:
        """The hosts of the group, in the order of the plan."""
        return tuple(host for host in self.plan.hosts if host.name in self.work.hosts)

    @property
    def nodes(self) -> int:
        """Hosts over which one job runs."""
        return self.layout.nodes

    @cached_property
    def stack(self) -> Stack | None:
        """Versions of the group's hosts."""
        return next((stack for stack in self.plan.stacks if self.work.hosts[0] in stack.hosts), None)

    @property
    def scratch(self) -> str:
        """The mount of scratch."""
        return self.site.storage.scratch.mount

    @property
    def project(self) -> str:
        """The folder of project storage."""
        return self.site.storage.project.path

    @property
    def name(self) -> str:
        """Name of the model in paths and unit names."""
        text = self.need.workload.model.removesuffix("/config.json").rsplit("/", 1)[-1].removesuffix(".json")
        kept = (letter if letter.isascii() and (letter.isalnum() or letter in ".-") else "-" for letter in text.lower())
        return "".join(kept).strip(".-") or "model"

    @property
    def model_path(self) -> str:
        """Folder with the model's files; raises InputError for one outside the planned folders."""
        path = self.launch.model_path or f"{self.project}/models/{self.name}"
        if not path.startswith((f"{self.project}/", f"{self.scratch}/")):
            raise InputError(
                f"launch.model_path {path} lies neither below {self.project} nor below {self.scratch}",
                "other folders are not planned: they may fill the system disk, or be missing",
            )
        return path

    @property
    def output(self) -> str:
        """Folder that training writes checkpoints into."""
        return f"{self.scratch}/runs/{self.run}"

    @property
    def kept(self) -> str:
        """Folder of project storage that checkpoints are copied to."""
        return f"{self.project}/runs/{self.run}"

    @property
    def run(self) -> str:
        """Name of the run: model, job, plan."""
        return f"{self.name}-{self.need.workload.job}-{self.plan.identity}"

    @property
    def data(self) -> str:
        """Folder of the data set."""
        return f"{self.project}/data"

    def environment(self, *packages: str) -> str:
        """Folder of the environment that holds `packages`; raises InputError when the plan has none."""
        found = self.stack.environments if self.stack else ()
        for item in found:
            pins = {text.partition("==")[0] for text in item.requirements}
            if pins.issuperset(packages):
                return f"/opt/llmhw/envs/{item.name}"
        planned = ", ".join(item.name for item in found) or "none"
        raise InputError(
            f"launch: no planned environment holds {', '.join(packages)}; planned: {planned}",
            "name it under software.environments in site.yaml",
        )

    @property
    def switched(self) -> bool:
        """Whether NVSwitch joins the GPUs."""
        return self.work.gpu in names("gpus") and find("gpus", self.work.gpu, Gpu).nvswitch

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability."""
        major, minor = find("gpus", self.work.gpu, Gpu).compute_capability.split(".")
        return int(major), int(minor)

    @property
    def global_batch(self) -> int:
        """Samples of one optimizer step of all GPUs."""
        of = self.layout
        return of.micro_batch * of.micro_batches * of.dp

    @property
    def workers(self) -> Setting:
        """Data-loader processes of one GPU: four, fewer where the host has not the cores."""
        count = max(1, min(WORKERS, (self.work.cores - 2) // self.work.count - 1))
        rule = f"{WORKERS} workers per GPU, as counted in host memory; {self.work.cores} cores, {self.work.count} GPUs"
        return Setting("workers", count, rule, CORES)

    @property
    def threads(self) -> Setting:
        """OpenMP threads of one rank."""
        return Setting(
            "OMP_NUM_THREADS",
            max(1, self.work.cores // self.work.count),
            f"{self.work.cores} cores / {self.work.count} GPUs",
            "torchrun sets 1 otherwise, which starves the CPU optimizer",
        )

    @property
    def pinned(self) -> Setting:
        """Page-locked batches, with the bytes that they take."""
        workers = int(str(self.workers.value))
        size = self.work.count * workers * 2 * self.layout.micro_batch * self.need.workload.sequence * 3 * 8
        rule = f"{workers} workers × 2 batches × 3 tensors of 64 bits: {memory(size)} of page-locked host memory"
        return Setting("pin_memory", True, rule, "PyTorch DataLoader: prefetch_factor 2, pinned copies overlap")

    @property
    def steps(self) -> Setting | None:
        """Optimizer steps: given, or one pass over the data set; None when neither is known."""
        if self.launch.steps:
            return Setting("steps", self.launch.steps, "launch.steps", "workload.yaml")
        data = self.need.workload.dataset
        if data is None:
            return None
        each = token_bytes(self.need.model.vocab)
        samples, tokens = self.global_batch, self.need.workload.sequence
        count = data.size // (each * samples * tokens)
        rule = f"one pass: {data.size:,} B / ({each} B × {samples} samples × {tokens} tokens)"
        return Setting("steps", max(1, count), rule, "token numbers of 2 B, 4 B for vocabularies above 65,535")

    @property
    def save_every(self) -> Setting:
        """Steps between checkpoints."""
        if self.launch.save_every:
            return Setting("save_every", self.launch.save_every, "launch.save_every", "workload.yaml")
        if self.work.save_every:
            rule = "loses least: square root of twice write time × mean time between failures, over the step's seconds"
            return Setting("save_every", self.work.save_every, rule, "Young 1974; Llama 3 section 3.3.4 for failures")
        return Setting("save_every", 500, "no step time is predicted for this job", "default of transformers")

    @property
    def rate(self) -> Setting:
        """Learning rate."""
        load = self.need.workload
        if self.launch.learning_rate:
            return Setting("learning_rate", self.launch.learning_rate, "launch.learning_rate", "workload.yaml")
        if load.job == "pretrain":
            value, source = _PRETRAIN_RATE
            value = next((rate for size, rate in _LARGE_RATES if self.need.model.parameters >= size), value)
        elif load.job in ("dpo", "ppo", "grpo"):
            value, source = _PREFERENCE_RATE
        else:
            value, source = _LORA_RATE if load.method != "full" else _FULL_RATE
        return Setting("learning_rate", value, f"usual for {load.job} {load.method}; give launch.learning_rate", source)

    def version(self, package: str) -> str:
        """`NAME VERSION` of a package in the locks of the group's environments, the name alone when in none."""
        for item in self.stack.environments if self.stack else ():
            for text in item.requirements:
                if text.partition("==")[0] == package:
                    return text.replace("==", " ")
        found = (env.packages.get(package) for env in software().environments.values())
        return " ".join((package, next(filter(None, found), ""))).strip()

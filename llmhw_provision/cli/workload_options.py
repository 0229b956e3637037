"""The options of `size` and `explain`: a workload and the hardware to hold it against."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from llmhw_provision import workload as form
from llmhw_provision.catalogue.loader import Gpu, MachineKind, find, names
from llmhw_provision.documents import check, read
from llmhw_provision.errors import InputError
from llmhw_provision.sizing.cards import card_of
from llmhw_provision.sizing.estimate import Hardware
from llmhw_provision.sizing.machines import machine_hardware
from llmhw_provision.sizing.models import parameter_count, resolve_model
from llmhw_provision.sizing.need import Need, need
from llmhw_provision.units import parse_size
from llmhw_provision.workload import Workload

Function = TypeVar("Function", bound=Callable[..., Any])


def _choice(kind: Any) -> click.Choice[str]:
    return click.Choice(list(get_args(kind)))


_WORKLOAD = (
    click.option(
        "--site", "folder", type=click.Path(file_okay=False, path_type=Path), help="Read DIRECTORY/workload.yaml."
    ),
    click.option("--model", help="Name in the catalogue, for example llama-3.1-8b, or path to a config.json."),
    click.option("--params", help="Parameter count such as 7B, where there is no config.json."),
    click.option("--job", type=_choice(form.JobName)),
    click.option("--method", type=_choice(form.MethodName)),
    click.option("--weights", type=_choice(form.Precision)),
    # training
    click.option("--seq", "sequence", type=int, help="Tokens per sample in training."),
    click.option("--batch", type=int, help="Samples per optimizer step, all GPUs together."),
    click.option("--precision", "training__precision", type=_choice(form.SchemeName)),
    click.option("--optimizer", "training__optimizer", type=_choice(form.OptimizerName)),
    click.option(
        "--optimizer-in-backward",
        "training__optimizer_in_backward",
        is_flag=True,
        default=None,
        help="Step per parameter inside backward.",
    ),
    click.option("--loss", "training__loss", type=_choice(form.LossName)),
    click.option("--rank", "training__rank", type=int, help="Rank of LoRA adapters."),
    click.option("--lora-targets", "training__targets", type=click.Choice(["default", "all-linear"])),
    click.option("--flash/--no-flash", "training__flash", default=None, help="Fused attention kernel or not."),
    click.option("--compile", "training__compile", is_flag=True, default=None, help="torch.compile is used."),
    # serving
    click.option("--concurrency", "serving__concurrency", type=int, help="Requests in flight when serving."),
    click.option("--context", "serving__context", type=int, help="Tokens of prompt and answer together when serving."),
    click.option("--kv", "serving__kv", type=_choice(form.CacheType)),
    click.option("--runtime", "serving__runtime", type=click.Choice(["vllm", "transformers"])),
    click.option("--utilisation", "serving__utilisation", type=int, help="Percent of the GPU that vLLM may take."),
    click.option("--batched-tokens", "serving__batched_tokens", type=int, help="vLLM max_num_batched_tokens."),
    # layout
    click.option("--tp", "layout__tp", type=int, help="Tensor parallel."),
    click.option("--pp", "layout__pp", type=int, help="Pipeline stages."),
    click.option("--vpp", "layout__vpp", type=int, help="Model chunks per pipeline stage."),
    click.option("--cp", "layout__cp", type=int, help="Context parallel."),
    click.option("--ep", "layout__ep", type=int, help="Expert parallel."),
    click.option("--zero", "layout__zero", type=int, help="ZeRO stage 0 to 3."),
    click.option("--sharder", "layout__sharder", type=_choice(form.SharderName)),
    click.option(
        "--sequence-parallel/--no-sequence-parallel",
        "layout__sequence_parallel",
        default=None,
        help="Divide norms along the sequence too, with tensor parallel.",
    ),
    click.option("--micro-batch", "layout__micro_batch", type=int, help="Samples per GPU at once."),
    click.option("--micro-batches", "layout__micro_batches", type=int, help="Micro-batches per step."),
    click.option("--recompute", "layout__recompute", type=_choice(form.RecomputeName)),
    click.option("--offload", "layout__offload", type=_choice(form.OffloadName)),
    click.option("--nvme", "layout__nvme", is_flag=True, default=None, help="Offload to NVMe instead of host memory."),
    click.option(
        "--offload-activations",
        "layout__offload_activations",
        is_flag=True,
        default=None,
        help="Keep activations in host memory until backward.",
    ),
)
_MACHINES = (
    click.option("--place", "placement", help="GPUs by work: serve=2, split, colocated, actor=4,critic=2,rollout=2."),
    click.option("--machine", help="Machine of the catalogue; all of them when left out."),
    click.option("--gpu", help="GPU of the catalogue instead of a machine, for example h100-sxm."),
    click.option("--gpus", type=int, help="GPUs per host."),
    click.option("--nodes", type=int, help="Hosts."),
    click.option("--host-memory", help="Memory of one host, for example '512 GiB'."),
)
_OPTIONS = (*_WORKLOAD, *_MACHINES)
_HARDWARE = ("machine", "gpu", "gpus", "nodes", "host_memory")


def workload_options(function: Function) -> Function:
    """Adds the options of a workload and its hardware to a command."""
    return _added(function, _OPTIONS)


def job_options(function: Function) -> Function:
    """Adds the options of a workload alone."""
    return _added(function, _WORKLOAD)


def _added(function: Function, options: tuple[Callable[[Function], Function], ...]) -> Function:
    for option in reversed(options):
        function = option(function)
    return function


def read_need(folder: Path | None, options: dict[str, Any]) -> Need:
    """The workload that the options describe; raises UsageError or InputError."""
    given = {key: value for key, value in options.items() if value is not None and key not in _HARDWARE}
    if folder is not None:
        if given:
            names_given = ", --".join(sorted(_flag(key) for key in given))
            raise click.UsageError(f"--site reads workload.yaml; leave out --{names_given}")
        workload = read(folder / "workload.yaml", Workload)
        return need(workload, resolve_model(workload.model, folder))
    if ("model" in given) == ("params" in given) or "job" not in given:
        raise click.UsageError("name --job and one of --model and --params, or --site DIRECTORY")
    data: dict[str, Any] = {"schema": 1}
    if "params" in given:
        given["model"] = given.pop("params")
        if parameter_count(given["model"]) is None:
            raise InputError(f"--params {given['model'][:60]!r} is not a parameter count", "write for example 7B")
    for key, value in given.items():
        section, _, name = key.rpartition("__")
        (data.setdefault(section, {}) if section else data)[name] = value
    workload = check(data, Workload, path=Path("options"))
    return need(workload, resolve_model(workload.model))


def _flag(key: str) -> str:
    name = key.rpartition("__")[2].replace("_", "-")
    return {"sequence": "seq", "targets": "lora-targets", "placement": "place"}.get(name, name)


def read_hardware(options: dict[str, Any]) -> list[tuple[str, Hardware]]:
    """The hardware to hold the workload against, with its title; raises UsageError or InputError."""
    machine, gpu, gpus, nodes = (options[key] for key in ("machine", "gpu", "gpus", "nodes"))
    for key in ("gpus", "nodes"):
        if options[key] is not None and not 1 <= options[key] <= 100_000:
            raise InputError(f"--{key} {options[key]} is outside 1 to 100,000")
    if machine and gpu:
        raise click.UsageError("name --machine or --gpu, not both")
    if gpu:
        card = card_of(find("gpus", gpu, Gpu), gpu)
        memory = _host_memory(options["host_memory"]) if options["host_memory"] else 0
        return [(card.title, Hardware(card, gpus or 1, nodes or 1, memory))]
    if gpus or options["host_memory"]:
        raise click.UsageError("--gpus and --host-memory go with --gpu")
    found = []
    for name in (machine,) if machine else names("machines"):
        kind = find("machines", name, MachineKind)
        found.append((kind.title, machine_hardware(kind, nodes or 1)))
    return found


def _host_memory(text: str) -> int:
    try:
        return parse_size(text, example="512 GiB")
    except ValueError as error:
        raise InputError(f"--host-memory: {error}") from None

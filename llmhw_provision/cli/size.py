"""llmhw-provision size"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from llmhw_provision.catalogue.loader import Gpu, MachineKind, ModelKind, find, names
from llmhw_provision.documents import check, read
from llmhw_provision.sizing.estimate import Estimate, estimate, fit
from llmhw_provision.sizing.storage import FREE_SOURCE
from llmhw_provision.sizing.terms import Term
from llmhw_provision.units import disk, memory
from llmhw_provision.workload import Workload


@click.command("size")
@click.option(
    "--site", "folder", type=click.Path(file_okay=False, path_type=Path), help="Read DIRECTORY/workload.yaml."
)
@click.option("--model", help="Name in the catalogue, for example llama-3.1-8b.")
@click.option("--job", type=click.Choice(["pretrain", "sft", "serve"]))
@click.option("--method", type=click.Choice(["full", "lora", "qlora"]))
@click.option("--weights", type=click.Choice(["fp32", "bf16", "fp16", "fp8", "int8", "int4"]))
@click.option("--seq", type=int, help="Tokens per sample in training.")
@click.option("--batch", type=int, help="Samples per optimizer step, all GPUs together.")
@click.option("--concurrency", type=int, help="Requests in flight when serving.")
@click.option("--context", type=int, help="Tokens of prompt and answer together when serving.")
@click.option("--json", "as_json", is_flag=True, help="Print every term as JSON.")
def command(folder: Path | None, as_json: bool, **options: Any) -> None:
    """What a workload needs: GPU memory (at least), checkpoints, scratch, tmpfs; each number with its arithmetic."""
    workload = _workload(folder, options)
    need = estimate(workload, find("models", workload.model, ModelKind).architecture)
    click.echo(json.dumps(_as_data(need), indent=2, ensure_ascii=False) if as_json else _screen(need))


def _workload(folder: Path | None, options: dict[str, Any]) -> Workload:
    given = {key: value for key, value in options.items() if value is not None}
    if folder is not None:
        if given:
            raise click.UsageError(f"--site reads workload.yaml; leave out --{', --'.join(sorted(given))}")
        return read(folder / "workload.yaml", Workload)
    if "model" not in given or "job" not in given:
        raise click.UsageError("name --model and --job, or --site DIRECTORY")
    serving = {key: given.pop(key) for key in ("concurrency", "context") if key in given}
    if "seq" in given:
        given["sequence"] = given.pop("seq")
    data = {"schema": 1, **given, **({"serving": serving} if serving else {})}
    return check(data, Workload, path=Path("options"))


def _screen(need: Estimate) -> str:
    load = need.workload
    lines = [f"{need.model.title} · {need.model.parameters / 1e9:.1f}B parameters · {load.job} · {load.method}", ""]
    lines.append("GPU memory, all GPUs together, at least (activations, logits and buffers come on top)")
    lines += [_line(term, memory) for term in need.device]
    lines.append(f"  {'sum':<26}{memory(need.device_bytes):>12}")
    lines += ["", "                      at least per GPU   card         verdict"]
    lines += [_verdict(name, need) for name in names("machines")]
    lines += ["", "scratch"]
    lines += [_line(term, disk) for term in need.storage.scratch]
    lines.append(f"  {'with a fifth free':<26}{disk(need.storage.scratch_bytes):>12}   {FREE_SOURCE}")
    if need.storage.project:
        lines += ["", "project (persistent)"]
        lines += [_line(term, disk) for term in need.storage.project]
    if need.hot:
        lines += ["", f"tmpfs: hot set of {memory(need.hot)}, if a tenth of the host's memory allows"]
    return "\n".join(lines)


def _line(term: Term, text: Any) -> str:
    return f"  {term.name:<26}{text(term.size):>12}   {term.formula}"


def _verdict(name: str, need: Estimate) -> str:
    kind = find("machines", name, MachineKind)
    gpu = find("gpus", kind.gpu.kind, Gpu)
    result = fit(need, gpu, kind.gpu.count)
    verdict = "not excluded" if result.fits else "does not fit"
    title = f"{kind.title} {kind.gpu.count}×"
    return f"  {title:<20}{memory(result.needs_per_gpu):>14}   {memory(gpu.memory_bytes):>10}   {verdict}"


def _as_data(need: Estimate) -> dict[str, Any]:
    def terms(items: tuple[Term, ...]) -> list[dict[str, Any]]:
        return [
            {"name": item.name, "bytes": item.size, "formula": item.formula, "source": item.source} for item in items
        ]

    return {
        "model": need.model.title,
        "workload": need.workload.model_dump(mode="json", by_alias=True),
        "device_at_least": terms(need.device),
        "device_at_least_bytes": need.device_bytes,
        "scratch": terms(need.storage.scratch),
        "scratch_bytes": need.storage.scratch_bytes,
        "project": terms(need.storage.project),
        "project_bytes": need.storage.project_bytes,
        "hot_bytes": need.hot,
    }

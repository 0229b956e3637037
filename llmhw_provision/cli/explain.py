"""llmhw-provision explain"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from llmhw_provision.cli.constants import constants_option
from llmhw_provision.cli.speed_text import explained
from llmhw_provision.cli.trust import doubts, machines_of, notes
from llmhw_provision.cli.workload_options import read_hardware, read_need, workload_options
from llmhw_provision.errors import InputError
from llmhw_provision.sizing.bands import bands
from llmhw_provision.sizing.constants import Constants, measured_best, measured_speed, read_constants
from llmhw_provision.sizing.estimate import Estimate, Hardware
from llmhw_provision.sizing.layout import best, describe
from llmhw_provision.sizing.need import Need
from llmhw_provision.sizing.speed import speed
from llmhw_provision.sizing.storage import FREE_SOURCE
from llmhw_provision.sizing.terms import Term
from llmhw_provision.units import disk, memory


@click.command("explain")
@workload_options
@constants_option
def command(folder: Path | None, constants_file: Path | None, **options: Any) -> None:
    """Every number of `size`: the formula with its values, and where the formula comes from."""
    constants = read_constants(constants_file) if constants_file is not None else None
    need, rows = read_need(folder, options), read_hardware(options)
    if need.workload.placement is not None:
        raise InputError("explain is about one job on all GPUs", "leave the placement out, or use size --json")

    def chosen(hardware: Hardware) -> Estimate:
        return best(need.job, need.model, hardware, need.workload.layout, need.workload.batch)

    blocks = [
        _machine(need, title, measured_best(chosen, need.job, hardware, constants), constants)
        for title, hardware in rows
    ]
    doubted = notes(doubts(need.workload.model, machines_of(options), [hardware for _, hardware in rows]))
    click.echo("\n\n".join([_model(need), *blocks, _storage(need), "\n".join([_bands(), *doubted])]))


def _model(need: Need) -> str:
    model = need.model
    lines = [f"{model.title}: {model.parameters:,} parameters, {model.active_parameters:,} active per token"]
    for matrix in model.matrices:
        text = f"{matrix.inputs:,} × {matrix.outputs:,} × {matrix.count:,}"
        lines.append(f"  {matrix.name:<22}{matrix.weights:>18,}   {text}")
    rest = (
        ("embedding", model.embedding_parameters),
        ("head", model.head_parameters),
        ("norms, biases", model.vector_parameters),
        ("vision", model.vision_parameters),
        ("other", model.other_parameters),
    )
    lines += [f"  {name:<22}{count:>18,}" for name, count in rest if count]
    return "\n".join(lines)


def _machine(need: Need, title: str, found: Estimate, constants: Constants | None) -> str:
    hardware = found.hardware
    limit = memory(hardware.card.usable)
    lines = [
        f"{title}, {hardware.all_gpus}× {hardware.card.title}: {found.verdict}; {describe(found.job, found.layout)}"
    ]
    for moment in sorted(found.moments, key=lambda moment: -moment.device):
        stage = "" if moment.stage == "only" else f" ({moment.stage} pipeline stage)"
        mark = "  ← peak" if moment is found.peak else ""
        lines.append(f"  at {moment.name}{stage}: {memory(moment.device)} of {limit}{mark}")
        if moment is found.peak:
            lines += [_line(term, memory(term.size)) for term in moment.terms]
    lines.append(f"  may be wrong by {memory(found.device_band)} either way")
    if found.cache is not None:
        lines.append(f"  vLLM: {memory(found.cache.limit)} = {found.job.utilisation} % of the card, less")
        lines += [_line(term, memory(term.size)) for term in found.cache.terms]
        tokens = f"{found.cache.tokens:,} tokens × {float(found.cache.token_bytes):,.0f} B"
        lines.append(f"    leaves for the KV cache {memory(max(0, found.cache.cache))} = {tokens}")
    lines.append(f"  host: {memory(found.host_bytes)}")
    lines += [_line(term, memory(term.size)) for term in found.host]
    fast = speed(found, need.checkpoint) if found.verdict != "does not fit" else None
    fast = measured_speed(fast, hardware.card.kind, constants)
    lines += explained(fast) if fast is not None else []
    return "\n".join(lines)


def _storage(need: Need) -> str:
    lines = [f"scratch: {disk(need.storage.scratch_bytes)}; {FREE_SOURCE}"]
    lines += [_line(term, disk(term.size)) for term in need.storage.scratch]
    if need.storage.project:
        lines.append("project")
        lines += [_line(term, disk(term.size)) for term in need.storage.project]
    return "\n".join(lines)


def _bands() -> str:
    record = bands()
    shares = ", ".join(f"{kind} {value / 100:.1f} %" for kind, value in record["bands"].items())
    return f"bands: {shares}\n  {record['date']}, {record['source']}; {record['method']}"


def _line(term: Term, size: str) -> str:
    return f"    {term.name:<32}{size:>12}   {term.formula}\n{'':50}{term.source}"

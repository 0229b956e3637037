"""llmhw-provision size"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import click

from llmhw_provision.cli.constants import calibrated, constants_option
from llmhw_provision.cli.size_layouts import heading, layouts, placed, where
from llmhw_provision.cli.speed_text import data as speed_data
from llmhw_provision.cli.speed_text import summary
from llmhw_provision.cli.trust import data as trust_data
from llmhw_provision.cli.trust import doubts, machines_of, notes
from llmhw_provision.cli.workload_options import read_hardware, read_need, workload_options
from llmhw_provision.documents import write_atomic
from llmhw_provision.errors import InputError
from llmhw_provision.sizing.constants import (
    Constants,
    measured_best,
    measured_speed,
    read_constants,
    room,
    words,
)
from llmhw_provision.sizing.estimate import Estimate, Hardware
from llmhw_provision.sizing.layout import best, describe, fewest
from llmhw_provision.sizing.need import Need
from llmhw_provision.sizing.search import largest_concurrency, largest_context
from llmhw_provision.sizing.speed import Speed, speed
from llmhw_provision.sizing.terms import Term
from llmhw_provision.units import disk, memory

_FILE = click.Path(dir_okay=False, path_type=Path)
_BAR = 24  # characters of the longest bar


@click.command("size")
@workload_options
@constants_option
@click.option("--calibrate", type=_FILE, help="Make constants from the runs in this file, instead of an estimate.")
@click.option("--html", "page", type=_FILE, help="Write a page with pictures to this file, beside what is printed.")
@click.option("--lang", "language", type=click.Choice(["en", "zh"]), help="Language of that page; default en.")
@click.option("--layouts", "count", type=click.IntRange(1, 1000), metavar="N", help="The best N layouts instead.")
@click.option("--why", "asked", metavar="LAYOUT", help="Why a layout is not chosen, for example tp=2,pp=1.")
@click.option("--json", "as_json", is_flag=True, help="Print every term as JSON.")
def command(
    folder: Path | None,
    constants_file: Path | None,
    calibrate: Path | None,
    page: Path | None,
    language: Literal["en", "zh"] | None,
    count: int | None,
    asked: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """What a workload needs per GPU and per host, whether it fits, and in which layout."""
    if language and page is None:
        raise click.UsageError("--lang is the language of the page; name it with --html")
    if calibrate is not None:
        options["page"] = page
        click.echo(calibrated(calibrate, constants_file, folder, options, as_json=as_json))
        return
    constants = read_constants(constants_file) if constants_file is not None else None
    need = read_need(folder, options)
    hardware = read_hardware(options)
    alone = [flag for flag, given in (("--html", page), ("--constants", constants)) if given]
    if alone and (need.workload.placement is not None or count or asked):
        raise InputError(f"{alone[0]} is about one job in its best layout", "leave placement, --layouts and --why out")
    if need.workload.placement is not None:
        if count or asked:
            raise InputError("--layouts and --why are about one job on all GPUs", "leave the placement out")
        click.echo(placed(need, hardware, heading(need), as_json=as_json))
        return
    if count or asked:
        click.echo(layouts(need, hardware, heading(need), count, asked, as_json=as_json))
        return
    rows = [(title, machine, *_best(need, machine, constants)) for title, machine in hardware]
    if all(found is None for _, _, found, _ in rows):
        raise next(problem for _, _, _, problem in rows if problem is not None)
    doubted = doubts(need.workload.model, machines_of(options), [item for _, item in hardware])
    if page is not None:
        write_atomic(page, _page(need, rows, constants, notes(doubted), language or "en"))
        click.echo(f"page: {page}", err=True)
    if as_json:
        data = {**_as_data(need, rows, constants), "doubts": trust_data(doubted)}
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join([_screen(need, rows, constants), *notes(doubted)]))


def _page(
    need: Need, rows: list[Row], constants: Constants | None, more: list[str], language: Literal["en", "zh"]
) -> str:
    from llmhw_provision.report.sizing_page import Sheet, render  # jinja2 costs start-up time

    sheets = [
        Sheet(
            title,
            f"{machine.nodes} × {machine.gpus}×" if machine.nodes > 1 else f"{machine.gpus}×",
            memory(machine.card.usable),
            found,
            _speed(need, found, constants) if found is not None else None,
            str(problem or ""),
        )
        for title, machine, found, problem in rows
    ]
    used = words(constants, tuple(machine.card.kind for _, machine, _, _ in rows)) if constants else []
    return render(heading(need), sheets, [*_storage(need), *used, *more], language)


Row = tuple[str, Hardware, Estimate | None, InputError | None]


def _best(need: Need, machine: Hardware, constants: Constants | None) -> tuple[Estimate | None, InputError | None]:
    def chosen(hardware: Hardware) -> Estimate:
        return best(need.job, need.model, hardware, need.workload.layout, need.workload.batch)

    try:
        return measured_best(chosen, need.job, machine, constants), None
    except InputError as error:
        return None, error


def _speed(need: Need, found: Estimate, constants: Constants | None) -> Speed | None:
    if found.verdict == "does not fit":
        return None
    return measured_speed(speed(found, need.checkpoint), found.hardware.card.kind, constants)


def _screen(need: Need, rows: list[Row], constants: Constants | None) -> str:
    width = max(len(where(title, machine)) for title, machine, _, _ in rows)
    lines = [heading(need), "", f"  {'':<{width}}  {'needs per GPU':>20}  {'card':>9}  verdict"]
    fastest = _fastest(need, rows, constants)
    lines += [
        f"  {where(title, machine):<{width}}  {_verdict(need, machine, found, problem)}"
        + ("   ← fastest" if found is not None and found is fastest else "")
        for title, machine, found, problem in rows
    ]
    shown = _shown(rows)
    if shown is not None:
        lines += ["", *_breakdown(*shown)]
        fast = _speed(need, shown[1], constants)
        lines += summary(fast) if fast is not None else []
        lines += _filled_up(need, shown[1])
    lines += ["", *_storage(need)]
    lines += words(constants, tuple(machine.card.kind for _, machine, _, _ in rows)) if constants else []
    lines.append("every number: llmhw-provision explain with the same options · layouts: --layouts 10, --why tp=2,pp=1")
    return "\n".join(lines)


def _fastest(need: Need, rows: list[Row], constants: Constants | None) -> Estimate | None:
    """The estimate with most tokens per second among several that fit."""
    found = [item for _, _, item, _ in rows if item is not None]
    rates = [(fast.tokens_per_second, item) for item in found for fast in [_speed(need, item, constants)] if fast]
    if len(rates) < 2:
        return None
    rate, best_item = max(rates, key=lambda each: each[0])
    return best_item if rate > 0 else None


def _verdict(need: Need, machine: Hardware, found: Estimate | None, problem: InputError | None) -> str:
    card = memory(machine.card.usable)
    if found is None:
        return f"{'–':>20}  {card:>9}  no layout: {problem}"
    size = f"{memory(found.device_bytes)} ±{100 * found.device_band / found.device_bytes:.0f} %"
    text = f"{size:>20}  {card:>9}  {found.verdict}"
    if found.device_verdict == "does not fit":
        return text + _why_not(need, machine, found)
    if found.verdict == "does not fit":
        text += f": host needs {memory(found.host_bytes)}, has {memory(machine.host_memory)}"
    return f"{text:<50}  {describe(found.job, found.layout)}"


def _why_not(need: Need, machine: Hardware, found: Estimate) -> str:
    largest = max(found.peak.terms, key=lambda term: term.size)
    text = f": {largest.name} alone {memory(largest.size)}" if largest.size > found.limit else ""
    with suppress(InputError):
        text += f"; {fewest(need.model, need.job, found.hardware.card):,} such GPUs hold it"
    if need.job.kind != "sft" or need.job.method == "qlora":
        return text
    other = replace(need.job, method="qlora", weights="bf16", state_bytes=0, in_backward=False)
    try:
        tried = best(other, need.model, machine, need.workload.layout, need.workload.batch)
    except InputError:
        return text
    return f"{text}   (QLoRA: {memory(tried.device_bytes)}, {tried.verdict})"


def _shown(rows: list[Row]) -> tuple[str, Estimate] | None:
    """The first that fits, else the first that could be laid out."""
    found = [(title, item) for title, _, item, _ in rows if item is not None]
    return next((row for row in found if row[1].verdict != "does not fit"), found[0] if found else None)


def _breakdown(title: str, found: Estimate) -> list[str]:
    peak = found.peak
    lines = [f"{title}: {memory(peak.device)} per GPU at its peak, {peak.name}"]
    largest, width = max(term.size for term in peak.terms), max(len(term.name) for term in peak.terms)
    for term in sorted(peak.terms, key=lambda term: -term.size):
        if term.size:
            bar = "▇" * (term.size * _BAR // largest) or "▏"
            lines.append(f"  {term.name:<{width}}  {memory(term.size):>10}  {bar}")
    limits = _limits(found)
    host = f"host memory {memory(found.host_bytes)}"
    if found.hardware.host_memory:
        host += f" of {memory(found.hardware.host_memory)}: {found.host_verdict}"
    return [*lines, f"{host} · {limits}"]


def _limits(found: Estimate) -> str:
    card = room(found)
    context = largest_context(found.model, found.job, found.layout, card)
    text = f"longest {'sequence' if found.job.trains else 'context'} that fits {context:,} tokens"
    if found.job.trains:
        return text
    count = largest_concurrency(found.model, found.job, found.layout, card) * found.layout.dp
    text += f" · most requests {count:,}"
    if found.cache is not None:
        text += f" · vLLM's KV cache {found.cache.tokens:,} tokens per replica"
    return text


def _filled_up(need: Need, found: Estimate) -> list[str]:
    """Said where data-parallel ranks cannot share the samples of a step evenly."""
    layout, asked = found.layout, need.workload.batch
    samples = layout.dp * layout.micro_batch * layout.micro_batches
    if not need.job.trains or samples == asked:
        return []
    return [
        f"note: a step takes {samples:,} samples, not {asked:,}: {layout.dp:,} data-parallel ranks share them evenly"
    ]


def _storage(need: Need) -> list[str]:
    scratch = " + ".join(f"{term.name} {disk(term.size)}" for term in need.storage.scratch)
    lines = [f"scratch {disk(need.storage.scratch_bytes)} ({scratch}, a fifth free)"]
    if need.storage.project:
        lines.append(f"project {disk(need.storage.project_bytes)} (newest checkpoint)")
    if need.hot:
        lines.append(f"tmpfs: hot set of {memory(need.hot)}, if a tenth of the host's memory allows")
    return lines


def terms_data(items: tuple[Term, ...]) -> list[dict[str, Any]]:
    """Terms as JSON."""
    return [
        {"name": item.name, "kind": item.kind, "bytes": item.size, "formula": item.formula, "source": item.source}
        for item in items
    ]


def _as_data(need: Need, rows: list[Row], constants: Constants | None) -> dict[str, Any]:
    return {
        "model": need.model.title,
        "parameters": need.model.parameters,
        "workload": need.workload.model_dump(mode="json", by_alias=True),
        "machines": [_row_data(need, row, constants) for row in rows],
        "constants": constants.model_dump(mode="json", by_alias=True) if constants else None,
        "scratch": terms_data(need.storage.scratch),
        "scratch_bytes": need.storage.scratch_bytes,
        "project": terms_data(need.storage.project),
        "project_bytes": need.storage.project_bytes,
        "hot_bytes": need.hot,
    }


def _row_data(need: Need, row: Row, constants: Constants | None) -> dict[str, Any]:
    title, machine, found, problem = row
    data: dict[str, Any] = {"machine": title, "gpu": machine.card.title, "gpus": machine.gpus, "nodes": machine.nodes}
    data["usable_bytes"] = machine.card.usable
    if found is None:
        return {**data, "verdict": "no layout", "problem": str(problem)}
    return {
        **data,
        "verdict": found.verdict,
        "layout": found.layout.__dict__,
        "layout_text": describe(found.job, found.layout),
        "device_bytes": found.device_bytes,
        "device_band_bytes": found.device_band,
        "moments": [
            {"name": moment.name, "stage": moment.stage, "bytes": moment.device, "terms": terms_data(moment.terms)}
            for moment in found.moments
        ],
        "host_bytes": found.host_bytes,
        "host": terms_data(found.host),
        "speed": speed_data(_speed(need, found, constants)),
    }

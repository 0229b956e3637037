"""llmhw-provision compare"""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import click

from llmhw_provision.catalogue.loader import Gpu, MachineKind, find, names
from llmhw_provision.cli.size_layouts import heading
from llmhw_provision.cli.trust import data as trust_data
from llmhw_provision.cli.trust import doubts, notes
from llmhw_provision.cli.workload_options import job_options, machine_hardware, read_need
from llmhw_provision.documents import check, read
from llmhw_provision.errors import InputError
from llmhw_provision.site import Prices, Site
from llmhw_provision.sizing.cards import card_of
from llmhw_provision.sizing.compare import Candidate, Choice, compare
from llmhw_provision.sizing.estimate import Hardware
from llmhw_provision.sizing.layout import describe
from llmhw_provision.sizing.need import Need
from llmhw_provision.units import memory
from llmhw_provision.workload import Parallel

_TABLES = ("machines", "tiers", "gpus")
_SWITCHED, _BARE = 8, 4  # GPUs of a host where only the GPU is named: one NVSwitch board, four PCIe slots


@click.command("compare")
@job_options
@click.option(
    "--over", "over", multiple=True, metavar="NAME", help="Machine, tier or GPU; default all machines, tiers."
)
@click.option("--nodes", type=click.IntRange(1, 4096), default=64, show_default=True, help="Most machines of one kind.")
@click.option("--price", "prices", multiple=True, metavar="NAME=AMOUNT", help="Price of one machine; never invented.")
@click.option("--currency", help="Currency of --price, three letters.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(
    folder: Path | None,
    over: tuple[str, ...],
    nodes: int,
    prices: tuple[str, ...],
    currency: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """A workload over machines and tiers: on how few GPUs it fits, then what that draws. Offloads only when asked."""
    need = _without_offload(read_need(folder, options))
    known = _prices(folder, prices, currency)
    candidates = tuple(_candidate(name) for name in over or (*names("machines"), *names("tiers")))
    found = compare(need, candidates, most_hosts=nodes)
    kinds = tuple(find(table, name, MachineKind) for table in _TABLES[:2] for name in names(table))
    used = tuple(kind for kind in kinds if any(kind.title == item.title for item in candidates))
    doubted = doubts(need.workload.model, used, [item.hardware for item in candidates])
    if as_json:
        click.echo(_json(need, found, known, trust_data(doubted)))
    else:
        click.echo("\n".join([*_screen(need, found, known), *notes(doubted)]))


def _without_offload(need: Need) -> Need:
    """What is left out is chosen without offloading: fewer GPUs at a fraction of the speed are no bargain."""
    if not need.job.trains or need.workload.layout.offload is not None:
        return need
    layout = Parallel.model_validate({**need.workload.layout.model_dump(exclude_unset=True), "offload": "none"})
    return Need(**{**need.__dict__, "workload": need.workload.model_copy(update={"layout": layout})})


def _candidate(name: str) -> Candidate:
    """The machine, tier or GPU called `name`; raises InputError naming the nearest."""
    for table in ("machines", "tiers"):
        if name in names(table):
            kind = find(table, name, MachineKind)
            return Candidate(name, kind.title, machine_hardware(kind))
    if name in names("gpus"):
        gpu = find("gpus", name, Gpu)
        count = _SWITCHED if gpu.nvswitch else _BARE
        return Candidate(name, gpu.title, Hardware(card_of(gpu, name), count))
    raise InputError(f"{name[:60]!r} is no machine, tier or GPU of the catalogue", _nearest(name))


def _nearest(name: str) -> str:
    every = [known for table in _TABLES for known in names(table)]
    near = difflib.get_close_matches(name.lower(), every, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(every)}"


def _prices(folder: Path | None, given: tuple[str, ...], currency: str | None) -> Prices | None:
    """Prices of site.yaml, those of the options before them; raises InputError, UsageError."""
    path = folder / "site.yaml" if folder is not None else None
    site = read(path, Site).prices if path is not None and path.exists() else None
    if bool(given) != (currency is not None) and not (given and site):
        raise click.UsageError("--price and --currency go together")
    each = dict(site.each) if site else {}
    for text in given:
        name, _, amount = text.partition("=")
        if not amount.isascii() or not amount.isdigit():
            raise InputError(f"--price {text[:60]!r} is no price", "write for example --price alphapro660=250000")
        each[name] = int(amount)
    if not each:
        return None
    unknown = [name for name in each if not any(name in names(table) for table in _TABLES)]
    if unknown:
        raise InputError(f"price of {unknown[0][:60]!r}: not in the catalogue", _nearest(unknown[0]))
    if site and currency not in (None, site.currency):
        raise InputError(f"--currency {currency} contradicts {site.currency} in site.yaml")
    return check({"currency": currency or (site.currency if site else ""), "each": each}, Prices, path=Path("prices"))


def _price(item: Choice, prices: Prices | None) -> int | None:
    if prices is None or item.candidate.name not in prices.each or not item.fits:
        return None
    each = prices.each[item.candidate.name]
    return each * (item.gpus if item.candidate.name in names("gpus") else item.hosts)


def _screen(need: Need, found: tuple[Choice, ...], prices: Prices | None) -> list[str]:
    width = max(len(item.candidate.title) for item in found)
    head = f"  {'':<{width}}  {'GPUs':>12}  {'needs per GPU':>16}  {'card':>9}  {'power':>9}  {'tokens/s':>10}"
    head += f"  {prices.currency:>12}" if prices else ""
    lines = [heading(need), "", head]
    for item in found:
        price = _price(item, prices)
        cost = f"  {f'{price:,}' if price is not None else '–':>12}" if prices else ""
        lines.append(f"  {item.candidate.title:<{width}}  {_row(item)}{cost}  {_words(item)}".rstrip())
    lines += ["", "fewest GPUs first, then power of the whole machines at the wall; nothing offloaded unless --offload"]
    if prices is None:
        lines.append("prices: none known; name yours under prices in site.yaml or with --price")
    return lines


def _row(item: Choice) -> str:
    card = memory(item.candidate.hardware.card.usable)
    if item.found is None:
        return f"{'–':>12}  {'–':>16}  {card:>9}  {'–':>9}  {'–':>10}"
    found = item.found
    need = f"{memory(found.device_bytes)} ±{100 * found.device_band / found.device_bytes:.0f} %"
    if not item.fits:
        return f"{'–':>12}  {need:>16}  {card:>9}  {'–':>9}  {'–':>10}"
    have = item.hosts * item.candidate.hardware.gpus
    count = f"{item.gpus:,} of {have:,}"
    rate = f"{item.tokens_per_second:,.0f}" if item.tokens_per_second else "–"
    return f"{count:>12}  {need:>16}  {card:>9}  {item.watts / 1000:>6.1f} kW  {rate:>10}"


def _words(item: Choice) -> str:
    if item.found is None:
        return f"no layout: {item.problem}"
    if not item.fits:
        count = item.found.hardware.all_gpus
        return f"does not fit on {count:,}" if count > 1 else "does not fit"
    hosts = f"{item.hosts} machines, " if item.hosts > 1 else ""
    return f"{hosts}{describe(item.found.job, item.found.layout)}" + _tight(item)


def _tight(item: Choice) -> str:
    if item.found is not None and item.found.verdict == "tight":
        return ", tight"
    return f" (tight on {item.tight_on:,})" if item.tight_on else ""


def _json(need: Need, found: tuple[Choice, ...], prices: Prices | None, doubted: list[dict[str, Any]]) -> str:
    rows = []
    for item in found:
        row: dict[str, Any] = {"name": item.candidate.name, "title": item.candidate.title}
        row["verdict"] = item.found.verdict if item.found else "no layout"
        if item.found is None:
            rows.append({**row, "problem": item.problem})
            continue
        row |= {"device_bytes": item.found.device_bytes, "device_band_bytes": item.found.device_band}
        row |= {"usable_bytes": item.found.hardware.card.usable}
        if item.fits:
            row |= {
                "gpus": item.gpus,
                "tight_on_gpus": item.tight_on or None,
                "machines": item.hosts,
                "watts": item.watts,
            }
            row |= {"tokens_per_second": item.tokens_per_second, "layout": item.found.layout.__dict__}
            row |= {"layout_text": describe(item.found.job, item.found.layout), "price": _price(item, prices)}
        rows.append(row)
    head = {"model": need.model.title, "workload": need.workload.model_dump(mode="json", by_alias=True)}
    data = {**head, "currency": prices.currency if prices else None, "rows": rows, "doubts": doubted}
    return json.dumps(data, indent=2, ensure_ascii=False)

"""The ranked layouts of `size --layouts` and the answer of `size --why`, as text and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from llmhw_provision.cli.speed_text import duration
from llmhw_provision.documents import check
from llmhw_provision.errors import InputError
from llmhw_provision.sizing.estimate import Hardware
from llmhw_provision.sizing.layout import ALIKE, Found, Ranked, describe, search
from llmhw_provision.sizing.legal import Space
from llmhw_provision.sizing.need import Need
from llmhw_provision.sizing.why import Answer, why
from llmhw_provision.units import memory
from llmhw_provision.workload import Parallel

_EXAMPLE = "write for example --why tp=2,pp=1,recompute=full"
_FEW = 3  # differences that are named


def parse_layout(text: str) -> Parallel:
    """`tp=2,pp=1` as the layout of a workload; raises InputError naming what is wrong."""
    data: dict[str, object] = {}
    for item in text.split(","):
        name, equals, value = (word.strip() for word in item.partition("="))
        name = name.replace("-", "_")
        if not equals or not value or name in data:
            raise InputError(f"--why: {item.strip()[:60]!r} is not one NAME=VALUE", _EXAMPLE)
        if name == "dp":
            raise InputError(
                "--why: dp follows from the other numbers", "it is the GPUs / (tp × pp × cp); name those instead"
            )
        number = value.lstrip("-").isdecimal()
        data[name] = int(value) if number else {"yes": True, "no": False}.get(value, value)
    return check(data, Parallel, path=Path("--why"))


def layouts(need: Need, machines: list[tuple[str, Hardware]], count: int) -> list[tuple[str, Found | InputError]]:
    """The best layouts on each machine, or why there is none; raises InputError when no machine has any."""
    rows = [(title, _found(need, machine, count)) for title, machine in machines]
    _some_of([found for _, found in rows])
    return rows


def answers(need: Need, machines: list[tuple[str, Hardware]], asked: Parallel) -> list[tuple[str, Answer | InputError]]:
    """Why the asked layout is not chosen on each machine; raises InputError when no machine has any layout."""
    rows: list[tuple[str, Answer | InputError]] = []
    for title, machine in machines:
        try:
            rows.append((title, why(_space(need, machine), asked)))
        except InputError as error:
            rows.append((title, error))
    _some_of([found for _, found in rows])
    return rows


def _some_of(found: list[Any]) -> None:
    if all(isinstance(item, InputError) for item in found):
        raise found[0]


def _space(need: Need, machine: Hardware) -> Space:
    return Space(need.job, need.model, machine, need.workload.layout, need.workload.batch)


def _found(need: Need, machine: Hardware, count: int) -> Found | InputError:
    try:
        return search(_space(need, machine), count)
    except InputError as error:
        return error


def table(title: str, found: Found | InputError) -> list[str]:
    """The lines of one machine."""
    if isinstance(found, InputError):
        return [f"{title}: no layout: {found}"]
    kind = found.ranked[0].estimate.job.kind
    what = {"serve": "token", "ppo": "training phase", "grpo": "training phase"}.get(kind, "step")
    count = f"best {len(found.ranked)} of {found.legal:,} layouts"
    lines = [f"{title}: {count}, by time of a {what} in steps of {100 * ALIKE:.0f} %, then simplicity"]
    return [*lines, *(f"  {place:>3}  {_line(item)}" for place, item in enumerate(found.ranked, 1))]


def _line(item: Ranked) -> str:
    found = item.estimate
    size = f"{memory(found.device_bytes)} ±{100 * found.device_band / found.device_bytes:.0f} %"
    count = f" × {item.layout.micro_batches}" if found.job.trains else ""
    return f"{_time(item):>22}  {size:>14}  {found.verdict:<12}  {describe(found.job, item.layout)}{count}"


def _time(item: Ranked) -> str:
    if not item.seconds:
        return "–"
    found = item.estimate
    if found.job.trains:
        return duration(item.seconds)
    return f"{duration(item.seconds)}, {found.job.concurrency * item.layout.dp / item.seconds:,.0f} tokens/s"


def explanation(title: str, answer: Answer | InputError) -> list[str]:
    """The lines of one machine."""
    if isinstance(answer, InputError):
        return [f"{title}: no layout: {answer}"]
    best = "least " if answer.chosen.estimate.verdict == "does not fit" else "chosen"
    lines = [f"{title}: {answer.reason}", f"  {best}  {_line(answer.chosen)}"]
    if answer.asked is None:
        return lines
    lines.append(f"  asked   {_line(answer.asked)}")
    lines += [f"  not looked at unless asked for: {rule}" for rule in answer.rules]
    if answer.seconds and answer.asked.seconds:
        more = ", ".join(f"{name} {_signed(duration(abs(by)), by)}" for name, by in answer.seconds[:_FEW])
        total = answer.asked.seconds - answer.chosen.seconds
        lines.append(f"  time    {_signed(duration(abs(total)), total)}: {more}")
    if answer.bytes:
        more = ", ".join(f"{name} {_signed(memory(int(abs(by))), by)}" for name, by in answer.bytes[:_FEW])
        total = answer.asked.estimate.device_bytes - answer.chosen.estimate.device_bytes
        lines.append(f"  memory  {_signed(memory(abs(total)), total)}: {more}")
    return lines


def _signed(text: str, value: float) -> str:
    return f"{'-' if value < 0 else '+'}{text}"


def layout_data(item: Ranked) -> dict[str, Any]:
    """One layout as JSON."""
    found = item.estimate
    return {
        "layout": item.layout.__dict__,
        "layout_text": describe(found.job, item.layout),
        "seconds": item.seconds or None,
        "device_bytes": found.device_bytes,
        "device_band_bytes": found.device_band,
        "verdict": found.verdict,
    }


def table_data(title: str, found: Found | InputError) -> dict[str, Any]:
    """The ranked layouts of one machine as JSON."""
    if isinstance(found, InputError):
        return {"machine": title, "problem": str(found)}
    return {"machine": title, "legal": found.legal, "layouts": [layout_data(item) for item in found.ranked]}


def answer_data(title: str, answer: Answer | InputError) -> dict[str, Any]:
    """The answer of one machine as JSON."""
    if isinstance(answer, InputError):
        return {"machine": title, "problem": str(answer)}
    return {
        "machine": title,
        "reason": answer.reason,
        "rules": list(answer.rules),
        "chosen": layout_data(answer.chosen),
        "asked": layout_data(answer.asked) if answer.asked else None,
        "seconds": dict(answer.seconds),
        "bytes": dict(answer.bytes),
    }

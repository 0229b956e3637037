"""What `size` prints: its first line, the ranked layouts, one layout asked about, several jobs on one machine."""

from __future__ import annotations

import json

from llmhw_provision.cli import layout_text, placement_text
from llmhw_provision.sizing.estimate import Hardware
from llmhw_provision.sizing.need import Need

Machines = list[tuple[str, Hardware]]


def heading(need: Need) -> str:
    """Model and job in one line."""
    job, load = need.job, need.workload
    parts = [need.model.title, f"{need.model.parameters / 1e9:.1f}B parameters", job.kind]
    if job.trains:
        parts.append(job.method if job.method == "full" else f"{job.method} r={job.rank}")
        parts += [job.scheme if job.method == "full" else job.weights, f"{job.sequence:,} tokens × {load.batch:,}"]
    else:
        parts += [job.weights, f"{job.concurrency:,} requests of {job.context:,} tokens", f"KV {job.kv}"]
    return " · ".join(parts)


def where(title: str, machine: Hardware) -> str:
    """The machine and its GPUs in a few words."""
    hosts = f"{machine.nodes} × " if machine.nodes > 1 else ""
    return f"{title} {hosts}{machine.gpus}×"


def placed(need: Need, machines: Machines, head: str, *, as_json: bool) -> str:
    """Each group of GPUs of a placement with its memory, per machine, under the line `head`; or the same as JSON."""
    rows = placement_text.placements(need, [(where(title, machine), machine) for title, machine in machines])
    if as_json:
        data = {"machines": [placement_text.placed_data(*row) for row in rows]}
        return json.dumps(data, indent=2, ensure_ascii=False)
    return "\n\n".join([head, *("\n".join(placement_text.lines(*row)) for row in rows)])


def layouts(need: Need, machines: Machines, head: str, count: int | None, asked: str | None, *, as_json: bool) -> str:
    """The best `count` layouts, and why `asked` is not chosen, under the line `head`; or the same as JSON."""
    named = [(where(title, machine), machine) for title, machine in machines]
    ranked = layout_text.layouts(need, named, count) if count else []
    answers = layout_text.answers(need, named, layout_text.parse_layout(asked)) if asked else []
    if as_json:
        data = {
            "layouts": [layout_text.table_data(*row) for row in ranked],
            "why": [layout_text.answer_data(*row) for row in answers],
        }
        return json.dumps(data, indent=2, ensure_ascii=False)
    blocks = [layout_text.table(*row) for row in ranked] + [layout_text.explanation(*row) for row in answers]
    return "\n\n".join([head, *("\n".join(block) for block in blocks)])

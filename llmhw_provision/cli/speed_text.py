"""Speed, checkpoints and power in words and as JSON: shared by `size` and `explain`."""

from __future__ import annotations

import math
from typing import Any

from llmhw_provision.sizing.checkpoint import DALY, GPU_HOURS_PER_FAILURE, Saving
from llmhw_provision.sizing.efficiency import band, record
from llmhw_provision.sizing.flops import CONVENTIONS
from llmhw_provision.sizing.network import PORT
from llmhw_provision.sizing.power import PUE, kilowatt_hours
from llmhw_provision.sizing.speed import CORES, Speed
from llmhw_provision.sizing.step import Part
from llmhw_provision.units import disk


def _percent(kind: str) -> int:
    return math.ceil(100 * band(kind))


def duration(seconds: float) -> str:
    """Seconds in the unit that reads best, three digits."""
    for size, unit in ((86_400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if seconds >= 2 * size or (unit == "s" and seconds >= 1):
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1000:.3g} ms"


def summary(of: Speed) -> list[str]:
    """The lines of `size`."""
    lines = []
    if of.step is not None:
        step = of.step
        lines.append(
            f"about {step.tokens_per_second:,.0f} tokens/s ±{_percent('train')} % "
            f"({step.per_gpu:,.0f} per GPU, MFU {step.mfu:.2f} by {step.convention}) · step {duration(step.seconds)}"
            + (
                f" · links {step.moved / 1e9:.3g} GB/s per GPU, {step.exposed:.0%} of the step waits"
                if step.moved
                else ""
            )
        )
    elif of.served is not None:
        served = of.served
        lines.append(
            f"about {served.tokens_per_second:,.0f} tokens/s ±{_percent('decode')} % "
            f"of {served.batch * served.replicas:,} requests · {duration(served.token_seconds)} per token · "
            f"first token after {duration(served.first_seconds)} (prompt of {served.prompt:,} tokens, no queue)"
        )
    else:
        lines.append("speed: not predicted for jobs that generate and train in turn")
    kept = [_saved(of.saving)] if of.saving is not None else []
    kept += [f"reads {of.read / 1e6:.3g} MB/s of tokens"] if of.read else []
    lines.append(" · ".join([*kept, _cores(of)]))
    lines.append(_drawn(of))
    if of.hosts > 1 and not of.connected:
        rate = 8 * PORT[of.chip.pcie] / 1e9
        lines.append(f"note: no adapter between the hosts is known; counted with one port of {rate:.0f} Gbit/s per GPU")
    return lines


def _saved(of: Saving) -> str:
    return f"checkpoint {disk(of.size)} every {duration(of.interval)}, written in {duration(of.seconds)}"


def _cores(of: Speed) -> str:
    return f"{of.cores} CPU cores" + (f" of {of.cores_there}" if of.cores_there else "")


def _drawn(of: Speed) -> str:
    hosts = f"{of.hosts} × " if of.hosts > 1 else ""
    text = f"{hosts}{of.power.host / 1000:.1f} kW at the wall ({of.power.gpus / 1000:.1f} kW GPUs)"
    if of.tokens_per_second:
        energy = kilowatt_hours(of.power.host * of.hosts, 1e9 / of.tokens_per_second)
        text += f", {energy:,.0f} kWh per billion tokens"
    return text


def explained(of: Speed) -> list[str]:
    """The lines of `explain`."""
    lines = []
    if of.step is not None:
        step = of.step
        lines.append(f"  step: {duration(step.seconds)} for {step.tokens:,} tokens")
        lines += [_part(part) for part in step.parts]
        lines.append(
            f"    {step.per_gpu:,.1f} tokens/s per GPU × {step.model_flops / 1e9:,.2f} GFLOP "
            f"/ {step.top / 1e12:,.0f} TFLOP/s = MFU {step.mfu:.3f}"
        )
        lines.append(f"{'':50}{step.convention}: {CONVENTIONS[step.convention]}; recomputation not counted")
    if of.served is not None:
        lines.append(f"  token: {duration(of.served.token_seconds)} for {of.served.batch:,} requests of one replica")
        lines += [_part(part) for part in of.served.token]
        lines.append(f"  first token: {duration(of.served.first_seconds)} for a prompt of {of.served.prompt:,} tokens")
        lines += [_part(part) for part in of.served.first]
    if of.saving is not None:
        saving = of.saving
        lines.append(f"  checkpoint: {duration(saving.seconds)} = {disk(saving.size)} / {saving.rate / 1e9:,.2f} GB/s")
        lines.append(
            f"    every {duration(saving.interval)}: a failure every {duration(saving.between_failures)} "
            f"({GPU_HOURS_PER_FAILURE:,.0f} GPU hours); {100 * saving.lost:.2g} % of the time is lost"
        )
        lines.append(f"{'':50}{DALY}; Llama 3, arXiv 2407.21783, section 3.3.4")
    lines.append(f"  CPU: {_cores(of)}; {CORES}")
    lines.append(f"  power: {of.power.host:,} W per host = {of.power.formula}")
    lines.append(f"{'':50}{of.power.source}; with cooling of the building × {float(PUE):.1f}")
    lines.append(f"  speeds: {_errors()}")
    return lines


def _errors() -> str:
    found = record()
    return f"{found['source']}; {found['method']} within ±{_percent('train')} % ({found['date']})"


def _part(part: Part) -> str:
    return f"    {part.name:<32}{duration(part.seconds):>12}   {part.formula}\n{'':50}{part.source}"


def data(of: Speed | None) -> dict[str, Any] | None:
    """Speed as JSON, in SI units."""
    if of is None:
        return None
    found: dict[str, Any] = {"tokens_per_second": of.tokens_per_second}
    if of.step is not None:
        found |= {
            "step_seconds": of.step.seconds,
            "tokens_per_second_per_gpu": of.step.per_gpu,
            "mfu": of.step.mfu,
            "mfu_convention": of.step.convention,
            "link_bytes_per_second_per_gpu": of.step.moved,
            "link_wait_share": of.step.exposed,
            "parts": _parts(of.step.parts),
            "band": band("train"),
        }
    if of.served is not None:
        found |= {
            "first_token_seconds": of.served.first_seconds,
            "first_token_prompt": of.served.prompt,
            "token_seconds": of.served.token_seconds,
            "requests": of.served.batch * of.served.replicas,
            "parts": _parts(of.served.token),
            "first_token_parts": _parts(of.served.first),
            "band": band("decode"),
        }
    if of.saving is not None:
        found["checkpoint"] = {
            "bytes": of.saving.size,
            "write_seconds": of.saving.seconds,
            "interval_seconds": of.saving.interval,
            "between_failures_seconds": of.saving.between_failures,
        }
    found["read_bytes_per_second"] = of.read
    found["cpu_cores"] = of.cores
    found["power"] = {"gpus_watts": of.power.gpus, "host_watts": of.power.host, "formula": of.power.formula}
    return found


def _parts(parts: tuple[Part, ...]) -> list[dict[str, Any]]:
    return [
        {"name": part.name, "seconds": part.seconds, "formula": part.formula, "source": part.source} for part in parts
    ]

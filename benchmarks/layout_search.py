"""The search of layouts for Llama 3.1 405B: seconds and memory from 8 to 4,096 GPUs, beside llm-analysis.

Each search runs in a process of its own, whose peak memory is read at its end. llm-analysis has no search: it is given
as many layouts as the search had to choose from, with the nearest options it has (context-parallel ranks count as
data-parallel ones). Its Python is given by path, with llm-analysis 0.2.2 installed there:

    python -m benchmarks.layout_search --peer-python PYTHON --date DATE --page docs/measurements/layout_search.md
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llmhw_provision.catalogue.loader import Gpu, find
from llmhw_provision.sizing.cards import card_of
from llmhw_provision.sizing.compute import training_step
from llmhw_provision.sizing.estimate import Hardware, estimate
from llmhw_provision.sizing.job import Job, Layout
from llmhw_provision.sizing.layout import describe, search
from llmhw_provision.sizing.legal import Space
from llmhw_provision.sizing.models import resolve_model
from llmhw_provision.sizing.speed import links_of
from llmhw_provision.units import GIB

COUNTS = (8, 64, 512, 1024, 4096)
MEASURED = 1024
SEQUENCE = 8192
LIMIT_S, LIMIT_MB = 1.0, 300
RUNS = 5
NIC_RATE = 50 * 10**9
HOST, MEMORY = 8, 2048 * GIB
PEER = Path(__file__).with_name("layout_search_peer.py")


def space(gpus: int) -> Space:
    """405B in full on hosts of eight H100 with a port each; two samples of 8,192 tokens per GPU and step."""
    card = card_of(find("gpus", "h100-sxm", Gpu), "h100-sxm")
    hardware = Hardware(card, HOST, gpus // HOST, MEMORY, nics=HOST, nic_rate=NIC_RATE)
    job = Job(kind="pretrain", sequence=SEQUENCE)
    return Space(job, resolve_model("llama-3.1-405b"), hardware, batch=2 * gpus)


def layouts(of: Space) -> list[Layout]:
    """Every legal layout."""
    return [layout for frame in of.frames() for layout in of.filled(frame)]


def one(gpus: int) -> dict[str, Any]:
    """One search in this process."""
    of = space(gpus)
    start = time.perf_counter()
    found = search(of, 10)
    seconds = time.perf_counter() - start
    best = found.ranked[0]
    return {
        "seconds": seconds,
        "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "legal": found.legal,
        "estimated": found.estimated,
        "verdict": best.estimate.verdict,
        "layout": describe(best.estimate.job, best.layout),
        "step": best.seconds,
    }


def whole(gpus: int) -> dict[str, Any]:
    """Every legal layout with memory and time in full, nothing pruned and nothing shared."""
    of = space(gpus)
    assert of.chip is not None
    tried = layouts(of)
    links = links_of(of.hardware, of.chip)
    start = time.perf_counter()
    for layout in tried:
        estimate(of.job, of.model, of.hardware, layout)
        training_step(of.model, of.job, layout, links)
    return {"seconds": time.perf_counter() - start, "layouts": len(tried)}


def child(*arguments: str) -> dict[str, Any]:
    """What a process of its own measured."""
    command = [sys.executable, "-m", "benchmarks.layout_search", *arguments]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


def peer(python: Path, gpus: int) -> dict[str, Any]:
    """llm-analysis on as many layouts."""
    of = space(gpus)
    model = of.model
    asked = {
        "model": {
            "name": "llama-3.1-405b",
            "num_layers": model.layers,
            "n_head": model.heads,
            "hidden_dim": model.hidden,
            "vocab_size": model.vocab,
            "max_seq_len": SEQUENCE,
            "num_key_value_heads": model.kv_heads,
            "ffn_embed_dim": model.ffn,
            "expansion_ratio": model.ffn / model.hidden,
            "model_type": "llama",
        },
        "gpu": "h100-sxm-80gb",
        "seq_len": SEQUENCE,
        "layouts": [
            [item.tp, item.pp, item.dp * item.cp, item.zero, item.recompute, item.micro_batch, item.micro_batches]
            for item in layouts(of)
        ],
    }
    done = subprocess.run([str(python), str(PEER)], input=json.dumps(asked).encode(), capture_output=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure() -> list[tuple[int, list[dict[str, Any]]]]:
    """Each number of GPUs several times in turn, so that a busy moment hits all of them."""
    taken: dict[int, list[dict[str, Any]]] = {gpus: [] for gpus in COUNTS}
    for _ in range(RUNS):
        for gpus in COUNTS:
            taken[gpus].append(child("one", str(gpus)))
    return list(taken.items())


def row(gpus: int, runs: Sequence[dict[str, Any]]) -> str:
    """One line of the table."""
    seconds, first = [run["seconds"] for run in runs], runs[0]
    best = f"{first['layout']}: {first['step']:.1f} s" if first["verdict"] != "does not fit" else "does not fit"
    counted = f"{gpus:,} | {first['legal']:,} | {first['estimated']:,}"
    timed = f"{min(seconds):.3f} | {statistics.median(seconds):.3f} | {max(seconds):.3f}"
    return f"| {counted} | {timed} | {max(run['mb'] for run in runs):.0f} | {best} |"


def page(date: str, machine: str, python: Path | None) -> tuple[str, bool]:
    """The page, and whether the limits hold."""
    measured = measure()
    runs = dict(measured)[MEASURED]
    seconds, size = statistics.median(run["seconds"] for run in runs), max(run["mb"] for run in runs)
    lines = [
        "# Search of layouts",
        "",
        f"Measured {date} on {machine}, with",
        "",
        "    python -m benchmarks.layout_search --peer-python PYTHON --date DATE --page THIS_FILE",
        "",
        f"Llama 3.1 405B in full, bf16, Adam, {SEQUENCE:,} tokens per sample, two samples per GPU and step; hosts of",
        "2 TiB with eight H100 80GB SXM5 and a 400 Gbit/s port each; the ten best layouts are asked for. Every search",
        f"runs in a process of its own, {RUNS} times in turn; seconds are of the search alone, memory is the peak",
        "of the process.",
        "",
        "| GPUs | legal layouts | estimated in full | min s | median s | max s | peak MB | best |",
        "|---|---|---|---|---|---|---|---|",
        *(row(gpus, taken) for gpus, taken in measured),
        "",
        f"{MEASURED:,} GPUs: median {seconds:.3f} s (limit {LIMIT_S:g} s), {size:.0f} MB (limit {LIMIT_MB} MB).",
        "",
        "Where nothing fits, the layout that needs least is looked for too.",
        "",
    ]
    every = child("whole", str(MEASURED))
    lines += [
        f"Estimating each of the {every['layouts']:,} layouts of {MEASURED:,} GPUs in full, without the bound and",
        f"with nothing shared: {every['seconds']:.2f} s. `tests/unit/test_sizing_layout.py` holds small searches",
        "against such runs.",
        "",
    ]
    if python is not None:
        lines += beside(peer(python, MEASURED), seconds)
    return "\n".join(lines), seconds <= LIMIT_S and size <= LIMIT_MB


def beside(found: dict[str, Any], seconds: float) -> list[str]:
    """The paragraph on llm-analysis."""
    lines = [
        "## Beside llm-analysis",
        "",
        f"llm-analysis {found['version']} (PyPI, log messages off) has no search: it was given every legal layout of",
        f"{MEASURED:,} GPUs. It refuses what exceeds the card before it looks at time, so a second run has a card that",
        "holds everything.",
        "",
        "| card | evaluated | refused | s | search above |",
        "|---|---|---|---|---|",
    ]
    for run in found["runs"]:
        counts = f"{run['evaluated']:,} | {run['refused']:,}"
        share = f"{run['seconds'] / seconds:.1f} times faster"
        lines.append(f"| {run['memory_gb']:,} GB | {counts} | {run['seconds']:.2f} | {share} |")
    return [
        *lines,
        "",
        "It evaluates only: no ranking, no context parallelism (those ranks were given as data-parallel ones),",
        "selective recomputation of scores in the place of operator checkpointing; its memory has no communicators,",
        "fragmentation, buffers of the loss or error bands.",
        "",
    ]


def main(arguments: Sequence[str]) -> int:
    """Prints or writes the page; exit 1 when a limit is exceeded."""
    if arguments and arguments[0] in ("one", "whole"):
        print(json.dumps({"one": one, "whole": whole}[arguments[0]](int(arguments[1]))))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer-python", type=Path)
    parser.add_argument("--date", required=True)
    parser.add_argument("--machine", default="2 cores")
    parser.add_argument("--page", type=Path)
    given = parser.parse_args(arguments)
    text, good = page(given.date, given.machine, given.peer_python)
    if given.page:
        given.page.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

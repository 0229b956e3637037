"""Measures what the request asks for, each part in processes of its own, and writes one JSON document."""

from __future__ import annotations

import json
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from . import formulas
from .children import together

FORMAT = 1
_ENV = {
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # so that indices are those of nvidia-smi
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # without it products are not repeatable
    "OMP_NUM_THREADS": "1",
}
_FREE = 0.9  # of a GPU's memory must be free


def main(words: list[str]) -> int:
    """`RESULT REQUEST` measures; `--stage REQUEST OUT` is one of its processes."""
    if words[0] == "--stage":
        from . import stage

        stage.run(json.loads(words[1]), Path(words[2]))
        return 0
    result, request = Path(words[0]), json.loads(words[1])
    found = measure(request, result.with_suffix(".step"))
    half = result.with_suffix(".half")
    half.write_text(json.dumps(found) + "\n", encoding="utf-8")
    half.replace(result)
    return 1 if found["errors"] else 0


def measure(request: dict[str, Any], steps: Path) -> dict[str, Any]:
    """The document; a part that fails is a line in `errors`, and the other parts are measured all the same.

    Without `copy` in the request only collectives are measured.
    """
    found: dict[str, Any] = {
        "format": FORMAT,
        "device": request["device"],
        "began": _now(),
        **{name: [] for name in ("gpus", "copies", "products", "sums", "pairs", "collectives", "errors")},
    }
    with tempfile.TemporaryDirectory() as name:
        part = _Part(request, Path(name), steps, found)
        if _surveyed(part):
            gpus = len(found["gpus"])
            for index in range(gpus if "copy" in request else 0):
                part.alone(f"GPU{index}", {"stage": "gpu", "gpu": index})
            if gpus > 1 and request["device"] == "cuda" and "copy" in request:
                part.alone("pairs", {"stage": "pairs", "gpus": gpus})
            for run in request["runs"]:
                if run["ranks"] > gpus:
                    found["errors"].append(f"run {run['label']}: {run['ranks']} ranks, but {gpus} GPUs")
                elif run["ranks"] > 1:
                    _collectives(part, run)
    return {**found, "ended": _now()}


class _Part:
    """Runs one part after the other, within the time that all have together."""

    def __init__(self, request: dict[str, Any], folder: Path, steps: Path, found: dict[str, Any]) -> None:
        self.request, self.folder, self.steps, self.found = request, folder, steps, found
        self.until = time.monotonic() + float(request["seconds"])

    def run(self, requests: dict[str, dict[str, Any]], env: dict[str, str]) -> list[list[dict[str, Any]]]:
        """What the processes said; why they ended early stands in `errors`."""
        names = ", ".join(requests) if len(requests) < 3 else f"{len(requests)} ranks"
        if time.monotonic() > self.until:
            self.found["errors"].append(f"{names}: not begun, the time for all measurements is over")
            return [[] for _ in requests]
        self.steps.write_text(f"{names}\n", encoding="utf-8")
        quiet = float(self.request["quiet_seconds"])
        said, why = together(requests, self.folder, env={**_ENV, **env}, quiet=quiet, until=self.until)
        if why:
            self.found["errors"].append(why)
        return said

    def alone(self, name: str, more: dict[str, Any]) -> list[dict[str, Any]]:
        """One process; its rows go into the document."""
        wanted = {key: value for key, value in self.request.items() if key != "runs"}
        said = self.run({name: {**wanted, **more}}, {})[0]
        for line in said:
            for key, room in (("copy", "copies"), ("product", "products"), ("sum", "sums"), ("pair", "pairs")):
                if key in line:
                    self.found[room].append(line[key])
        return said


def _surveyed(part: _Part) -> bool:
    """Whether there are devices, and nobody else uses them."""
    for line in part.alone("survey", {"stage": "survey"}):
        if "gpu" in line:
            part.found["gpus"].append(line["gpu"])
        else:
            part.found |= {key: value for key, value in line.items() if key in ("torch", "cuda", "nccl")}
    if not part.found["gpus"] and not part.found["errors"]:
        part.found["errors"].append("torch sees no GPU")
    for gpu in part.found["gpus"]:
        if "free_bytes" in gpu and gpu["free_bytes"] < gpu["memory_bytes"] * _FREE:
            taken, total = gpu["memory_bytes"] - gpu["free_bytes"], gpu["memory_bytes"]
            text = f"{taken / 2**30:.1f} of {total / 2**30:.1f} GiB are taken by others: nothing was measured"
            part.found["errors"].append(f"GPU{gpu['index']}: {text}")
    return not part.found["errors"]


def _collectives(part: _Part, run: dict[str, Any]) -> None:
    """The rows of one run, of what every rank has measured."""
    ranks, store = int(run["ranks"]), part.folder / f"store-{run['label']}"
    shared = {
        "stage": "rank",
        "device": part.request["device"],
        "store": str(store),
        "seconds": part.request["quiet_seconds"],
        **part.request["collective"],
        **{key: run[key] for key in ("ranks", "operations")},
    }
    said = part.run({f"rank {rank}": {**shared, "rank": rank} for rank in range(ranks)}, run["env"])
    rows = [[line["row"] for line in lines if "row" in line] for lines in said]
    for of_all in zip(*rows, strict=False):
        part.found["collectives"].append({"run": run["label"], "ranks": ranks, **joined(list(of_all), ranks)})


def joined(rows: list[dict[str, Any]], ranks: int) -> dict[str, Any]:
    """What the ranks measured as one row: time is the mean over ranks and runs, as nccl-tests has it by default."""
    first = rows[0]
    for reason in ("unsupported", "skipped"):
        said = [row[reason] for row in rows if reason in row]
        if said:
            return {"name": first["name"], "asked": first["asked"], reason: said[0]}
    seconds = {
        "min": min(row["seconds"]["min"] for row in rows),
        "avg": sum(row["each"] for row in rows) / len(rows),
        "max": max(row["seconds"]["max"] for row in rows),
    }
    kept = {key: first[key] for key in ("name", "asked", "bytes", "count", "in_place", "iterations")}
    return {
        **kept,
        "dtype": "float32",
        "wrong": sum(row["wrong"] for row in rows),
        "seconds": seconds,
        "algbw": formulas.algbw(first["bytes"], seconds["avg"]),
        "busbw": formulas.busbw(first["name"], first["bytes"], seconds["avg"], ranks),
    }


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: UP017 - CPython 3.10 on the host

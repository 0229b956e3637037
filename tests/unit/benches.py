"""Documents of the measurement as a healthy machine would give them, for the tests of what judges them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from llmhw_provision.checks import table
from llmhw_provision.checks.gpu_views import planned
from llmhw_provision.checks.throughput_request import request
from llmhw_provision.evidence import Evidence, Result
from llmhw_provision.expected import Expected, ExpectedGpus
from llmhw_provision.on_host.bench import formulas
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.plan.roles_python import EnvironmentConfig, PythonEnvConfig, UvProgram
from llmhw_provision.plan.thresholds import _of, _Parts
from llmhw_provision.probes.throughput import KEY
from tests.unit.recordings import host_plan

BOARD = ExpectedGpus(
    kind="h100-sxm",
    count=8,
    pci_ids=(),
    pcie_generation=5,
    nvlink="switch",
    links=18,
    links_per_pair=18,
    peer_access=True,
    driver="580.159.03",
)
SPEED = {"all_reduce": 478.0, "all_gather": 361.0, "reduce_scatter": 363.0, "all_to_all": 330.0}


def environment(cuda: str = "13.0") -> PythonEnvConfig:
    item = EnvironmentConfig(
        name="train",
        lock="train-hf",
        sha256="0" * 64,
        interpreter="3.12.16",
        cuda=cuda,
        build_after=(),
        imports=("torch", "transformers"),
        accepts=(),
        use="planned",
    )
    uv = UvProgram(version="0.13.9", wheel="uv.whl", sha256="0" * 64)
    return PythonEnvConfig(
        root="/opt/llmhw",
        store="/scratch/envs",
        cache="/scratch/uv",
        index="https://pypi.org/simple",
        uv=uv,
        interpreters=(),
        environments=(item,),
    )


def plan(gpus: ExpectedGpus = BOARD, *, cuda: str = "13.0", rehearsal: bool = False) -> HostPlan:
    """A host with these GPUs, all limits that concern them, and an environment with torch."""
    found = host_plan()
    return found.model_copy(
        update={
            "rehearsal": rehearsal,
            "expected": Expected(gpus=gpus),
            "roles": found.roles.model_copy(update={"python_env": environment(cuda)}),
            "thresholds": () if rehearsal else tuple(_of(_Parts(gpus, None, (), 0, None, 1))),
        }
    )


def row(run: str, name: str, ranks: int, asked: int, busbw: float) -> dict[str, Any]:
    """One collective at this speed."""
    seconds = asked / 1e9 * formulas.factor(name, ranks) / busbw
    return {
        "run": run,
        "name": name,
        "ranks": ranks,
        "asked": asked,
        "bytes": asked,
        "wrong": 0,
        "seconds": {"min": seconds, "avg": seconds, "max": seconds},
        "busbw": busbw,
    }


def healthy(host: HostPlan) -> dict[str, Any]:
    """What the request for this host would give on a healthy machine."""
    asked, gpus = request(host), range(planned(host).count)
    load = {"sm_mhz": 1755, "power_w": 690.0, "pcie_generation": 5}
    collectives = [
        row(run["label"], name, run["ranks"], nbytes, SPEED[name] if run["label"] == "all" else 366.0)
        for run in asked["runs"]
        for name, nbytes in run["operations"]
    ]
    speeds = {"host_to_device": 55.0, "device_to_host": 55.2, "own_memory": 2490.0}
    kinds = {("bf16", "fixed"): 730.0, ("bf16", "tuned"): 780.0, ("fp8", "tuned"): 1390.0}
    shape = [8192, 8192, 8192]
    return {
        "format": 1,
        "device": "cuda",
        "began": "2026-11-30T22:00:00Z",
        "torch": "2.14.0+cu130",
        "cuda": "13.0",
        "nccl": "2.30.7",
        "gpus": [{"index": gpu, "name": "NVIDIA H100 80GB HBM3"} for gpu in gpus],
        "collectives": collectives,
        "copies": [
            {"kind": kind, "gpu": gpu, "gbs": gbs + gpu / 100, "load": load}
            for kind, gbs in speeds.items()
            for gpu in gpus
        ],
        "pairs": [
            {"from": one, "to": two, "peer": True, "gbs": 375.0, "equal": True}
            | ({"both_gbs": 770.0} if one < two else {})
            for one in gpus
            for two in gpus
            if one != two
        ],
        "products": [
            {"gpu": gpu, "dtype": dtype, "kind": kind, "shape": shape, "tflops": tflops + gpu, "load": load}
            for (dtype, kind), tflops in kinds.items()
            for gpu in gpus
        ],
        "sums": [{"gpu": gpu, "sha256": "ab" * 32, "stable": True} for gpu in gpus],
        "errors": [],
    }


def evidence(document: dict[str, Any] | None, host: HostPlan | None = None) -> Evidence:
    """A reading that holds this document alone."""
    text = json.dumps(document).encode() + b"\n" if document is not None else b""
    result = Result(0 if document is not None else 1, text, b"there is no result of a measurement", 1.0, ("sh",))
    found = Evidence((host or plan()).name, "machine", {KEY: result})
    return replace(found, read_at="2026-11-30T22:10:00Z")


HOST = plan()


def judged(document: dict[str, Any] | None, host: HostPlan = HOST) -> dict[str, tuple[str, str, str]]:
    """Status, variant and what was found, by check and subject."""
    said = evidence(document, host)
    items = [item for item in table.items(host, "standard") if item.check.area == "throughput"]
    found = [table.judge(item, said) for item in items]
    return {f"{one.check} {one.subject}".strip(): (one.status, one.variant, one.found) for one in found}


def changed(edit: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The healthy document, edited."""
    document = copy.deepcopy(healthy(HOST))
    edit(document)
    return document


def setting(room: str, index: int, **values: Any) -> Callable[[dict[str, Any]], object]:
    """The edit that sets values of one row."""
    return lambda document: document[room][index].update(values)

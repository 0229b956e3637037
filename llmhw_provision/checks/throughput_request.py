"""What is measured on a host: nothing where nothing can be, else the sizes that the plan's limits speak of."""

from __future__ import annotations

import re
from typing import Any

from llmhw_provision.checks.gpu_views import gpus_of, planned
from llmhw_provision.on_host.bench import formulas
from llmhw_provision.plan.model import HostPlan, Threshold

# limit: which run, which collective
COLLECTIVES = {
    "nccl_tests.all_reduce_busbw": ("all", "all_reduce"),
    "nccl_tests.all_reduce_ring_busbw": ("ring", "all_reduce"),
    "nccl_tests.all_reduce_4_gpus_busbw": ("4_gpus", "all_reduce"),
    "nccl_tests.all_gather_busbw": ("all", "all_gather"),
    "nccl_tests.reduce_scatter_busbw": ("all", "reduce_scatter"),
}
_MIB, _GIB = 1 << 20, 1 << 30
_SWEEP = (64 * _MIB, _GIB)  # measured beside the judged size
_SIDE = 8192
# best shapes (m, n, k) that stas00/ml-engineering found on A100, H100, H200, B200 and GH200, and two plain ones
_BF16 = (
    *((1024, 10240, 5120), (2048, 2048, 13312), (1792, 16128, 3072), (4096, 9728, 2048), (2048, 5120, 6144)),
    *((16384, 8192, 1280), (4096, 4096, 4096), (_SIDE, _SIDE, _SIDE)),
)
_FP8 = ((1024, 9216, 14336), (1280, 4096, 12032), (15360, 4096, 3072), (3072, 6144, 7168), (_SIDE, _SIDE, _SIDE))
_SECONDS, _QUIET_S = 1500, 180


def with_bench(host: HostPlan) -> tuple[str, ...]:
    """One subject where GPUs, their driver and an environment with torch for them are planned; MIG is not measured."""
    gpus = gpus_of(host)
    can = gpus is not None and gpus.driver is not None and not gpus.mig and not host.rehearsal
    return ("",) if can and python_of(host) else ()


def python_of(host: HostPlan) -> str:
    """The interpreter of the first planned environment with torch for CUDA; empty when there is none."""
    config = host.roles.python_env
    for item in config.environments if config else ():
        if config and item.cuda and "torch" in item.imports:
            return f"{config.root}/envs/{item.name}/bin/python"
    return ""


def request(host: HostPlan) -> dict[str, Any]:
    """What the program on the host is asked for; GPUs are counted and sizes chosen here, not there."""
    runs = (_run(host, "all", {}), _run(host, "ring", {"NCCL_NVLS_ENABLE": "0"}), _run(host, "4_gpus", {}))
    return {
        "device": "cuda",
        "runs": [run for run in runs if run["operations"]] if planned(host).count > 1 else [],
        "seconds": _SECONDS,
        "quiet_seconds": _QUIET_S,
        "collective": {"warm": 5, "iterations": 20},
        "copy": {"bytes": 512 * _MIB, "iterations": 16},
        "product": {"warm": 50, "iterations": 100},
        "products": {
            "bf16": {"fixed": [[_SIDE] * 3], "tuned": [list(shape) for shape in _BF16]},
            "fp8": {"fixed": [], "tuned": [list(shape) for shape in _FP8]},
        },
        "sum": {"side": _SIDE, "rounds": 8, "repeats": 4},
    }


def _run(host: HostPlan, label: str, env: dict[str, str]) -> dict[str, Any]:
    """One start of the ranks: with all GPUs every collective, sizes below the judged one too; else what is judged."""
    limits = {item.metric: item for item in host.thresholds}
    sizes = {name: {*_SWEEP} if label == "all" else set() for name in formulas.COLLECTIVES}
    for metric, (run, name) in COLLECTIVES.items():
        if run == label and metric in limits:
            sizes[name].add(size_of(limits[metric]))
    operations = [[name, nbytes] for name, found in sizes.items() for nbytes in sorted(found)]
    return {
        "label": label,
        "ranks": 4 if label == "4_gpus" else planned(host).count,
        "env": env,
        "operations": operations,
    }


def size_of(limit: Threshold) -> int:
    """Bytes of the collective that a limit of the plan was measured with; its method names them."""
    named = re.search(r"\b(\d+) GiB\b", limit.method)
    return int(named[1]) * _GIB if named else _GIB

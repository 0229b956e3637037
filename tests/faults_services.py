"""Faults of services: units, DCGM, Slurm, serving engines, training environments."""

from __future__ import annotations

from tests.assembled import Assembled, h100, sample
from tests.fault import Fault, shown, told

_OURS = "written by us"


def _gone(key: str, error: str, rc: int = 1) -> Assembled:
    return h100().answered(key, "", _OURS, rc=rc, stderr=error)


def _renamed(text: str) -> str:
    return text.replace("node01", "gpu-node02")


SERVICE_FAULTS = (
    shown(
        "slurmd finds 7 of 8 GPUs",
        "slurm/show_node_7of8.txt",
        "slurm-nodes",
        {"slurm-node": ("gpus", "(7 < 8)")},
        edit=_renamed,
    ),
    shown(
        "GRES without files",
        "slurm/show_node_0of8_fileless.txt",
        "slurm-nodes",
        {"slurm-node": ("invalid", "INVALID_REG, 8 GPUs")},
        edit=_renamed,
    ),
    shown(
        "drained by a health check",
        "slurm/show_node_drain_nhc.txt",
        "slurm-nodes",
        {"slurm-node": ("gpus", "IDLE+DRAIN, 7 GPUs: NHC")},
        edit=_renamed,
    ),
    Fault(
        "node not known",
        _OURS,
        lambda: h100().edited("slurm-nodes", "NodeName=gpu-node02", "NodeName=gpu-node03"),
        {"slurm-node": ("unknown", "not known")},
    ),
    shown("slurmd -G finds 7", "slurm/slurmd_G_7.txt", "slurmd-gres", {"slurm-gres": ("", "7 GPUs")}),
    Fault(
        "slurmd waits for /dev/nvidia0",
        "slurm/slurmd_missing_dev.txt",
        lambda: _gone("slurmd-gres", sample("slurm/slurmd_missing_dev.txt")),
        {"slurm-gres": ("device", "/dev/nvidia0")},
    ),
    shown(
        "controller down",
        "slurm/scontrol_ping_down.txt",
        "scontrol-ping",
        {"slurm-controller": ("", "node01 is DOWN")},
        rc=1,
    ),
    Fault(
        "no configuration source",
        "slurm/sinfo_no_config.txt",
        lambda: _gone("scontrol-ping", sample("slurm/sinfo_no_config.txt").replace("sinfo:", "scontrol:")),
        {"slurm-controller": ("configuration", "configuration source")},
    ),
    Fault(
        "clocks apart",
        "slurm/slurmctld_munge_clock_skew.log, B076",
        lambda: told(h100(), "slurm-log", "slurm/slurmctld_munge_clock_skew.log"),
        {"slurm-log": ("clock", "clock skew")},
    ),
    Fault(
        "slurmd built without NVML",
        "B068",
        lambda: h100().answered(
            "slurm-log", "slurmd: fatal: We were configured to autodetect nvml functionality, but no lib found\n", _OURS
        ),
        {"slurm-log": ("autodetect", "autodetect")},
    ),
    Fault(
        "munge key copied, daemon not restarted",
        "slurm/munge_invalid_credential.txt, B077",
        lambda: _gone("munge", sample("slurm/munge_invalid_credential.txt"), 14),
        {"munge": ("key", "Invalid credential")},
    ),
    Fault(
        "a unit is not active",
        _OURS,
        lambda: h100().edited("service-units", r"(Id=slurmd(?:.*\n)+?ActiveState=)active", r"\1failed", count=1),
        {"service-unit": ("", "failed")},
    ),
    Fault(
        "DCGM's host engine down",
        _OURS,
        lambda: _gone("dcgm-health", "Error: unable to establish a connection to the specified host: localhost\n"),
        {"dcgm-health": ("engine", "host engine down")},
    ),
    Fault(
        "DCGM sees a failing GPU",
        _OURS,
        lambda: h100().edited("dcgm-health", "Healthy", "Failure"),
        {"dcgm-health": ("", "Failure")},
    ),
    shown(
        "diagnosis fails on two GPUs",
        "dcgm/diag_r3_v3_fail_wrapped.txt",
        "dcgm-diag-1",
        {"dcgm-diag": ("", "row remap GPU3, PCIe GPU3, GPU Memory GPU0")},
        rc=226,
        level="standard",
    ),
    shown(
        "diagnosis fails under power",
        "dcgm/diag_v4_fail.json",
        "dcgm-diag-1",
        {"dcgm-diag": ("", "targeted_power GPU0: Thermal violation")},
        rc=226,
        level="standard",
    ),
    shown(
        "every test of the diagnosis is skipped",
        "dcgm/diag_r3_consumer_all_skip.txt",
        "dcgm-diag-1",
        {"dcgm-diag": ("", "tested nothing")},
        level="standard",
    ),
    shown(
        "engine fails in NCCL",
        "serving/vllm_startup_nccl_fail.log",
        "log:vllm.service",
        {"server-log": ("nccl", "not ready: nccl")},
    ),
    Fault(
        "engine compiles without a compiler",
        "B091",
        lambda: h100().answered(
            "log:vllm.service", "ERROR 11-30 10:00:00 [core.py:1] RuntimeError: Could not find nvcc in PATH\n", _OURS
        ),
        {"server-log": ("nvcc", "nvcc")},
    ),
    Fault(
        "nobody listens",
        _OURS,
        lambda: _gone("vllm-metrics:8000", "curl: (7) Failed to connect to 127.0.0.1 port 8000\n", 7),
        {"server-answers": ("", "nobody listens")},
    ),
    shown(
        "async_io cannot be built",
        "training/ds_report_async_io_no.txt",
        "ds_report",
        {"env-deepspeed": ("", "async_io: cannot be built")},
    ),
    Fault(
        "no toolkit for torch's CUDA",
        "B086",
        lambda: h100().edited("ds_report", r"^nvcc version .*$", "nvcc version ..................... None"),
        {"env-deepspeed": ("nvcc", "nvcc none")},
    ),
    shown(
        "CPU build of torch",
        "training/llamafactory_env_cpu_torch.txt",
        "llamafactory-env",
        {"env-llamafactory": ("", "2.6.0+cpu sees no GPU")},
    ),
)

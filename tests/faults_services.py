"""Faults of services: units, DCGM, Slurm, serving engines, training environments."""

from __future__ import annotations

from tests.assembled import Assembled, h100, sample
from tests.fault import Fault, told

_OURS = "written by us"


def _gone(key: str, error: str, rc: int = 1) -> Assembled:
    return h100().answered(key, "", _OURS, rc=rc, stderr=error)


def _renamed(text: str) -> str:
    return text.replace("node01", "gpu-node02")


SERVICE_FAULTS = (
    Fault(
        "slurmd finds 7 of 8 GPUs",
        "slurm/show_node_7of8.txt",
        lambda: told(h100(), "slurm-nodes", "slurm/show_node_7of8.txt", edit=_renamed),
        {"slurm-node": ("gpus", "(7 < 8)")},
    ),
    Fault(
        "GRES without files",
        "slurm/show_node_0of8_fileless.txt",
        lambda: told(h100(), "slurm-nodes", "slurm/show_node_0of8_fileless.txt", edit=_renamed),
        {"slurm-node": ("invalid", "INVALID_REG, 8 GPUs")},
    ),
    Fault(
        "drained by a health check",
        "slurm/show_node_drain_nhc.txt",
        lambda: told(h100(), "slurm-nodes", "slurm/show_node_drain_nhc.txt", edit=_renamed),
        {"slurm-node": ("gpus", "IDLE+DRAIN, 7 GPUs: NHC")},
    ),
    Fault(
        "node not known",
        _OURS,
        lambda: h100().edited("slurm-nodes", "NodeName=gpu-node02", "NodeName=gpu-node03"),
        {"slurm-node": ("unknown", "not known")},
    ),
    Fault(
        "slurmd -G finds 7",
        "slurm/slurmd_G_7.txt",
        lambda: told(h100(), "slurmd-gres", "slurm/slurmd_G_7.txt"),
        {"slurm-gres": ("", "7 GPUs")},
    ),
    Fault(
        "slurmd waits for /dev/nvidia0",
        "slurm/slurmd_missing_dev.txt",
        lambda: _gone("slurmd-gres", sample("slurm/slurmd_missing_dev.txt")),
        {"slurm-gres": ("device", "/dev/nvidia0")},
    ),
    Fault(
        "controller down",
        "slurm/scontrol_ping_down.txt",
        lambda: told(h100(), "scontrol-ping", "slurm/scontrol_ping_down.txt", rc=1),
        {"slurm-controller": ("", "node01 is DOWN")},
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
    Fault(
        "diagnosis fails on two GPUs",
        "dcgm/diag_r3_v3_fail_wrapped.txt",
        lambda: told(h100(), "dcgm-diag-1", "dcgm/diag_r3_v3_fail_wrapped.txt", rc=226),
        {"dcgm-diag": ("", "row remap GPU3, PCIe GPU3, GPU Memory GPU0")},
        "standard",
    ),
    Fault(
        "diagnosis fails under power",
        "dcgm/diag_v4_fail.json",
        lambda: told(h100(), "dcgm-diag-1", "dcgm/diag_v4_fail.json", rc=226),
        {"dcgm-diag": ("", "targeted_power GPU0: Thermal violation")},
        "standard",
    ),
    Fault(
        "every test of the diagnosis is skipped",
        "dcgm/diag_r3_consumer_all_skip.txt",
        lambda: told(h100(), "dcgm-diag-1", "dcgm/diag_r3_consumer_all_skip.txt"),
        {"dcgm-diag": ("", "tested nothing")},
        "standard",
    ),
    Fault(
        "engine fails in NCCL",
        "serving/vllm_startup_nccl_fail.log",
        lambda: told(h100(), "log:vllm.service", "serving/vllm_startup_nccl_fail.log"),
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
    Fault(
        "async_io cannot be built",
        "training/ds_report_async_io_no.txt",
        lambda: told(h100(), "ds_report", "training/ds_report_async_io_no.txt"),
        {"env-deepspeed": ("", "async_io: cannot be built")},
    ),
    Fault(
        "no toolkit for torch's CUDA",
        "B086",
        lambda: h100().edited("ds_report", r"^nvcc version .*$", "nvcc version ..................... None"),
        {"env-deepspeed": ("nvcc", "nvcc none")},
    ),
    Fault(
        "CPU build of torch",
        "training/llamafactory_env_cpu_torch.txt",
        lambda: told(h100(), "llamafactory-env", "training/llamafactory_env_cpu_torch.txt"),
        {"env-llamafactory": ("", "2.6.0+cpu sees no GPU")},
    ),
)

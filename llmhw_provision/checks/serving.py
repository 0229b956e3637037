"""Serving engines and training environments: up, answering, and able to use the GPUs."""

from __future__ import annotations

from dataclasses import replace

from llmhw_provision.checks.gpu_views import gpus_of, judged
from llmhw_provision.checks.model import Check, Outcome, failed, passed
from llmhw_provision.checks.services import services_of
from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import ds_report, llamafactory_env, vllm_log, vllm_metrics
from llmhw_provision.probes.reading import output, unreadable

_SERVER_CAUSES = {
    "nccl": "nccl",
    "cuda_802": "fabric",
    "driver_too_old": "driver",
    "library_missing": "driver",
    "no_kernel_image": "driver",
    "out_of_memory": "memory",
    "no_kv_cache_memory": "memory",
    "memory_in_use": "memory",
    "nvcc": "nvcc",
    "permission": "permission",
    "port_in_use": "port",
}


def server(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The engine has come up since its last start."""
    found = vllm_log.facts(output(evidence, vllm_log.command(subject).key))
    if found["ready"]:
        return passed("ready", "ready")
    error = found["error"]
    text = f"not ready: {str(error).replace('_', ' ')}" if error else "not ready"
    return failed(text, "ready", _SERVER_CAUSES.get(str(error), ""))


def metrics_command(port: str) -> Command:
    """Asks the engine on `port`; a host may have several."""
    return replace(vllm_metrics.command(int(port)), key=f"vllm-metrics:{port}")


def metrics(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The engine answers on its port."""
    key = metrics_command(subject).key
    result = evidence.get(key)
    if result is not None and result.rc == 7:  # curl: failed to connect
        return failed("nobody listens", "metrics of the engine")
    found = vllm_metrics.facts(output(evidence, key))
    if "running" not in found:
        raise unreadable("/metrics", "", "no vllm:num_requests_running")
    return passed(f"{found['running']:g} requests run", "metrics of the engine")


def deepspeed(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """The planned operators of DeepSpeed are built, or can be; its compiler is of torch's CUDA."""
    found = ds_report.facts(output(evidence, ds_report.command(subject).key))
    wanted = services_of(host).deepspeed_ops
    bad = {name: "cannot be built" for name in wanted if not _usable(found, name)}
    expected = f"{', '.join(wanted)} built or buildable; nvcc of torch's CUDA"
    if bad:
        return judged(bad, "", expected)
    cuda, nvcc = str(found.get("torch_cuda") or ""), str(found.get("nvcc") or "")
    if not cuda:
        return failed("torch without CUDA", expected, "torch")
    if nvcc.partition(".")[0] != cuda.partition(".")[0]:
        return failed(f"nvcc {nvcc or 'none'}, torch for CUDA {cuda}", expected, "nvcc")
    return passed(f"{len(wanted)} operators, CUDA {cuda}", expected)


def _usable(found: dict[str, object], name: str) -> bool:
    return bool(found.get(f"{name}_installed") or found.get(f"{name}_compatible"))


def llamafactory(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """torch of the training environment sees all GPUs."""
    found = llamafactory_env.facts(output(evidence, llamafactory_env.command(subject).key))
    gpus = gpus_of(host)
    wanted = gpus.count if gpus else 0
    expected = f"torch with {wanted} GPUs"
    if not found["gpu"]:
        return failed(f"torch {found['torch']} sees no GPU", expected)
    if isinstance(found["gpus"], int) and found["gpus"] != wanted:
        return failed(f"torch sees {found['gpus']} GPUs", expected, "fewer")
    return passed(f"torch {found['torch']} with GPUs", expected)


def _servers(host: HostPlan) -> tuple[str, ...]:
    return tuple(one.unit for one in services_of(host).servers)


def _listening(host: HostPlan) -> tuple[str, ...]:
    return tuple(str(one.port) for one in services_of(host).servers)


def _deepspeed(host: HostPlan) -> tuple[str, ...]:
    folder = services_of(host).deepspeed
    return (folder,) if folder else ()


def _llamafactory(host: HostPlan) -> tuple[str, ...]:
    folder = services_of(host).llamafactory
    return (folder,) if folder else ()


def commands(host: HostPlan) -> tuple[Command, ...]:
    """What must be read on the host."""
    wanted = [vllm_log.command(unit) for unit in _servers(host)]
    wanted += [metrics_command(port) for port in _listening(host)]
    wanted += [ds_report.command(folder) for folder in _deepspeed(host)]
    return (*wanted, *(llamafactory_env.command(folder) for folder in _llamafactory(host)))


_PAGE = "serving"
CHECKS = (
    Check("server-log", "services", ("quick",), "critical", _PAGE, "log:{subject}", _servers, server),
    Check("server-answers", "services", ("quick",), "critical", _PAGE, "vllm-metrics:{subject}", _listening, metrics),
    Check("env-deepspeed", "services", ("quick",), "major", _PAGE, "ds_report", _deepspeed, deepspeed),
    Check("env-llamafactory", "services", ("quick",), "major", _PAGE, "llamafactory-env", _llamafactory, llamafactory),
)

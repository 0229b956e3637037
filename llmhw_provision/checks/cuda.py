"""CUDA and NCCL: the planned toolkit is in use, the driver runs it, and NCCL is told nothing that is not there."""

from __future__ import annotations

from llmhw_provision.checks.gpu_plan import with_stack
from llmhw_provision.checks.gpu_views import listed, said
from llmhw_provision.checks.model import Check, Outcome, failed, passed
from llmhw_provision.checks.views import NotThere
from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.plan.roles_gpu import CudaConfig
from llmhw_provision.probes import gpu_runtime, nvidia_list
from llmhw_provision.probes.reading import unreadable


def toolkit(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The planned toolkits are there, and the one that programs find says the planned version of itself."""
    wanted, found = _config(host), gpu_runtime.cuda(evidence)
    expected = f"{wanted.home} is {wanted.default}, nvcc {wanted.default}"
    beside = [item.version for item in wanted.toolkits if wanted.alternatives and item.version not in found.toolkits]
    if beside or not found.nvcc:
        return failed(f"no {', '.join(beside) or 'nvcc'}", expected, "absent")
    home = next(item.home for item in wanted.toolkits if item.version == wanted.default)
    if wanted.alternatives and found.link != home:
        return failed(f"{wanted.home} is {found.link or 'not there'}", expected, "link")
    return passed(expected, expected) if found.nvcc == wanted.default else failed(f"nvcc {found.nvcc}", expected)


def _config(host: HostPlan) -> CudaConfig:
    config = host.roles.cuda
    if config is None:
        raise NotThere("no CUDA toolkit is planned for this host")
    return config


def driver_runs(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The driver runs the planned toolkit's major: within one, an older driver runs newer minors."""
    wanted = _config(host).default
    facts = nvidia_list.facts_version(said(evidence, nvidia_list.VERSION.key))
    newest = str(facts.get("cuda") or "")
    if not newest.partition(".")[0].isdecimal():
        raise unreadable("nvidia-smi --version", newest, "no CUDA version")
    expected = f"CUDA {wanted.partition('.')[0]} or newer"
    text = f"the driver runs CUDA up to {newest}"
    return passed(text, expected) if _major(newest) >= _major(wanted) else failed(text, expected)


def _major(version: str) -> int:
    return int(version.partition(".")[0])


def nccl_settings(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """/etc/nccl.conf names only interfaces and adapters that the host has: NCCL finds none else and ends."""
    found, wanted = gpu_runtime.cuda(evidence), host.roles.nccl
    planned = gpu_runtime.settings(wanted.settings.splitlines()) if wanted else {}
    other = {name: found.nccl.get(name, "not set") for name, value in planned.items() if found.nccl.get(name) != value}
    if other:
        text = f"as planned: {', '.join(f'{name}={planned[name]}' for name in other)}"
        return failed(listed(other), text, "other")
    bad = {}
    for name, there in (("NCCL_SOCKET_IFNAME", found.interfaces), ("NCCL_IB_HCA", found.adapters)):
        unmet = _unmet(found.nccl.get(name, ""), there)
        if unmet:
            bad[name] = f"{', '.join(unmet)} is not among {', '.join(there) or 'none'}"
    expected = "nothing that the host lacks"
    return failed(listed(bad), expected) if bad else passed(f"{len(found.nccl)} settings", expected)


def _unmet(value: str, there: tuple[str, ...]) -> list[str]:
    """Names that no device has. `^` excludes, which is always met; `=` asks for the whole name, else its beginning.

    Source: NVIDIA's description of NCCL_SOCKET_IFNAME and NCCL_IB_HCA; a port follows the adapter after a colon.
    """
    if not value or value.startswith("^"):
        return []
    exact = value.startswith("=")
    names = [name.partition(":")[0].strip() for name in value.removeprefix("=").split(",")]
    return [name for name in names if not any(one == name if exact else one.startswith(name) for one in there)]


def _with_toolkit(host: HostPlan) -> tuple[str, ...]:
    return ("",) if host.roles.nvidia_driver and host.roles.cuda else ()


_KEY, _PAGE = gpu_runtime.CUDA.key, "cuda"
CHECKS = (
    Check("cuda-toolkit", "gpu", ("quick",), "major", _PAGE, _KEY, _with_toolkit, toolkit),
    Check("cuda-driver", "gpu", ("quick",), "critical", _PAGE, nvidia_list.VERSION.key, _with_toolkit, driver_runs),
    Check("nccl-settings", "gpu", ("quick",), "major", _PAGE, _KEY, with_stack, nccl_settings),
)

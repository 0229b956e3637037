"""Before apply: is somebody using the machine, or has somebody else set it up. `--allow-interrupt` overrules these."""

from __future__ import annotations

from collections.abc import Iterable

from llmhw_provision.checks.gpu_plan import with_stack
from llmhw_provision.checks.model import Check, Level, Outcome, failed, passed
from llmhw_provision.checks.views import whole_host
from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import pci, processes, readiness

_NOBODY = "nobody"
_MOST = 6
# Services that belong to the GPUs themselves; names as the kernel cuts them.
_GPU_SERVICES = ("nvidia-persiste", "nv-fabricmanage", "nv-hostengine", "nvidia-imex", "dcgm-exporter", "nvidia-smi")
_CONTAINERS = ("containerd-shim", "conmon", "lxc-start", "systemd-nspawn", "apptainer", "enroot", "kubelet")
_MACHINES = ("qemu-system-", "qemu-kvm", "firecracker", "cloud-hypervis")
_WAITING = ("agetty", "getty", "login", "sulogin")
# PCI base classes: 0302 3D controller, 0380 other display controller, 12xx processing accelerator (PCI code list 1.14).
_NVIDIA, _INTEL = "10de", "8086"
_VENDORS = {
    "1002": "AMD",
    "1da3": "Habana (Intel Gaudi)",
    "8086": "Intel",
    "19e5": "Huawei",
    "cabc": "Cambricon",
    "1d94": "Hygon",
    "1e52": "Tenstorrent",
}


def gpu(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """No foreign process holds a GPU."""
    known = {each.pid: each for each in processes.processes(evidence)}
    found = [
        f"{known[pid].name} of {known[pid].user} (pid {pid})" if pid in known else f"pid {pid}"
        for pid in processes.gpu_holders(evidence)
        if pid not in known or not known[pid].name.startswith(_GPU_SERVICES)
    ]
    return _nobody(found)


def jobs(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """No job of a batch system runs."""
    return _nobody(processes.jobs(evidence))


def containers(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """No container and no virtual machine runs."""
    found = processes.processes(evidence)
    running = [each for each in found if each.name.startswith((*_CONTAINERS, *_MACHINES))]
    return _nobody(f"{each.name} of {each.user} (pid {each.pid})" for each in running)


def people(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Nobody works at a terminal; a detached tmux or screen counts, our own connection has no terminal."""
    found = processes.processes(evidence)
    return _nobody(dict.fromkeys(f"{p.user} on {p.tty}" for p in found if p.tty and p.name not in _WAITING))


def image(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """No vendor's image and no other installer's work."""
    found = readiness.leftovers(evidence)
    if with_stack(host):  # where apply installs the driver, gpu-leftovers says it, and nothing allows it
        found = tuple(text for text in found if readiness.INSTALLER not in text)
    return failed("; ".join(found), "none") if found else passed("none", "none")


def accelerators(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """No accelerator of another vendor, which no role here would set up. An Intel processor's own NPU is none."""
    found = [
        f"{_VENDORS.get(each.vendor_id, each.vendor_id)} {each.device_id} at {each.address}"
        for each in pci.devices(evidence)
        if each.vendor_id != _NVIDIA
        and (each.class_id in ("0302", "0380") or (each.class_id.startswith("12") and each.vendor_id != _INTEL))
    ]
    return failed(_listed(found), "none") if found else passed("none", "none")


def _nobody(found: Iterable[str]) -> Outcome:
    names = list(found)
    return failed(_listed(names), _NOBODY) if names else passed(_NOBODY, _NOBODY)


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST
    return ", ".join(names[:_MOST]) + (f" and {more} more" if more > 0 else "")


_B: tuple[Level, ...] = ("before",)
_PAGE = "preflight-in-use"
CHECKS = (
    Check("use-gpu", "use", _B, "critical", _PAGE, "gpu-holders", whole_host, gpu),
    Check("use-jobs", "use", _B, "critical", _PAGE, "jobs", whole_host, jobs),
    Check("use-containers", "use", _B, "critical", _PAGE, "processes", whole_host, containers),
    Check("use-people", "use", _B, "major", _PAGE, "processes", whole_host, people),
    Check("use-image", "use", _B, "major", _PAGE, "leftovers", whole_host, image),
    Check("use-accelerators", "use", _B, "major", _PAGE, "pci", whole_host, accelerators),
)

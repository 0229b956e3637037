"""host_tuning of one host: a server is made fast, a desktop stays quiet, a virtual machine is left alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from llmhw_provision.catalogue.loader import sold_machine
from llmhw_provision.machine import Cpu, Machine
from llmhw_provision.plan.model import Note
from llmhw_provision.plan.roles_base import HostTuningConfig, Limits
from llmhw_provision.site import Host
from llmhw_provision.site_base import SiteTuning
from llmhw_provision.units import MIB

AS_FOUND: Literal["as-found"] = "as-found"
_SLEEP = ("sleep.target", "suspend.target", "hibernate.target", "hybrid-sleep.target", "suspend-then-hibernate.target")
_BUFFER = 64 * MIB
_KERNEL = "Linux admin-guide/sysctl"
# key → (value, why, source)
_COMMON = {
    "vm.swappiness": ("10", "page cache goes before the memory of a job", f"{_KERNEL}/vm"),
    "vm.max_map_count": (
        "1048576",
        "loaders of large models map many files",
        f"{_KERNEL}/vm; elastic and vLLM advise it",
    ),
}
_SERVER = {
    "vm.zone_reclaim_mode": ("0", "memory of the other NUMA node is better than reclaim", f"{_KERNEL}/vm"),
    "kernel.numa_balancing": ("0", "pages of pinned buffers must not move", f"{_KERNEL}/kernel"),
    "net.core.rmem_max": (str(_BUFFER), "64 MiB: 100 Gbit/s × 5 ms", f"{_KERNEL}/net"),
    "net.core.wmem_max": (str(_BUFFER), "64 MiB: 100 Gbit/s × 5 ms", f"{_KERNEL}/net"),
    "net.core.somaxconn": ("4096", "the kernel's default since 5.4", f"{_KERNEL}/net"),
}
# Intel's last correction, and its limit for the Core i9 K parts (Intel ARK)
MICROCODE, POWER_LIMIT_W = 0x12B, 253
# i9-13900/14900 and their K, KF, KS kin: the parts whose voltage Intel corrected by microcode
_RAPTOR_LAKE = re.compile(r"i[579]-1[34][5-9]00", re.I)


@dataclass(frozen=True)
class TuningPlan:
    """What host_tuning is given, and why; `config` is None where the host is left alone."""

    config: HostTuningConfig | None
    creates: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


def plan_tuning(host: Host, machine: Machine, wanted: SiteTuning) -> TuningPlan:
    """host_tuning of `host`."""
    profile = _profile(host, machine, wanted)
    if profile == "none":
        return TuningPlan(None)
    server, bare = profile == "server", not machine.virtual
    table = {**_COMMON, **(_SERVER if server else {})}
    sysctl = {key: value for key, (value, _, _) in table.items()} | wanted.sysctl
    arguments = _arguments(machine.cpu) if server and bare else ()
    if wanted.command_line is not None:
        arguments = wanted.command_line
    config = HostTuningConfig(
        profile="server" if server else "desktop",
        sysctl=dict(sorted(sysctl.items())),
        limits=Limits(memlock_kib=None, nofile_soft=65536, nofile_hard=1048576),
        governor=wanted.governor or ("performance" if server and bare else AS_FOUND),
        hugepages="madvise" if server else AS_FOUND,
        command_line=arguments,
        acs=wanted.acs if bare else "report",
        mask=() if wanted.sleep else _SLEEP,
    )
    creates = [f"kernel command line + {' '.join(arguments)}, in force after a reboot"] if arguments else []
    creates += ["a boot unit that clears ACS above GPUs and NICs"] if config.acs == "clear" else []
    return TuningPlan(config, tuple(creates), tuple(_notes(host.name, machine, wanted, config)))


def fragile_cpu(model: str) -> bool:
    """Whether the processor is one of those that need Intel's corrected microcode and power limits."""
    return "intel" in model.lower() and bool(_RAPTOR_LAKE.search(model))


def _profile(host: Host, machine: Machine, wanted: SiteTuning) -> str:
    if wanted.profile is not None:
        return wanted.profile
    if machine.virtual:
        return "none"
    desktop = host.machine is not None and sold_machine(host.machine).form == "desktop"
    return "desktop" if desktop else "server"


def _arguments(cpu: Cpu) -> tuple[str, ...]:
    """Command line of a bare server: IOMMU in pass-through, no NUMA balancing where there are several nodes."""
    found = ["intel_iommu=on"] if "intel" in cpu.model.lower() else []
    found += ["iommu=pt", "transparent_hugepage=madvise"]
    found += ["numa_balancing=disable"] if cpu.numa_nodes > 1 or cpu.sockets > 1 else []
    return tuple(found)


def _notes(host: str, machine: Machine, wanted: SiteTuning, config: HostTuningConfig) -> list[Note]:
    def note(rule: str, choice: str, source: str, inputs: tuple[str, ...] = ()) -> Note:
        return Note(host=host, rule=rule, choice=choice, inputs=inputs, source=source)

    known = _COMMON | _SERVER
    inputs = tuple(
        f"{key}={value}: site.yaml" if key in wanted.sysctl else f"{key}={value}: {known[key][1]}"
        for key, value in config.sysctl.items()
    )
    how = "site.yaml" if wanted.profile else "form of the machine"
    found = [
        note(f"a {config.profile} is tuned as one", f"{len(config.sysctl)} kernel settings ({how})", _KERNEL, inputs),
        note(
            "GPUs and RDMA lock memory",
            "memlock unlimited, open files 65536 to 1048576, for sessions and for services",
            "NVIDIA/nccl-tests#206 (ibv_reg_mr: Cannot allocate memory); systemd-system.conf(5)",
        ),
    ]
    if config.governor != AS_FOUND:
        found.append(
            note("the clock does not wait for load", f"governor {config.governor}", "Linux admin-guide/pm/cpufreq")
        )
    if config.command_line:
        text = f"{' '.join(config.command_line)}; the entry before stays in GRUB's menu until a boot has shown it works"
        found.append(note("DMA of GPUs and NICs passes the IOMMU by", text, "Linux admin-guide/kernel-parameters"))
    if config.mask:
        found.append(note("a machine that computes does not sleep", ", ".join(config.mask), "systemd.special(7)"))
    gpus = sum(item.count for item in machine.gpus)
    if gpus > 1:
        text = (
            "cleared at boot on the bridges above GPUs and NICs" if config.acs == "clear" else "reported, left as it is"
        )
        found.append(note(f"ACS sends traffic between {gpus} GPUs through the root port", text, "NVIDIA/nccl#2079"))
    if fragile_cpu(machine.cpu.model):
        text = f"warns unless microcode is {MICROCODE:#x} or later and the limit at most {POWER_LIMIT_W} W (firmware)"
        found.append(note("13th and 14th generation Core processors age at too high a voltage", text, _INTEL))
    return found


_INTEL = "Intel, Core 13th and 14th Gen instability, root cause and microcode 0x12B (2024-09-25); Intel ARK"

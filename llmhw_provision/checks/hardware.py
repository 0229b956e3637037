"""The checks of GPUs, fabric, drives and services, and what must be read for them."""

from __future__ import annotations

from llmhw_provision.checks import (
    cuda,
    drives,
    fabric,
    gpu_before,
    gpu_driver,
    gpu_health,
    gpu_links,
    gpu_sources,
    gpu_stack,
    scheduler,
    services,
    serving,
)
from llmhw_provision.checks.gpu_plan import stack_of
from llmhw_provision.checks.gpu_views import with_driver, with_nvlink, with_peers
from llmhw_provision.checks.model import Level
from llmhw_provision.evidence import Command
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import (
    dkms,
    dmesg,
    driver_files,
    fabric_manager,
    gpu_board,
    gpu_packages,
    gpu_runtime,
    kernels,
    lspci,
    nouveau,
    nvidia_csv,
    nvidia_list,
    nvidia_nvlink,
    nvidia_query,
    nvidia_topo,
)
from llmhw_provision.probes import gpu_sources as gpu_source_probes

CHECKS = (
    *gpu_before.CHECKS,
    *gpu_sources.CHECKS,
    *gpu_driver.CHECKS,
    *gpu_stack.CHECKS,
    *cuda.CHECKS,
    *gpu_links.CHECKS,
    *gpu_health.CHECKS,
    *fabric.CHECKS,
    *drives.CHECKS,
    *services.CHECKS,
    *scheduler.CHECKS,
    *serving.CHECKS,
)


def before(host: HostPlan) -> tuple[Command, ...]:
    """What must be read before apply: the kernel log knows of broken hardware without any driver."""
    return (*_log(host), *_stack_before(host))


def _log(host: HostPlan) -> tuple[Command, ...]:
    return (dmesg.COMMAND,) if host.expected else ()


def _stack_before(host: HostPlan) -> tuple[Command, ...]:
    found = stack_of(host)
    if found is None:
        return ()
    names, needs = tuple(found.packages), tuple(need.partition(">=")[0] for need in found.driver.needs)
    offers = gpu_source_probes.offers_command((*names, *needs))
    solution = gpu_source_probes.solution_command(found.packages, found.family, found.driver.version)
    board = (gpu_board.SWITCHES, gpu_board.FILES, gpu_board.KEYS)
    return (gpu_packages.command(names), kernels.COMMAND, gpu_source_probes.ENTRIES, offers, solution, *board)


def _stack(host: HostPlan) -> tuple[Command, ...]:
    found = stack_of(host)
    if found is None:
        return ()
    names = gpu_packages.command(tuple(found.packages))
    asked = (names, kernels.COMMAND, nouveau.COMMAND, nouveau.image_command(), *gpu_runtime.COMMANDS)
    return (*asked, dkms.COMMAND) if found.driver.dkms else asked


def commands(host: HostPlan, level: Level) -> tuple[Command, ...]:
    """What must be read on the host; the counters of links first and last, so that what they gained shows."""
    joined = bool(with_nvlink(host))
    found = [*([nvidia_nvlink.ERRORS] if joined else []), *fabric.commands(host), *_log(host), *_stack(host)]
    if with_driver(host):
        found += [*nvidia_list.COMMANDS, nvidia_csv.QUERY, nvidia_query.COMMAND, nvidia_topo.MATRIX]
        found += [driver_files.COMMAND, lspci.COMMAND, fabric_manager.STATUS, fabric_manager.JOURNAL]
    found += [nvidia_topo.P2P] if with_peers(host) else []
    found += [nvidia_nvlink.STATUS] if joined else []
    found += [*drives.commands(host), *services.commands(host), *scheduler.commands(host), *serving.commands(host)]
    found += services.lengthy(host) if level == "standard" else ()
    found += [nvidia_nvlink.ERRORS_LATER] if joined else []
    return (*found, *fabric.later(host))

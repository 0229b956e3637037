"""The checks of GPUs, fabric, drives and services, and what must be read for them."""

from __future__ import annotations

from llmhw_provision.checks import drives, fabric, gpu_driver, gpu_health, gpu_links, scheduler, services, serving
from llmhw_provision.checks.gpu_views import with_driver, with_nvlink, with_peers
from llmhw_provision.checks.model import Level
from llmhw_provision.evidence import Command
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import (
    dmesg,
    driver_files,
    fabric_manager,
    lspci,
    nvidia_csv,
    nvidia_list,
    nvidia_nvlink,
    nvidia_query,
    nvidia_topo,
)

CHECKS = (
    *gpu_driver.CHECKS,
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
    return (dmesg.COMMAND,) if host.expected else ()


def commands(host: HostPlan, level: Level) -> tuple[Command, ...]:
    """What must be read on the host; the counters of links first and last, so that what they gained shows."""
    joined = bool(with_nvlink(host))
    found = [*([nvidia_nvlink.ERRORS] if joined else []), *fabric.commands(host), *before(host)]
    if with_driver(host):
        found += [*nvidia_list.COMMANDS, nvidia_csv.QUERY, nvidia_query.COMMAND, nvidia_topo.MATRIX]
        found += [driver_files.COMMAND, lspci.COMMAND, fabric_manager.STATUS, fabric_manager.JOURNAL]
    found += [nvidia_topo.P2P] if with_peers(host) else []
    found += [nvidia_nvlink.STATUS] if joined else []
    found += [*drives.commands(host), *services.commands(host), *scheduler.commands(host), *serving.commands(host)]
    found += services.lengthy(host) if level == "standard" else ()
    found += [nvidia_nvlink.ERRORS_LATER] if joined else []
    return (*found, *fabric.later(host))

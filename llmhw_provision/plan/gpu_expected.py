"""Whether apply installs the GPU software of a host."""

from __future__ import annotations

from llmhw_provision.machine import Machine
from llmhw_provision.site import Site


def installs_stack(machine: Machine, site: Site) -> bool:
    """Whether apply installs the GPU stack on the host: it was observed, has GPUs, and the site does not refuse."""
    return machine.origin == "observed" and bool(machine.gpus) and site.software.install is not False

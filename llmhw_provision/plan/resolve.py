"""resolve(request) → Stack: one set of versions that fits together, explained; or every reason why there is none."""

from __future__ import annotations

from llmhw_provision.catalogue.software import Software, software
from llmhw_provision.errors import InputError
from llmhw_provision.plan.findings import Findings, Request
from llmhw_provision.plan.resolve_gpu import resolve_cuda, resolve_driver, resolve_fabric, resolve_libraries
from llmhw_provision.plan.resolve_host import (
    resolve_distro,
    resolve_gds,
    resolve_kernel,
    resolve_rdma,
    resolve_slurm,
    warn_unpinned,
)
from llmhw_provision.plan.resolve_python import resolve_environments, warn_images
from llmhw_provision.plan.stack import Driver, Stack


def resolve(request: Request, tables: Software | None = None) -> Stack:
    """The stack of one host from `tables`; raises InputError with every refusal, each with its rule's source."""
    found = Findings(request, tables or software())
    _known(found)
    resolve_distro(found)
    resolve_kernel(found)
    driver = _driver(found)
    resolve_rdma(found, driver)
    fabric = resolve_fabric(found, driver) if driver else None
    cuda = resolve_cuda(found, driver) if driver else None
    environments, first = resolve_environments(found, driver, cuda)
    if driver and cuda:
        resolve_libraries(found, cuda, first or next(iter(found.software.environments.values())))
    if driver:
        resolve_gds(found, driver, cuda)
    slurm = resolve_slurm(found)
    warn_images(found, driver)
    warn_unpinned(found)
    if found.problems:
        raise InputError.of(found.problems)
    return Stack(
        hosts=(request.host,),
        distro=request.distro,
        architecture=request.machine,
        gpu=request.gpu.title if request.gpu else "",
        driver=driver,
        fabric_manager=fabric,
        cuda=cuda,
        slurm=slurm[0] if slurm else None,
        gres=slurm[1] if slurm else None,
        environments=environments,
        repositories=tuple(found.repositories),
        choices=tuple(found.choices),
        warnings=tuple(found.warnings),
    )


def _known(found: Findings) -> None:
    """Raises InputError at once for a distribution or architecture that the matrix does not know at all."""
    request, tables = found.request, found.software
    if request.distro not in tables.distros:
        known = ", ".join(tables.distros)
        raise InputError(f"{request.host}: distribution {request.distro!r} is not in the matrix", f"known: {known}")
    if request.gpu and found.architecture is None:
        capability = request.gpu.compute_capability
        raise InputError(
            f"{request.host}: {request.gpu.title}: compute capability {capability} is not in the matrix",
            f"known: {', '.join(item for record in tables.architectures.values() for item in record.compute)}",
        )


def _driver(found: Findings) -> Driver | None:
    return resolve_driver(found) if found.request.gpu else None

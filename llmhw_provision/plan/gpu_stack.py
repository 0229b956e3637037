"""Package sources, CUDA and NCCL of one host, out of its stack: nothing is decided here a second time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from llmhw_provision.plan.cluster_model import HostNode
from llmhw_provision.plan.fabric import nccl_text
from llmhw_provision.plan.model import Note, RoleConfigs
from llmhw_provision.plan.roles_driver import Along
from llmhw_provision.plan.roles_gpu import (
    CudaConfig,
    CudaToolkit,
    NcclConfig,
    NcclTests,
    PackageSourcesConfig,
    VendorSource,
)
from llmhw_provision.plan.stack import Choice, PackageSource, Stack
from llmhw_provision.site import Site, SoftwareChoices

_SOURCES = ("driver", "cuda")  # names of the repositories that this product writes
_TOOLKITS = ("cuda toolkit", "cuda toolkit beside")
_DISTRIBUTION_HOME = "/usr"  # where Debian's nvidia-cuda-toolkit has bin/nvcc, include/cuda.h and the libraries
_DISTRIBUTION_COMPILER = "/usr/bin/cuda-g++"  # in nvidia-cuda-toolkit-gcc: the newest that this nvcc takes
_BESIDE = ("cuda-toolkit-*config-common", "libcudnn9-*")  # what toolkits and cuDNN share among themselves
_WITH_DRIVER = ("cuda", "cuda-runtime-*")  # metapackages that bring a driver of their own choice


@dataclass(frozen=True)
class GpuPlan:
    """What the roles of the GPU stack are given for one host, and why; all None where they are not planned."""

    package_sources: PackageSourcesConfig | None = None
    cuda: CudaConfig | None = None
    nccl: NcclConfig | None = None
    along: Along | None = None
    creates: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


def plan_gpu(host: str, stack: Stack | None, site: Site) -> GpuPlan:
    """package_sources, cuda and nccl out of the stack that apply installs; none without one.

    nccl is completed by `with_rails` once the cluster is known.
    """
    if stack is None or stack.driver is None:
        return GpuPlan()
    sources = _sources(stack, site.software)
    cuda = _cuda(stack, site.software)
    nccl = _nccl(stack, site, cuda) if cuda else None
    config = PackageSourcesConfig(sources=sources) if sources else None
    plan = GpuPlan(config, cuda, nccl, _along(cuda, nccl))
    return replace(plan, creates=tuple(_creates(plan)), notes=tuple(_notes(host, plan, stack, site.software)))


def with_rails(roles: RoleConfigs, node: HostNode | None) -> RoleConfigs:
    """`roles` with what the host's place in the cluster says to NCCL."""
    if roles.nccl is None or node is None or not node.nccl:
        return roles
    rails = tuple(rail.nic_pci for rail in node.rails if rail.nic_pci) if node.nccl_hca == "rails" else ()
    return roles.model_copy(update={"nccl": roles.nccl.model_copy(update={"settings": node.nccl, "rails": rails})})


def software_files(software: SoftwareChoices) -> dict[str, str]:
    """Key of site.yaml to file on the controller that it names."""
    mirror, found = software.repositories.cuda, {}
    if mirror and mirror.key_file:
        found["software.repositories.cuda.key_file"] = mirror.key_file
    if software.nccl_tests:
        found["software.nccl_tests"] = software.nccl_tests
    return found


def _topic(stack: Stack, *topics: str) -> tuple[Choice, ...]:
    return tuple(choice for choice in stack.choices if choice.topic in topics)


def _packages(choices: Iterable[Choice]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(item) for choice in choices for item in choice.packages))


def _sources(stack: Stack, software: SoftwareChoices) -> tuple[VendorSource, ...]:
    """The vendor's repositories; the driver's names come from one source alone, whichever it is."""
    driver = tuple(name for choice in _topic(stack, "driver") for name in choice.excludes)
    other = _topic(stack, *_TOOLKITS, "cudnn", "nccl") if software.sources.cuda != "distribution" else ()
    libraries = tuple(dict.fromkeys(item.name for choice in other for item in choice.packages))
    wanted = [item for item in stack.repositories if item.name in _SOURCES]
    found = []
    for item in wanted:
        gives_driver = software.sources.driver != "distribution" and (item.name == "driver" or len(wanted) == 1)
        gives_cuda = item.name == "cuda"
        only = (*(driver if gives_driver else ()), *(libraries if gives_cuda else ()))
        found.append(_source(item, software, only, () if gives_driver else driver))
    return tuple(found)


def _source(
    item: PackageSource, software: SoftwareChoices, only: tuple[str, ...], never: tuple[str, ...]
) -> VendorSource:
    from llmhw_provision.catalogue.software import software as tables

    record, key = tables().repositories["cuda"], tables().keys[item.key]
    mirror = software.repositories.cuda
    mirror = mirror if mirror and mirror.uri == item.url else None
    own_key = mirror.key_file if mirror else None
    return VendorSource(
        name=item.name,
        uri=item.url,
        suites=mirror.suites if mirror else ("/",),
        components=mirror.components if mirror else (),
        key_file=own_key,
        key_url=None if own_key else f"{item.url.rstrip('/')}/{key.file}",
        fingerprints=() if own_key else (item.fingerprint,),
        only=only,
        never=never,
        replaces=(record.url.partition("{")[0],),
    )


def _cuda(stack: Stack, software: SoftwareChoices) -> CudaConfig | None:
    chosen = _topic(stack, *_TOOLKITS)
    if not chosen or stack.cuda is None:
        return None
    own = software.sources.cuda == "distribution"
    driver = tuple(name for choice in _topic(stack, "driver") for name in choice.excludes)
    versions = tuple(choice.choice for choice in chosen)
    homes = {item: _DISTRIBUTION_HOME if own else f"/usr/local/cuda-{item}" for item in versions}
    packages = _packages((*chosen, *_topic(stack, "cudnn")))
    profiler = _packages(_topic(stack, "nsight systems"))
    names = tuple(entry.partition("=")[0] for entry in (*packages, *profiler))
    parts = () if own else (*(f"*-{item.replace('.', '-')}" for item in versions), *_BESIDE)
    return CudaConfig(
        packages=packages,
        profiler=profiler,
        toolkits=tuple(CudaToolkit(version=item, home=homes[item]) for item in versions),
        default=stack.cuda,
        home=_DISTRIBUTION_HOME if own else "/usr/local/cuda",
        alternatives=not own,
        compiler=_DISTRIBUTION_COMPILER if own else None,
        hold=(*names, *parts),
        keep=() if own else (*_WITH_DRIVER, *driver),
    )


def _nccl(stack: Stack, site: Site, cuda: CudaConfig) -> NcclConfig:
    packages = _packages(_topic(stack, "nccl"))
    archive = site.software.nccl_tests
    return NcclConfig(
        packages=packages,
        hold=tuple(entry.partition("=")[0] for entry in packages),
        settings=nccl_text(site.fabric),
        rails=(),
        cuda_home=cuda.home,
        tests=NcclTests(archive=archive, compute=_compute(stack)) if archive and packages else None,
    )


def _along(cuda: CudaConfig | None, nccl: NcclConfig | None) -> Along | None:
    """What the driver's first installation takes along, so that a bare host sees one transaction."""
    if cuda is None:
        return None
    packages = (*cuda.packages, *(nccl.packages if nccl else ()))
    return Along(packages=packages, first_of=cuda.profiler, keep=_WITH_DRIVER)


def _compute(stack: Stack) -> tuple[str, ...]:
    """Compute capability of the host's GPUs."""
    from llmhw_provision.catalogue.loader import Gpu, find, names

    cards = (find("gpus", name, Gpu) for name in names("gpus"))
    return tuple(dict.fromkeys(card.compute_capability for card in cards if card.title == stack.gpu))


def _creates(plan: GpuPlan) -> list[str]:
    found = []
    for item in plan.package_sources.sources if plan.package_sources else ():
        key = f"key {item.fingerprints[0]}" if item.fingerprints else f"key in {item.key_file}"
        found.append(f"package source {item.name}: {item.uri}, {key}")
    if plan.cuda:
        beside = [item.version for item in plan.cuda.toolkits if item.version != plan.cuda.default]
        text = f"CUDA {plan.cuda.default} at {plan.cuda.home}" + (f", beside it {', '.join(beside)}" if beside else "")
        found.append(f"{text}: {', '.join(plan.cuda.packages)}, held")
    if plan.nccl:
        found.append(f"/etc/nccl.conf; {', '.join(plan.nccl.packages) or 'no NCCL package'}, held")
    return found


def _notes(host: str, plan: GpuPlan, stack: Stack, software: SoftwareChoices) -> list[Note]:
    found = []
    for item in plan.package_sources.sources if plan.package_sources else ():
        trust = f"fingerprint {item.fingerprints[0]}" if item.fingerprints else f"the site's key {item.key_file}"
        found.append(
            Note(
                host=host,
                rule="one source for each package name, and one key for each source",
                choice=f"{item.name}: {item.uri}, {trust}",
                inputs=(f"alone: {' '.join(item.only) or 'nothing'}", f"never: {' '.join(item.never) or 'nothing'}"),
                source="NVIDIA/ansible-role-nvidia-driver#11 (two origins); NVIDIA/cuda-repo-management#4, #39",
            )
        )
    if plan.cuda:
        found.append(
            Note(
                host=host,
                rule="units and Slurm are told CUDA_HOME in a file; LD_LIBRARY_PATH is never set",
                choice=f"/etc/llmhw/cuda.env with {plan.cuda.home}",
                source="deepspeedai/DeepSpeed#2772; vllm-project/vllm#49497; wheels bring libraries of their own",
            )
        )
    if plan.nccl and plan.nccl.tests is None:
        why = "the site names no source archive (software.nccl_tests)" if plan.nccl.packages else "no NCCL package"
        found.append(
            Note(
                host=host,
                rule="nccl-tests is built where its source, NCCL's headers and nvcc are there",
                choice=f"not built: {why}",
                source="site.yaml" if software.nccl_tests else f"default; {stack.distro} has no package of it",
            )
        )
    return found

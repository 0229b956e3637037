"""Distribution, repositories, kernel, RDMA, GPUDirect Storage and Slurm."""

from __future__ import annotations

import re

from llmhw_provision.catalogue.software import Feature, ordered
from llmhw_provision.plan.findings import Findings
from llmhw_provision.plan.stack import Driver, Package, PackageSource


def resolve_distro(found: Findings) -> None:
    """End of life, architecture and repositories of the host's distribution."""
    distro, request = found.distro, found.request
    if distro.over(request.day):
        if request.choices.eol_ok:
            found.warn(f"{distro.title}: support ended with {distro.end_of_life}; taken because of eol_ok")
        else:
            hint = "choose a newer distribution, or software.eol_ok: true"
            found.refuse(f"{distro.title}: support ended with {distro.end_of_life}", hint, distro)
    until = f"support to {distro.end_of_life}" if distro.end_of_life else "end of support not recorded"
    found.choose("distribution", distro.title, until, distro)
    if request.gpu is None:
        return
    if request.machine not in distro.architectures:
        known = ", ".join(distro.architectures)
        message = f"{distro.title} on {request.machine}: NVIDIA's repository {distro.slug} has {known} only"
        found.refuse(message, "choose a distribution that has it, for example ubuntu2404", distro)
        return
    _cuda_repository(found)
    _toolkit_repository(found)


def _cuda_repository(found: Findings) -> None:
    distro, record = found.distro, found.software.repositories["cuda"]
    sources = found.request.choices.sources
    wanted = dict.fromkeys(item for item in (sources.driver, sources.cuda) if item != "distribution")
    mirror = found.request.choices.repositories.cuda
    key = found.software.keys[distro.key]
    for origin in wanted:
        own = record.url.format(slug=distro.slug, architecture=distro.architectures[found.request.machine])
        url = origin if origin != "vendor" else mirror.uri if mirror else own
        _refuse_foreign(found, url)
        setup = record.deb if distro.family == "deb" else record.rpm.format(slug=distro.slug)
        name = "driver" if len(wanted) > 1 and origin == sources.driver else "cuda"
        found.repositories.append(
            PackageSource(name=name, url=url, setup=setup, key=distro.key, fingerprint=key.fingerprint)
        )
        by = "" if url == own else "site.yaml"
        found.choose(
            "cuda repository", url, f"the distribution's own slug {distro.slug}, key {distro.key}", record, by=by
        )


def _refuse_foreign(found: Findings, url: str) -> None:
    """A repository of another distribution: its packages do not fit, and apt 3 refuses the old key."""
    distro, record = found.distro, found.software.repositories["cuda"]
    foreign = next((part for part in url.split("/") if part in record.slugs and part != distro.slug), None)
    if foreign is None:
        return
    other = next((item for item in found.software.distros.values() if item.slug == foreign), None)
    refused = other is not None and other.key in distro.refuses_keys
    why = f"; it is signed by {other.key}, which {distro.title} refuses" if other and refused else ""
    found.refuse(
        f"cuda repository {foreign} on {distro.title}: repositories of another distribution are not used{why}",
        f"use the one of {distro.slug}",
        distro if refused else record,
    )


def _toolkit_repository(found: Findings) -> None:
    distro, record = found.distro, found.software.repositories["container-toolkit"]
    origin = found.request.choices.sources.container_toolkit
    if origin != "distribution":
        url = record.url.format(family=distro.family) if origin == "vendor" else origin
        setup = record.deb if distro.family == "deb" else record.rpm
        found.repositories.append(PackageSource(name="container-toolkit", url=url, setup=setup))


def resolve_kernel(found: Findings) -> None:
    """Whether the kernel is new enough for processor and adapters; an EL kernel's number does not tell."""
    request, distro = found.request, found.distro
    kernel = request.kernel or distro.kernel
    for record in found.software.kernels.values():
        hit = (record.cpu and re.search(record.cpu, request.cpu)) or record.pci in request.adapters
        if not hit:
            continue
        if ordered(kernel) >= ordered(record.min_kernel):
            found.choose("kernel", kernel, f"{record.title} needs {record.min_kernel} or newer", record)
            continue
        message = f"kernel {kernel}: {record.title} needs {record.min_kernel} or newer"
        if distro.kernel_backports:
            found.warn(f"{message}; {distro.title} backports drivers, its vendor's hardware list decides")
        elif record.confidence == "low":
            found.warn(f"{message} (low confidence: {record.source})")
        else:
            found.refuse(message, "install a newer kernel track (HWE, backports)", record)


def resolve_rdma(found: Findings, driver: Driver | None) -> None:
    """Inbox RDMA or DOCA-OFED, and how GPUs reach the adapter."""
    choices = found.request.choices
    present = any(item.startswith("15b3:") for item in found.request.adapters)
    if not (present if choices.rdma is None else choices.rdma):
        return
    origin = choices.sources.rdma
    what = found.rule("rdma", origin)
    if what is None:
        return
    inbox = origin == "distribution"
    if not inbox:
        found.warn("DOCA-OFED: no exact version is recorded; the doca-host package of the site decides it")
    why = "inbox is enough for InfiniBand and RoCE" if inbox else "the NVIDIA driver is built after it; one reboot"
    found.install(what, "inbox" if inbox else "DOCA-OFED", why)
    if driver is None:
        return
    record = found.software.features["dmabuf"]
    if not _lacks(found, record, driver, "0"):
        found.choose("gpudirect rdma", "dmabuf", "NCCL takes it by itself", record)
    elif not inbox:
        found.choose("gpudirect rdma", "nvidia-peermem", "DOCA's ib_core carries the peer-memory interface", what)
    else:
        lacks = "; ".join(_lacks(found, record, driver, "0"))
        found.warn(f"gpudirect rdma: not possible, {lacks}; nvidia-peermem needs DOCA-OFED (sources.rdma: vendor)")


def _lacks(found: Findings, record: Feature, driver: Driver, cuda: str) -> list[str]:
    kernel = found.request.kernel or found.distro.kernel
    lacks = []
    if record.open_modules and driver.modules != "open":
        lacks.append("it needs the open kernel modules")
    if ordered(driver.version) < ordered(record.min_driver):
        lacks.append(f"it needs driver {record.min_driver}, {driver.version} is chosen")
    if ordered(cuda) < ordered(record.min_cuda):
        lacks.append(f"it needs CUDA {record.min_cuda}, {cuda} is chosen")
    if ordered(kernel) < ordered(record.min_kernel) and not found.distro.kernel_backports:
        lacks.append(f"it needs kernel {record.min_kernel}, the host has {kernel}")
    return lacks


def resolve_gds(found: Findings, driver: Driver, cuda: str | None) -> None:
    """GPUDirect Storage: P2PDMA (no RAID0) or nvidia-fs (DOCA-OFED, IOMMU off)."""
    choices = found.request.choices
    if choices.gds == "off":
        return
    record = found.software.features["gds-p2pdma"]
    if choices.gds == "p2pdma":
        if found.request.raid0:
            found.refuse(
                "gds p2pdma: NVIDIA does not support it on RAID0 over NVMe, and scratch is an md RAID0",
                "write gds: nvidia-fs, or name a single drive as storage.scratch.disks",
                record,
            )
        for lack in _lacks(found, record, driver, cuda or record.min_cuda):  # a refused CUDA was said already
            found.refuse(f"gds p2pdma: {lack}", "write gds: off, or choose newer versions", record)
        found.choose("gds", "P2PDMA", "no nvidia-fs module; iommu=pt may stay", record, by="site.yaml")
        return
    what = found.rule("gds", choices.sources.cuda)
    if what is None or cuda is None:
        return
    if choices.sources.rdma == "distribution":
        hint = "write sources.rdma: vendor"
        found.refuse("gds nvidia-fs: needs the NVMe patches of DOCA-OFED; RDMA is inbox", hint, what)
    found.install(
        what, "nvidia-fs", "wants IOMMU off: against iommu=pt for NCCL", {"cuda_dash": cuda.replace(".", "-")}
    )


def resolve_slurm(found: Findings) -> tuple[str, str] | None:
    """Slurm's version and the line of gres.conf; None without Slurm, or with problems."""
    choices = found.request.choices
    if not choices.slurm:
        return None
    origin = choices.sources.slurm
    return _distribution_slurm(found) if origin == "distribution" else _upstream_slurm(found, origin)


def _distribution_slurm(found: Findings) -> tuple[str, str] | None:
    software, distro = found.software, found.distro
    own = "build slurm-smd packages and name their repository as sources.slurm"
    record = software.slurm.get(found.request.distro)
    if record is None:
        upstream = software.slurm_upstream
        found.refuse(f"slurm: no packages of {distro.title} are recorded that SchedMD supports", own, upstream)
        return None
    if not record.cgroup_v2:
        found.refuse(f"slurm {record.version} of {distro.title}: cgroup v1 only, the host runs cgroup v2", own, record)
        return None
    if record.version not in software.slurm_upstream.releases:
        found.warn(f"slurm {record.version} of {distro.title}: no longer supported by SchedMD")
    line = _gres(found, record.detect)
    why = f"GRES by {line}"
    why += f"; never {', '.join(record.never)}" if record.never else ""
    found.choose("slurm", record.version, why, record, packages=_slurm_packages(record.packages, record.version))
    return record.version, line


def _upstream_slurm(found: Findings, origin: str) -> tuple[str, str] | None:
    upstream, version = found.software.slurm_upstream, found.request.choices.versions.slurm
    if origin == "vendor":
        hint = "build slurm-smd packages and name the address of their repository"
        found.refuse("sources.slurm: vendor: SchedMD publishes no package repository", hint, upstream)
        return None
    if version is None:
        found.refuse(f"slurm from {origin}: its version is not named", "write versions.slurm, as built", upstream)
        return None
    if ".".join(version.split(".")[:2]) not in upstream.releases and not found.request.choices.eol_ok:
        hint = f"supported: {', '.join(upstream.releases)}; or software.eol_ok: true"
        found.refuse(f"slurm {version}: not supported by SchedMD", hint, upstream)
        return None
    found.repositories.append(PackageSource(name="slurm", url=origin))
    since = ordered(version) >= ordered(upstream.detect_since)
    line = _gres(found, upstream.detect if since else "file")
    packages = _slurm_packages(upstream.packages, version)
    found.choose("slurm", version, f"GRES by {line}", upstream, by="site.yaml", packages=packages)
    return version, line


def _slurm_packages(names: tuple[str, ...], version: str) -> tuple[Package, ...]:
    """All of Slurm at one version; munge is the distribution's own."""
    return tuple(Package(name=name, version="" if name == "munge" else version) for name in names)


def _gres(found: Findings, detect: str) -> str:
    """The line of gres.conf; explicit files where Slurm is older than AutoDetect=nvidia (24.11)."""
    if detect == "nvidia":
        return "AutoDetect=nvidia"
    count = found.request.gpus
    files = "/dev/nvidia0" if count == 1 else f"/dev/nvidia[0-{count - 1}]"
    return f"Name=gpu File={files}" if count else "no GPU"


def warn_unpinned(found: Findings) -> None:
    """Warns of NVIDIA's packages whose exact version is not decided here: the role reads it back and holds it."""
    own = {name for rule in found.software.packages if rule.component == "rdma" for name in rule.names}
    for choice in found.choices:
        for item in choice.packages if choice.topic == "nvlink 5 switches" else ():
            if not item.version and item.name not in own:
                found.warn(f"{item}: no exact version is recorded; what the repository offers is installed and held")

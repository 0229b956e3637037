"""Before apply: where the GPU packages come from: one source, the distribution's own, with exactly what is planned."""

from __future__ import annotations

import re
from collections.abc import Mapping

from llmhw_provision.catalogue.software import software
from llmhw_provision.checks.gpu_plan import Stack, stack, with_apt, with_stack
from llmhw_provision.checks.gpu_views import listed
from llmhw_provision.checks.model import Check, Level, Outcome, failed, passed, warned
from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import gpu_packages, gpu_sources
from llmhw_provision.probes.reading import ProbeError
from llmhw_provision.probes.system import os_of

_SLUG = re.compile(r"/cuda/repos/([a-z]+[0-9]+)(?:/|$)")


def entries(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """No two entries name different keys for one source: apt refuses to read any list then.

    About the repositories that apply sets up it is a warning: the role sets the others aside first.
    """
    found: dict[tuple[str, str], list[gpu_sources.Entry]] = {}
    for entry in gpu_sources.entries(evidence):
        found.setdefault((entry.uri, entry.suite), []).append(entry)
    clash = {at: group for at, group in found.items() if len({entry.key for entry in group}) > 1}
    expected = "one key for each source"
    if not clash:
        return passed(f"{len(found)} sources", expected)
    text = listed({uri: f"keys differ in {', '.join(_files(group))}" for (uri, _), group in clash.items()})
    if all(stack(host).sets_aside(uri) for uri, _ in clash):
        return warned(text, expected, "cured")
    return failed(text, expected)


def _files(group: list[gpu_sources.Entry]) -> list[str]:
    return list(dict.fromkeys(entry.file for entry in group))


def slugs(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """NVIDIA's repositories are those of the host's distribution: others do not fit, and apt 3 refuses their key."""
    system = os_of(evidence)
    name = software().distro_of(system.id, system.version)
    if name is None:
        raise ProbeError(f"{system.pretty_name} is not in the matrix")
    wanted = software().distros[name].slug
    found = gpu_sources.entries(evidence)
    bad = [entry for entry in found if (match := _SLUG.search(entry.uri)) and match[1] != wanted]
    expected = f"none but {wanted}"
    if not bad:
        return passed(expected, expected)
    text = listed({entry.file: entry.uri for entry in bad})
    cured = all(stack(host).sets_aside(entry.uri) for entry in bad)
    return warned(text, expected, "cured") if cured else failed(text, expected)


def origins(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """What is installed of the driver came from one source: two give the same names in versions that do not fit."""
    offers = gpu_sources.offers(evidence)
    given: dict[str, frozenset[str]] = {}
    for name, offer in offers.items():
        sites = offer.sites.get(offer.installed, ()) if offer.installed else ()
        if sites and gpu_packages.is_driver(name, offer.installed):
            given[name] = frozenset(sites)
    expected = "one source for the driver"
    if not given:
        return passed("no driver is installed from a source", expected)
    if frozenset.intersection(*given.values()):
        return passed(f"{len(given)} packages from one source", expected)
    by_site: dict[str, list[str]] = {}
    for name, known in given.items():
        by_site.setdefault(min(known), []).append(name)
    text = listed({site: f"{', '.join(some[:3])}{' …' if len(some) > 3 else ''}" for site, some in by_site.items()})
    return failed(text, expected)


def versions(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Each planned package is on offer in its planned version. What no source knows yet is asked again by the role."""
    planned, offers = stack(host), gpu_sources.offers(evidence)
    lacking, unknown = {}, []
    for name, wanted in planned.packages.items():
        offer = offers.get(name)
        there = [*offer.sites, offer.installed, offer.candidate] if offer else []
        there = [version for version in dict.fromkeys(there) if version]
        if not there:
            unknown.append(name)
        elif not any(gpu_packages.same(wanted, version) for version in there):
            lacking[name] = f"{wanted} is planned, on offer: {', '.join(there[:3])}"
    expected = f"{len(planned.packages)} packages on offer as planned"
    if lacking:
        return failed(listed(lacking), expected)
    if not unknown:
        return passed(expected, expected)
    if _set_up(planned, offers, evidence):
        return failed(f"no source knows {', '.join(unknown[:4])}", expected, "unknown")
    return warned(f"no source of today knows {', '.join(unknown[:4])}", expected, "later")


def _set_up(planned: Stack, offers: Mapping[str, gpu_sources.Offer], evidence: Evidence) -> bool:
    """Whether the planned repositories are on the host already, and their lists were fetched."""
    there = {entry.uri for entry in gpu_sources.entries(evidence)}
    return set(planned.repositories) <= there and any(
        name in offers for name, wanted in planned.packages.items() if wanted
    )


def solution(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Installing the planned packages would bring the planned driver: some names are stubs of another branch."""
    planned, found = stack(host), gpu_sources.solution(evidence)
    expected = f"driver {planned.driver.version} and nothing else"
    if found.error:
        known = gpu_sources.offers(evidence)
        if any(name not in known for name in planned.packages) and not _set_up(planned, known, evidence):
            return warned("cannot be asked yet: the repository is not set up", expected, "later")
        return failed(found.error, expected, "refused")
    other = {
        name: version
        for name, version in found.packages.items()
        if gpu_packages.is_driver(name, version) and gpu_packages.upstream(version) != planned.driver.version
    }
    if other:
        return failed(f"would install {listed(other)}", expected)
    return passed(f"{len(found.packages)} packages to install", expected)


_B: tuple[Level, ...] = ("before",)
_PAGE, _ENTRIES = "preflight-gpu-sources", gpu_sources.ENTRIES.key
CHECKS = (
    Check("gpu-source-keys", "gpu", _B, "critical", _PAGE, _ENTRIES, with_apt, entries),
    Check("gpu-source-system", "gpu", _B, "critical", _PAGE, _ENTRIES, with_stack, slugs),
    Check("gpu-origins", "gpu", _B, "critical", _PAGE, "gpu-offers", with_apt, origins),
    Check("gpu-offers", "gpu", _B, "critical", _PAGE, "gpu-offers", with_stack, versions),
    Check("gpu-solution", "gpu", _B, "critical", _PAGE, "gpu-solution", with_stack, solution),
)

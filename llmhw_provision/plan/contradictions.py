"""Overrides of site.yaml that contradict each other, each named by its path in the file."""

from __future__ import annotations

from collections.abc import Iterator

from llmhw_provision.errors import InputError, Problem
from llmhw_provision.site import Site
from llmhw_provision.site_storage import Storage

_FILE = "site.yaml"


def require_consistent(site: Site) -> None:
    """Raises InputError with every contradiction at once."""
    found = [
        Problem(f"{_FILE}: {where}: {what}", hint)
        for part in (
            _mounts(site.storage),
            _disks(site.storage),
            _consents(site.storage),
            _software(site),
            _tuning(site),
        )
        for where, what, hint in part
    ]
    if found:
        raise InputError.of(found)


Wrong = Iterator[tuple[str, str, str]]


def _mounts(storage: Storage) -> Wrong:
    """One path for one thing; nothing that must last lies on what may be lost."""
    scratch, project, hot = storage.scratch.mount, storage.project.path, storage.tmpfs.mount
    if project == scratch or project.startswith(f"{scratch}/"):
        text = f"{project!r} lies on scratch ({scratch}), where everything is lost with one drive"
        yield "storage.project.path", text, "name a path outside of storage.scratch.mount"
    if project == hot or project.startswith(f"{hot}/"):
        yield "storage.project.path", f"{project!r} lies in memory (storage.tmpfs.mount {hot})", "name another path"
    if hot == scratch:
        yield "storage.tmpfs.mount", f"{hot!r} is storage.scratch.mount as well", "give each its own"
    if scratch.startswith(f"{hot}/"):
        yield "storage.scratch.mount", f"{scratch!r} lies in memory (storage.tmpfs.mount {hot})", "name another path"


def _disks(storage: Storage) -> Wrong:
    """A disk has one purpose and is named once."""
    seen: dict[str, str] = {}
    for name, serials in (("scratch", storage.scratch.disks or ()), ("project", storage.project.disks)):
        for index, serial in enumerate(serials):
            where = f"storage.{name}.disks[{index}]"
            if serial in seen:
                yield where, f"{serial!r} is already {seen[serial]}", "a disk has one purpose"
            seen.setdefault(serial, where)


def _consents(storage: Storage) -> Wrong:
    seen: dict[object, int] = {}
    for index, consent in enumerate(storage.wipe):
        if consent in seen:
            text = f"the consent for {consent.serial!r} is already storage.wipe[{seen[consent]}]"
            yield f"storage.wipe[{index}]", text, "leave one out"
        seen.setdefault(consent, index)


def _software(site: Site) -> Wrong:
    chosen = site.software
    sources = (chosen.sources.driver, chosen.sources.cuda)
    if chosen.repositories.cuda and "vendor" not in sources:
        text = f"nothing is taken from it: sources.driver is {sources[0]}, sources.cuda is {sources[1]}"
        yield "software.repositories.cuda", text, "leave one of them at vendor, whose mirror it is"
    if chosen.cuda_beside and chosen.sources.cuda == "distribution":
        text = f"{', '.join(chosen.cuda_beside)}: a distribution has one toolkit"
        yield "software.cuda_beside", text, "take sources.cuda: vendor"
    seen: dict[str, int] = {}
    for index, environment in enumerate(chosen.environments or ()):
        if environment.name in seen:
            text = f"{environment.name!r} is already software.environments[{seen[environment.name]}]"
            yield f"software.environments[{index}].name", text, "each environment is a folder of its own"
        seen.setdefault(environment.name, index)
    if chosen.distro is None:
        return
    from llmhw_provision.catalogue.software import software  # not at the top: most sites leave it to discover

    known = tuple(software().distros)
    if chosen.distro not in known:
        yield "software.distro", f"{chosen.distro[:60]!r} is not in the matrix", f"known: {', '.join(known)}"


def _tuning(site: Site) -> Wrong:
    if site.host_tuning.profile != "none":
        return
    for name in sorted(site.host_tuning.model_fields_set - {"profile"}):
        text = "host_tuning.profile is none, so nothing of it would be set"
        yield f"host_tuning.{name}", text, "leave one of them out"

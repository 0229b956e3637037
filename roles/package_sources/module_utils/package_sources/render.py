"""The files of package_sources, from the role's configuration. Pure: nothing is read here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ansible.module_utils.host_modules.files import HEAD, File

APT = {"sources": "/etc/apt/sources.list.d", "keyrings": "/etc/apt/keyrings", "preferences": "/etc/apt/preferences.d"}
DNF = {"sources": "/etc/yum.repos.d", "keyrings": "/etc/pki/rpm-gpg"}
_PRIORITY = 500  # what any source has by default: pins of the driver's own pinning package stay above it


def keyring(name: str, family: str) -> str:
    """Where the key of a source lies."""
    if family == "debian":
        return f"{APT['keyrings']}/llmhw-{name}.asc"
    return f"{DNF['keyrings']}/RPM-GPG-KEY-llmhw-{name}"


def source_path(name: str, family: str) -> str:
    """Where the source itself is written."""
    return f"{APT['sources']}/llmhw-{name}.sources" if family == "debian" else f"{DNF['sources']}/llmhw-{name}.repo"


def preferences_path(name: str) -> str:
    """Sorted after the file of nvidia-driver-pinning, whose pins of a version come first."""
    return f"{APT['preferences']}/zz-llmhw-{name}.pref"


def source_text(source: Mapping[str, Any], family: str, key_path: str) -> str:
    """The source in deb822, or as a repository of dnf; it accepts the one key alone."""
    if family == "debian":
        lines = ["Types: deb", f"URIs: {source['uri']}", f"Suites: {' '.join(source['suites'])}"]
        lines += [f"Components: {' '.join(source['components'])}"] if source["components"] else []
        return HEAD + "\n".join([*lines, f"Signed-By: {key_path}"]) + "\n"
    lines = [f"[llmhw-{source['name']}]", f"name=llmhw-{source['name']}", f"baseurl={source['uri']}", "enabled=1"]
    # of several repositories that have a package, dnf takes the one with the lowest number; 99 is the default
    lines += ["gpgcheck=1", "repo_gpgcheck=1", f"gpgkey=file://{key_path}", "priority=50"]
    lines += [f"excludepkgs={' '.join(source['never'])}"] if source["never"] else []
    return HEAD + "\n".join(lines) + "\n"


def preferences_text(source: Mapping[str, Any], pin: str) -> str:
    """apt's preferences: `only` names come from `pin` and from nowhere else, `never` names not from it."""
    stanzas = []
    if source["only"]:
        names = " ".join(source["only"])
        stanzas.append(f"Package: {names}\nPin: {pin}\nPin-Priority: {_PRIORITY}\n")
        stanzas.append(f"Package: {names}\nPin: release *\nPin-Priority: -1\n")
    if source["never"]:
        stanzas.append(f"Package: {' '.join(source['never'])}\nPin: {pin}\nPin-Priority: -1\n")
    return HEAD + "\n".join(stanzas)


def pin_of(source: Mapping[str, Any], release: str) -> str:
    """What tells this source from others: origin and label of its Release, or its host where it has neither."""
    fields = dict(line.split(": ", 1) for line in release.splitlines() if ": " in line and not line.startswith(" "))
    words = [f"{short}={fields[name]}" for name, short in (("Origin", "o"), ("Label", "l")) if fields.get(name)]
    return f"release {','.join(words)}" if words else f'origin "{urlsplit(source["uri"]).hostname or ""}"'


def files(source: Mapping[str, Any], family: str, key: str) -> list[File]:
    """Key and source; the preferences follow once the source has been read."""
    path = keyring(source["name"], family)
    return [File(path, key), File(source_path(source["name"], family), source_text(source, family, path))]

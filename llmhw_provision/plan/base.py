"""site_base of one host: only what site.yaml asks for, and what several hosts of a site need of each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from llmhw_provision.errors import InputError, Problem
from llmhw_provision.plan.model import Note
from llmhw_provision.plan.roles_base import (
    AptMirror,
    Certificate,
    DnfMirror,
    Firewall,
    HostEntry,
    Proxy,
    ServiceUser,
    SiteBaseConfig,
)
from llmhw_provision.site import Site
from llmhw_provision.site_base import SiteBase, is_address

# port → purpose; opened between the hosts of a site only
CLUSTER_PORTS = {
    "22/tcp": "ssh between hosts (mpirun, pdsh)",
    "29500/tcp": "torchrun's rendezvous (PyTorch: default of --master-port)",
    "32768-60999/tcp": "NCCL and Gloo sockets (Linux: default of net.ipv4.ip_local_port_range)",
}
SLURM_PORTS = {"6817-6819/tcp": "slurmctld, slurmd and slurmdbd (slurm.conf(5): defaults)"}


@dataclass(frozen=True)
class BasePlan:
    """What site_base is given for one host, and why; `config` is None where nothing is asked for."""

    config: SiteBaseConfig | None
    creates: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


def plan_base(host: str, site: Site) -> BasePlan:
    """site_base of `host`."""
    wanted = site.site_base
    entries, entry_notes = _entries(host, site)
    firewall, firewall_notes = _firewall(host, site)
    config = SiteBaseConfig(
        certificates=tuple(Certificate(name=_certificate(path), file=path) for path in wanted.certificates),
        apt_mirrors=tuple(AptMirror(**source.model_dump()) for source in wanted.mirrors.apt),
        dnf_mirrors=tuple(DnfMirror(**source.model_dump()) for source in wanted.mirrors.dnf),
        mirrors_only=wanted.mirrors.only,
        python_index=wanted.python_index,
        proxy=Proxy(**wanted.proxy.model_dump()) if wanted.proxy else None,
        host_entries=entries,
        time_servers=wanted.time_servers,
        packages=wanted.packages,
        users=tuple(ServiceUser(name=u.name, uid=u.uid, gid=u.gid or u.uid) for u in wanted.users),
        firewall=firewall,
    )
    if config == _NOTHING:
        return BasePlan(None)
    return BasePlan(config, _creates(config), (*_notes(host, wanted), *entry_notes, *firewall_notes))


_NOTHING = SiteBaseConfig(
    certificates=(),
    apt_mirrors=(),
    dnf_mirrors=(),
    mirrors_only=False,
    host_entries=(),
    time_servers=(),
    packages=(),
    users=(),
    firewall=Firewall(ports=(), sources=()),
)


def site_files(wanted: SiteBase) -> dict[str, str]:
    """Key of site.yaml to file on the controller that it names."""
    found = {f"site_base.certificates[{i}]": path for i, path in enumerate(wanted.certificates)}
    found |= {f"site_base.mirrors.apt[{i}].key_file": item.key_file for i, item in enumerate(wanted.mirrors.apt)}
    found |= {f"site_base.mirrors.dnf[{i}].key_file": item.key_file for i, item in enumerate(wanted.mirrors.dnf)}
    if wanted.proxy and wanted.proxy.credentials_file:
        found["site_base.proxy.credentials_file"] = wanted.proxy.credentials_file
    return found


def require_files(wanted: SiteBase, folder: Path, more: Mapping[str, str] | None = None) -> None:
    """Raises InputError for every file that site.yaml names and that is not there, or that others may read."""
    problems = []
    for key, name in (site_files(wanted) | dict(more or {})).items():
        path = folder / name
        if not path.is_file():
            problems.append(
                Problem(f"{folder / 'site.yaml'}: {key}: no file {path}", "paths start at the site's folder")
            )
        elif key.endswith("credentials_file") and path.stat().st_mode & 0o077:
            mode = f"{path.stat().st_mode & 0o777:04o}"
            problems.append(Problem(f"{path}: holds credentials and has mode {mode}", f"chmod 0600 {path}"))
    if problems:
        raise InputError.of(problems)


def _certificate(path: str) -> str:
    return PurePosixPath(path).stem.lower().replace("_", "-").replace(".", "-")


def _entries(host: str, site: Site) -> tuple[tuple[HostEntry, ...], tuple[Note, ...]]:
    asked = site.site_base.host_entries
    if asked is False or (asked is None and len(site.hosts) < 2):
        return (), ()
    hosts = sorted(site.hosts, key=lambda item: item.name)
    entries = tuple(HostEntry(name=item.name, address=item.address) for item in hosts if is_address(item.address))
    left = ", ".join(item.name for item in hosts if not is_address(item.address))
    note = Note(
        host=host,
        rule="hosts of a site know each other by name, without DNS",
        choice=f"{len(entries)} lines in a block of /etc/hosts"
        + (f"; not {left}: reached by a DNS name" if left else ""),
        source="site.yaml, addresses of the hosts",
    )
    return entries, (note,)


def _firewall(host: str, site: Site) -> tuple[Firewall, tuple[Note, ...]]:
    wanted = site.site_base.firewall
    sources = tuple(sorted({item.address for item in site.hosts if is_address(item.address)}))
    if not wanted.open or len(sources) < 2:
        return Firewall(ports=(), sources=()), ()
    known = CLUSTER_PORTS | (SLURM_PORTS if site.software.slurm else {})
    ports = tuple(dict.fromkeys((*known, *wanted.ports)))
    note = Note(
        host=host,
        rule="a firewall is never switched on; where one drops, planned ports are opened between the site's hosts",
        choice=", ".join(ports),
        inputs=tuple(f"{port}: {known.get(port, 'site.yaml')}" for port in ports),
        source="site_base.firewall in site.yaml; PyTorch and NCCL documentation",
    )
    return Firewall(ports=ports, sources=sources), (note,)


def _creates(config: SiteBaseConfig) -> tuple[str, ...]:
    found = [f"trust in the CA {item.name}" for item in config.certificates]
    found += [f"package source {item.name} (apt)" for item in config.apt_mirrors]
    found += [f"package source {item.name} (dnf)" for item in config.dnf_mirrors]
    found += ["the distribution's own package sources set aside"] if config.mirrors_only else []
    found += [f"Python index {config.python_index} for pip and uv"] if config.python_index else []
    found += [f"proxy {config.proxy.url} for packages and services"] if config.proxy else []
    found += [f"{len(config.host_entries)} lines in /etc/hosts"] if config.host_entries else []
    found += [f"time from {', '.join(config.time_servers)} by chrony"] if config.time_servers else []
    found += [f"packages {', '.join(config.packages)}"] if config.packages else []
    found += [f"user {user.name} with uid {user.uid}" for user in config.users]
    return tuple(found)


def _notes(host: str, wanted: SiteBase) -> list[Note]:
    found = []
    if wanted.proxy:
        where = "apt only, in files that root alone reads" if wanted.proxy.credentials_file else "everybody"
        found.append(("credentials of a proxy never leave root's files", f"{wanted.proxy.url} for {where}"))
    if wanted.time_servers:
        text = f"chrony with {', '.join(wanted.time_servers)}; an ntpd or ptp4l that works already is kept"
        found.append(("clocks of a site agree to well under a second (munge)", text))
    if wanted.mirrors.only:
        found.append(("a site without internet has no other package source", "the distribution's files are set aside"))
    if wanted.users:
        text = ", ".join(f"{user.name} {user.uid}:{user.gid or user.uid}" for user in wanted.users)
        found.append(("a service user has one number on all hosts", text))
    return [Note(host=host, rule=rule, choice=choice, source="site_base in site.yaml") for rule, choice in found]

"""The interface of the roles site_base and host_tuning; `plan/roles.py` lists them with the others."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from llmhw_provision.documents import Record
from llmhw_provision.site_base import Account, Argument, Item, SysctlKey

Port = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,5}(-[0-9]{1,5})?/(tcp|udp)$")]
Unit = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+\.target$")]


class Certificate(Record):
    """A CA that the host trusts beyond those of its distribution."""

    name: Item = Field(description="name of the file on the host")
    file: str = Field(description="PEM file on the controller, relative to the site's folder")


class AptMirror(Record):
    """One package source of Debian and its relatives."""

    name: Item = Field(description="name of the source and of its keyring")
    uri: str = Field(description="address of the archive")
    suites: tuple[str, ...] = Field(min_length=1, description="suites; one that ends in / stands for a flat archive")
    components: tuple[str, ...] = Field(description="components; none for a flat archive")
    key_file: str = Field(description="public key (ASCII armour) on the controller; the only one this source accepts")


class DnfMirror(Record):
    """One package source of EL."""

    name: Item = Field(description="name of the repository")
    url: str = Field(description="base address of the repository")
    key_file: str = Field(description="public key (ASCII armour) on the controller; packages are checked against it")


class Proxy(Record):
    """The way out. The address carries no credentials: they stay in a file on the controller."""

    url: str = Field(description="address without user and password")
    no_proxy: tuple[str, ...] = Field(description="names, addresses and networks that are reached directly")
    credentials_file: str | None = Field(
        default=None, description="file on the controller with USER:PASSWORD, mode 0600; may be encrypted by vault"
    )


class HostEntry(Record):
    """One line of /etc/hosts."""

    name: str = Field(description="host name")
    address: str = Field(description="IP address")


class ServiceUser(Record):
    """An account that must have the same number on every host."""

    name: Account = Field(description="name of the user and of its group")
    uid: int = Field(ge=100, le=4_000_000_000, description="number of the user")
    gid: int = Field(ge=100, le=4_000_000_000, description="number of the group")


class Firewall(Record):
    """Ports opened between the hosts of the site, where a firewall is found that would close them."""

    ports: tuple[Port, ...] = Field(description="port or range with protocol, such as 6817-6819/tcp")
    sources: tuple[str, ...] = Field(description="IP addresses of the site's hosts: nobody else is let in")


class SiteBaseConfig(Record):
    """Role site_base: what the site's network and rules ask of every host before anything is installed."""

    certificates: tuple[Certificate, ...] = Field(description="CAs to trust")
    apt_mirrors: tuple[AptMirror, ...] = Field(description="package sources of Debian and its relatives")
    dnf_mirrors: tuple[DnfMirror, ...] = Field(description="package sources of EL")
    mirrors_only: bool = Field(description="set the distribution's own package sources aside (kept, not deleted)")
    python_index: str | None = Field(default=None, description="Python package index of pip and uv")
    proxy: Proxy | None = Field(default=None, description="the way out")
    host_entries: tuple[HostEntry, ...] = Field(description="the site's hosts in /etc/hosts, in a block of its own")
    time_servers: tuple[str, ...] = Field(description="time servers of chrony; none: the time service is left alone")
    packages: tuple[str, ...] = Field(description="packages to install, by Debian's names")
    users: tuple[ServiceUser, ...] = Field(description="service users with fixed numbers")
    firewall: Firewall = Field(description="ports to open where a firewall is found")


class Limits(Record):
    """Limits of login sessions (limits.d) and of services (systemd)."""

    memlock_kib: int | None = Field(default=None, ge=64, description="KiB that may be locked; absent: unlimited")
    nofile_soft: int = Field(ge=1024, description="open files a process starts with")
    nofile_hard: int = Field(ge=1024, description="open files a process may ask for")


class HostTuningConfig(Record):
    """Role host_tuning: kernel settings, limits, clock and memory policy, command line, no sleep."""

    profile: Literal["server", "desktop"] = Field(description="which set of values the plan has started from")
    sysctl: dict[SysctlKey, str] = Field(description="kernel settings, key to value")
    limits: Limits = Field(description="limits of sessions and services")
    governor: str = Field(description="CPU frequency governor; as-found: left alone")
    hugepages: Literal["as-found", "always", "madvise", "never"] = Field(
        description="transparent huge pages; as-found: left alone"
    )
    command_line: tuple[Argument, ...] = Field(description="arguments added to the kernel command line")
    acs: Literal["report", "clear"] = Field(
        description="clear: take ACS away on the PCI bridges above GPUs and NICs at boot"
    )
    mask: tuple[Unit, ...] = Field(description="systemd targets that must never be reached")

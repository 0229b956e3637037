"""The parts of site.yaml that the base roles follow: `site_base` and `host_tuning`."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from llmhw_provision.documents import Record

Item = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")]
Account = Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_-]{0,31}$")]
SysctlKey = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_-]+([./][A-Za-z0-9_*-]+)+$")]
Argument = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]+(=[A-Za-z0-9_.,:/@+-]+)?$")]
_PORTS = re.compile(r"^([0-9]{1,5})(?:-([0-9]{1,5}))?/(tcp|udp)$")


def _ports(value: str) -> str:
    match = _PORTS.match(value)
    numbers = [int(part) for part in match.groups()[:2] if part] if match else []
    if not numbers or not all(0 < number < 65536 for number in numbers) or numbers != sorted(numbers):
        raise ValueError(f"{value[:40]!r} is no port; write for example '6817-6819/tcp'")
    return value


def _url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"[\s\"']", value):
        raise ValueError(
            f"{parts.scheme}://{parts.hostname or ''} is no address; write for example 'http://mirror/debian'"
        )
    if "@" in parts.netloc:
        raise ValueError("an address with user or password is refused; put USER:PASSWORD into credentials_file")
    return value


def _file(value: str) -> str:
    if not value or re.search(r"[\n{}'\"]", value):
        raise ValueError(f"{value[:40]!r} is no path; write for example 'keys/mirror.asc'")
    return value


def _word(value: str) -> str:
    if not re.match(r"^[A-Za-z0-9][A-Za-z0-9./:_+~*-]{0,252}$", value):
        raise ValueError(f"{value[:40]!r} is not accepted")
    return value


def _suite(value: str) -> str:
    return value if value in ("/", "./") else _word(value)


PortRange = Annotated[str, AfterValidator(_ports)]
Url = Annotated[str, AfterValidator(_url)]
SiteFile = Annotated[str, AfterValidator(_file)]
Word = Annotated[str, AfterValidator(_word)]
Suite = Annotated[str, AfterValidator(_suite)]
Direct = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.*:/_-]{1,253}$")]


class AptSource(Record):
    """A package source of Debian and its relatives."""

    name: Item
    uri: Url
    suites: tuple[Suite, ...] = Field(min_length=1)
    components: tuple[Word, ...] = ("main",)
    key_file: SiteFile = Field(description="public key in ASCII armour; relative to the site's folder")


class DnfSource(Record):
    """A package source of EL."""

    name: Item
    url: Url
    key_file: SiteFile = Field(description="public key in ASCII armour; relative to the site's folder")


class Mirrors(Record):
    """Package sources of the site."""

    apt: tuple[AptSource, ...] = ()
    dnf: tuple[DnfSource, ...] = ()
    only: bool = Field(default=False, description="set the distribution's own sources aside")


class SiteProxy(Record):
    """The site's proxy."""

    url: Url
    no_proxy: tuple[Direct, ...] = ()
    credentials_file: SiteFile | None = Field(
        default=None, description="file with USER:PASSWORD, mode 0600, may be encrypted by ansible-vault"
    )


class SiteUser(Record):
    """A service user with the same number on every host."""

    name: Account
    uid: int = Field(ge=100, le=4_000_000_000)
    gid: int | None = Field(default=None, ge=100, le=4_000_000_000, description="default: the uid")


class SiteFirewall(Record):
    """What may pass between the hosts of the site."""

    open: bool = Field(default=True, description="false: no rule is ever added")
    ports: tuple[PortRange, ...] = Field(default=(), description="in addition to the planned ones")


class SiteBase(Record):
    """What the site's network and rules ask of every host."""

    certificates: tuple[SiteFile, ...] = Field(default=(), description="CA certificates (PEM); NAME.pem")
    mirrors: Mirrors = Mirrors()
    python_index: Url | None = Field(default=None, description="Python package index, the one with /simple")
    proxy: SiteProxy | None = None
    host_entries: bool | None = Field(default=None, description="/etc/hosts; default: where the site has several hosts")
    time_servers: tuple[Word, ...] = ()
    packages: tuple[Word, ...] = ()
    users: tuple[SiteUser, ...] = ()
    firewall: SiteFirewall = SiteFirewall()

    @model_validator(mode="after")
    def _unique(self) -> Self:
        for key, values in (
            ("users: name", [user.name for user in self.users]),
            ("users: uid", [str(user.uid) for user in self.users]),
            ("mirrors.apt: name", [source.name for source in self.mirrors.apt]),
            ("mirrors.dnf: name", [source.name for source in self.mirrors.dnf]),
        ):
            twice = next((value for value in values if values.count(value) > 1), None)
            if twice is not None:
                raise ValueError(f"{key} {twice!r} stands there twice")
        if self.mirrors.only and not (self.mirrors.apt or self.mirrors.dnf):
            raise ValueError("mirrors.only without a mirror would leave the hosts without any package source")
        return self


class SiteTuning(Record):
    """Overrides of how hosts are tuned."""

    profile: Literal["server", "desktop", "none"] | None = Field(
        default=None, description="default: desktop for a desktop machine, none for a virtual one, else server"
    )
    sysctl: dict[SysctlKey, str] = Field(
        default={}, description="kernel settings that replace or join the planned ones"
    )
    command_line: tuple[Argument, ...] | None = Field(default=None, description="replaces the planned arguments")
    governor: Word | None = Field(default=None, description="CPU frequency governor")
    acs: Literal["report", "clear"] = Field(default="report", description="clear: take ACS away above GPUs at boot")
    sleep: bool = Field(default=False, description="true: the machine may still suspend")


def is_address(text: str) -> bool:
    """Whether `text` is an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True

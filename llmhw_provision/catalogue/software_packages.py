"""What software.yml says of package repositories: their keys, addresses and the names of packages."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from llmhw_provision.catalogue.loader import Dated

Modules = Literal["open", "closed"]
PackageOrigin = Literal["vendor", "distribution"]


class SigningKey(Dated):
    """A vendor's key for package repositories; `file` is its name beside the packages."""

    fingerprint: Annotated[str, Field(pattern=r"^[0-9A-F]{40}$")]
    file: str


class Repository(Dated):
    """A package repository; `deb` and `rpm` name what sets it up."""

    url: str
    deb: str
    rpm: str
    slugs: tuple[str, ...] = ()
    driver_names: tuple[str, ...] = Field(default=(), description="names that distributions' archives offer too")


class PackageRule(Dated):
    """Packages of one component from one kind of source; `from` and `below` are driver branches."""

    component: str
    origin: PackageOrigin
    distros: tuple[str, ...]
    modules: tuple[Modules, ...] = ("open", "closed")
    since: int = Field(default=0, alias="from")
    below: int = 10_000
    names: tuple[str, ...]
    lock: str = ""
    stream: str = ""
    needs: tuple[str, ...] = ()
    modules_load: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    excludes: tuple[str, ...] = Field(default=(), description="names that no other repository may give")
    leaves: tuple[str, ...] = Field(default=(), description="names of this source that are taken from another")

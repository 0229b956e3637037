"""What the resolver answers: one set of versions for one host, each choice with its reason."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from llmhw_provision.documents import Record


class Package(Record):
    """A package; `version` is upstream's, without the packager's revision, empty where the name says enough."""

    name: str
    version: str = ""

    def __str__(self) -> str:
        return f"{self.name}={self.version}" if self.version else self.name


class Choice(Record):
    """One decision: what, by which rule, from which record."""

    topic: str
    choice: str
    rule: str
    packages: tuple[Package, ...] = ()
    needs: tuple[str, ...] = Field(default=(), description="what must be there first")
    lock: str = Field(default="", description="what keeps the packages at their version")
    stream: str = Field(default="", description="module stream of dnf to enable")
    modules_load: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    excludes: tuple[str, ...] = Field(default=(), description="names that no other repository may give")
    leaves: tuple[str, ...] = Field(default=(), description="names of this source that are taken from another")
    source: str
    date: str
    confidence: Literal["high", "medium", "low"]


class PackageSource(Record):
    """A repository that a host gets; `setup` is the package or file that brings list and key."""

    name: str
    url: str
    setup: str = ""
    key: str = ""
    fingerprint: str = Field(default="", description="of the key, 40 hexadecimal digits")


class Driver(Record):
    """The driver, to the last digit."""

    branch: str
    version: str
    modules: Literal["open", "closed"]


class ResolvedEnvironment(Record):
    """A Python environment: the lock that holds it and the exact versions of its top level."""

    name: str
    lock: str
    python: str
    cuda: str
    requirements: tuple[str, ...]


class Stack(Record):
    """Everything that fits together on a host; `hosts` share it."""

    hosts: tuple[str, ...]
    distro: str
    architecture: str
    gpu: str
    driver: Driver | None
    fabric_manager: str | None = Field(description="version, that of the driver; None without NVSwitch")
    cuda: str | None
    slurm: str | None
    gres: str | None = Field(description="line of gres.conf; None without Slurm")
    environments: tuple[ResolvedEnvironment, ...]
    repositories: tuple[PackageSource, ...]
    choices: tuple[Choice, ...]
    warnings: tuple[str, ...]

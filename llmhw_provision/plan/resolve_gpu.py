"""Driver, kernel modules, fabric manager, CUDA and what hangs on them."""

from __future__ import annotations

from llmhw_provision.catalogue.loader import Dated
from llmhw_provision.catalogue.software import DriverBranch, Environment, GpuArchitecture, SeenVersion, ordered
from llmhw_provision.catalogue.software_packages import Modules
from llmhw_provision.plan.findings import Findings
from llmhw_provision.plan.stack import Driver


def resolve_driver(found: Findings) -> Driver | None:
    """The driver of the host, to the last digit; None, with a problem, when the branch is not known.

    A branch that is refused is still returned, so that what else does not fit it is said in the same answer.
    """
    wanted = found.request.choices.driver
    branch = wanted.split(".")[0] if wanted else _default_branch(found)
    record = found.software.drivers.get(branch)
    if record is None:
        known = ", ".join(found.software.drivers)
        found.refuse(f"driver {branch}: no such branch is recorded", f"known: {known}", found.software.catalogue)
        return None
    _refuse_ended(found, branch, record)
    _refuse_stub(found, branch, record)
    seen = None if wanted and "." in wanted else _seen(found, branch, record)
    version = wanted if wanted and "." in wanted else seen.version if seen else branch
    driver = Driver(branch=branch, version=version, modules=_modules(found, branch, record))
    if found.architecture:
        _fits_gpu(found, version, found.architecture)
    _install_driver(found, driver, record, seen)
    return driver


def _origin(found: Findings) -> str:
    """`distribution`, or `vendor` for the vendor's repository and its mirrors."""
    return "distribution" if found.request.choices.sources.driver == "distribution" else "vendor"


def _seen_at(found: Findings) -> str:
    return found.request.distro if _origin(found) == "distribution" else "vendor"


def _default_branch(found: Findings) -> str:
    """The catalogue's default; a distribution that carries a single branch decides it."""
    carried = [name for name, item in found.software.drivers.items() if _seen_at(found) in item.versions]
    debian = _origin(found) == "distribution" and found.distro.os == "debian"
    return carried[-1] if debian and carried else found.software.catalogue.default_driver


def _refuse_ended(found: Findings, branch: str, record: DriverBranch) -> None:
    if not record.over(found.request.day):
        return
    when = f"ended with {record.end_of_life}" if record.end_of_life else "is over"
    if found.request.choices.eol_ok:
        found.warn(f"driver {branch}: support {when}; taken because of eol_ok")
        return
    supported = [name for name, item in found.software.drivers.items() if not item.over(found.request.day)]
    hint = f"supported: {', '.join(supported)}; or software.eol_ok: true"
    found.refuse(f"driver {branch}: support {when}", hint, record)


def _refuse_stub(found: Findings, branch: str, record: DriverBranch) -> None:
    if record.archive_stub_of and _origin(found) == "distribution" and found.distro.os == "ubuntu":
        found.refuse(
            f"driver {branch}: Ubuntu's packages of it are stubs that install {record.archive_stub_of}",
            f"choose driver {record.archive_stub_of}, or sources.driver: vendor",
            record,
        )


def _seen(found: Findings, branch: str, record: DriverBranch) -> SeenVersion | None:
    seen = record.versions.get(_seen_at(found))
    if seen is None:
        where = f"{found.distro.title}'s archive" if _origin(found) == "distribution" else "NVIDIA's repository"
        hint = f"write the version that the repository lists as software.driver: {branch}.NN.NN"
        if _origin(found) == "distribution" and found.distro.os == "debian":
            carried = _default_branch(found)
            own = found.software.drivers[carried].versions.get(found.request.distro)
            hint = f"{found.distro.title} carries {own.version if own else 'none'}; take sources.driver: vendor"
        found.refuse(f"driver {branch}: no full version of it is recorded for {where}", hint, record)
    return seen


def _modules(found: Findings, branch: str, record: DriverBranch) -> Modules:
    architecture, wanted = found.architecture, found.request.choices.modules
    runs_on = architecture.modules if architecture else ("open", "closed")
    gpu = found.request.gpu
    if wanted is None:
        both = [item for item in ("open", "closed") if item in runs_on and item in record.modules]
        if both:
            return "open" if "open" in both else "closed"
        wanted = runs_on[0]
    if architecture and gpu and wanted not in runs_on:
        what = f"{gpu.title} (compute capability {gpu.compute_capability}) runs only on the {runs_on[0]} kernel modules"
        found.refuse(f"modules {wanted}: {what}", f"leave software.modules out, or write {runs_on[0]}", architecture)
        return runs_on[0]
    if wanted not in record.modules:
        hint = f"write modules: {record.modules[0]}" if record.modules[0] in runs_on else "choose an older branch"
        found.refuse(
            f"modules {wanted}: driver {branch} has only {', '.join(record.modules)} kernel modules", hint, record
        )
    return wanted


def _fits_gpu(found: Findings, version: str, architecture: GpuArchitecture) -> None:
    gpu = found.request.gpu
    title = gpu.title if gpu else ""
    digits = len(ordered(version))  # a branch alone, where no version is recorded, is held to the branch
    if ordered(version) < ordered(architecture.min_driver)[:digits]:
        found.refuse(
            f"driver {version}: {title} needs {architecture.min_driver} or newer",
            f"choose driver {found.software.catalogue.default_driver}",
            architecture,
        )
    if architecture.last_driver and ordered(version)[0] > architecture.last_driver:
        found.refuse(
            f"driver {version}: {architecture.last_driver} is the last branch for {title}",
            f"choose driver {architecture.last_driver}",
            architecture,
        )


def _install_driver(found: Findings, driver: Driver, record: DriverBranch, seen: SeenVersion | None) -> None:
    by = "site.yaml" if found.request.choices.driver else ""
    until = f"support to {record.end_of_life}" if record.end_of_life else "end of support not recorded"
    found.choose("driver branch", driver.branch, f"{record.kind}, {until}", record, by=by)
    architecture = found.architecture
    if architecture:
        why = "what the GPU and the branch both run on; open where both do"
        found.choose("kernel modules", driver.modules, why, architecture)
    what = found.rule("driver", found.request.choices.sources.driver, branch=int(driver.branch), modules=driver.modules)
    if what:
        why = "one source for driver packages; branch names such as cuda-drivers-NNN end before 590"
        found.install(what, driver.version, why, _values(driver), version=seen, excludes=_driver_names(found))


def _values(driver: Driver) -> dict[str, str]:
    return {"branch": driver.branch, "driver": driver.version}


def _driver_names(found: Findings) -> tuple[str, ...]:
    """Names that CUDA repository and archive both offer; one may give them (NVIDIA/ansible-role-nvidia-driver#11)."""
    return found.software.repositories["cuda"].driver_names if found.distro.family == "deb" else ()


def resolve_fabric(found: Findings, driver: Driver) -> str | None:
    """The fabric manager's version, which is the driver's; None where the board has no NVSwitch."""
    request, architecture = found.request, found.architecture
    if not request.nvswitch or architecture is None:
        if architecture:
            found.choose(
                "fabric manager", "none", "only on NVSwitch boards; never for bridges or PCIe cards", architecture
            )
        return None
    what = found.rule("fabric manager", request.choices.sources.driver, branch=int(driver.branch))
    if what is None:
        return None
    found.install(what, driver.version, "the driver's version, digit for digit; held with it", _values(driver))
    if architecture.nvlink >= 5:
        switches = found.rule("nvlink 5 switches", request.choices.sources.driver, branch=int(driver.branch))
        if switches:
            why = "NVLink 5 switches are programmed through nvlsm; started by nvidia-fabricmanager-start.sh"
            found.install(switches, "nvlsm", why, _values(driver))
    return driver.version


def resolve_cuda(found: Findings, driver: Driver) -> str | None:
    """The CUDA toolkit, major.minor; None, with problems, when driver or GPU cannot run it."""
    software, choices = found.software, found.request.choices
    own = software.distribution_cuda.get(found.request.distro) if choices.sources.cuda == "distribution" else None
    wanted = choices.cuda or (own.version if own else software.catalogue.default_cuda)
    if own and wanted != own.version:
        hint = f"leave software.cuda out, write '{own.version}', or take sources.cuda: vendor"
        found.refuse(f"cuda {wanted}: {found.distro.title}'s own toolkit is {own.version}", hint, own)
        return None
    fitting = [version for version in dict.fromkeys((wanted, *choices.cuda_beside)) if _fits(found, version, driver)]
    if wanted not in fitting:
        return None
    record = software.cuda[wanted]
    if ordered(driver.version) < ordered(record.driver):
        found.warn(
            f"cuda {wanted} is bundled with driver {record.driver}; {driver.version} runs it by minor-version "
            "compatibility: code that brings only newer PTX fails"
        )
    by = "site.yaml" if found.request.choices.cuda else ""
    found.choose("cuda", wanted, f"bundled with driver {record.driver}", record, by=by)
    what = found.rule("cuda toolkit", choices.sources.cuda)
    if what:
        why = "always with its minor: bare cuda moves the driver"
        found.install(what, wanted, why, {"cuda_dash": wanted.replace(".", "-")})
        other = what.model_copy(update={"component": "cuda toolkit beside"})
        for version in fitting[1:]:
            found.install(other, version, "for code that is built with it", {"cuda_dash": version.replace(".", "-")})
    if choices.sources.cuda != "distribution":
        profiler = found.rule("nsight systems", choices.sources.cuda)
        if profiler:
            values = {"cuda_dash": wanted.replace(".", "-")}
            found.install(profiler, "Nsight Systems", "the first name that the source offers, or none", values)
    return wanted


def _fits(found: Findings, version: str, driver: Driver) -> bool:
    """Whether driver and GPU run that toolkit; else with problems."""
    software, before = found.software, len(found.problems)
    if version not in software.cuda:
        found.refuse(f"cuda {version}: not recorded", f"known: {', '.join(software.cuda)}", software.catalogue)
        return False
    refuse_cuda_on_driver(found, f"cuda {version}", version, driver)
    _refuse_cuda_on_gpu(found, version)
    return len(found.problems) == before


def refuse_cuda_on_driver(found: Findings, what: str, cuda: str, driver: Driver) -> None:
    """Adds a problem when the driver is older than the floor of the CUDA major that `what` brings."""
    major = cuda.split(".")[0]
    floor = found.software.cuda_majors[major]
    newest = found.software.drivers[driver.branch].max_cuda_major
    if ordered(driver.version) < ordered(floor.min_driver) or int(major) > newest:
        hint = f"choose driver {found.software.catalogue.default_driver}, or what is built for CUDA {newest}"
        found.refuse(f"{what} needs driver {floor.min_driver} or newer; {driver.version} is chosen", hint, floor)


def _refuse_cuda_on_gpu(found: Findings, wanted: str) -> None:
    architecture, gpu = found.architecture, found.request.gpu
    if architecture is None or gpu is None:
        return
    if ordered(wanted) < ordered(architecture.first_cuda):
        hint = f"choose cuda {found.software.catalogue.default_cuda}"
        found.refuse(f"cuda {wanted}: {gpu.title} needs {architecture.first_cuda} or newer", hint, architecture)
    last = architecture.last_cuda_major
    if last and ordered(wanted)[0] > last:
        hint = f"choose the newest cuda {last}, for example cuda: '{_newest(found, last)}'"
        found.refuse(f"cuda {wanted}: {last} is the last major for {gpu.title}", hint, architecture)


def _newest(found: Findings, major: int) -> str:
    return max((name for name in found.software.cuda if ordered(name)[0] == major), key=ordered)


def resolve_libraries(found: Findings, cuda: str, wheels: Environment) -> None:
    """cuDNN, NCCL, DCGM and the container toolkit, in the versions that the Python wheels and the driver go with."""
    sources, chosen, seen = found.request.choices.sources, found.request.choices.versions, found.software.versions
    versions = {
        "cudnn": wheels.cudnn,
        "nccl": wheels.nccl,
        "dcgm": chosen.dcgm or seen["dcgm"].version,
        "container_toolkit": chosen.container_toolkit or seen["container_toolkit"].version,
    }
    reasons: dict[str, tuple[str, Dated | None]] = {
        "cudnn": ("the version that the torch wheels carry", wheels),
        "nccl": ("the version that the torch wheels carry; for nccl-tests and MPI", wheels),
        "dcgm": ("DCGM 4 of the CUDA major, with profiling", None if chosen.dcgm else seen["dcgm"]),
        "container_toolkit": (
            "four packages, one version",
            None if chosen.container_toolkit else seen["container_toolkit"],
        ),
    }
    values = {"cuda": cuda, "cuda_major": cuda.split(".")[0], **versions}
    for key, (why, record) in reasons.items():
        origin = sources.container_toolkit if key == "container_toolkit" else sources.cuda
        if key != "container_toolkit" and origin == "distribution":
            found.warn(f"{key}: not from the distribution; the Python environments bring what they need")
            continue
        what = found.rule(key.replace("_", " "), origin)
        if what:
            found.install(what, versions[key], why, values, version=record)

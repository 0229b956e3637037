"""Python environments are those of the plan: the planned lock, every file of it, and the modules import."""

from __future__ import annotations

from llmhw_provision.checks.model import Check, Level, Outcome, failed, passed
from llmhw_provision.checks.views import NotThere
from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.plan.roles_python import EnvironmentConfig
from llmhw_provision.probes import python_envs

_MOST = 4


def _links(host: HostPlan) -> tuple[str, ...]:
    config = host.roles.python_env
    return tuple(f"{config.root}/envs/{item.name}" for item in config.environments) if config else ()


def _planned(host: HostPlan, link: str) -> EnvironmentConfig:
    config = host.roles.python_env
    if config is None:
        raise NotThere("python_env is not planned for this host")
    return next(item for item in config.environments if link == f"{config.root}/envs/{item.name}")


def environment(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """The link leads to an environment made from the planned lock, and no file of it is missing or cut."""
    item, found = _planned(host, subject), python_envs.environment(evidence, subject)
    back = item.use == "previous"
    expected = (
        "the environment before" if back else f"lock {item.lock} ({item.sha256[:12]}), CPython {item.interpreter}"
    )
    if not found.folder:
        return failed("no such environment", expected, "absent")
    if not found.lock:
        return failed(f"{found.folder} was never finished", expected, "absent")
    if (found.lock != item.sha256) != back:
        return failed(f"leads to lock {found.lock[:12]}", expected, "other")
    if not back and not f"{found.python}.".startswith(f"{item.interpreter}."):
        return failed(f"CPython {found.python or 'that does not run'}", expected)
    if found.faults:
        more = f" and {len(found.faults) - _MOST} more" if len(found.faults) > _MOST else ""
        return failed("; ".join(found.faults[:_MOST]) + more, expected)
    return passed(f"lock {found.lock[:12]}, CPython {found.python}", expected)


def imported(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """The top-level modules import, and torch is built for the planned CUDA."""
    item = _planned(host, subject)
    if not python_envs.environment(evidence, subject).lock:
        raise NotThere(f"{subject} is not there")
    found = python_envs.imports(evidence, subject)
    expected = f"{len(item.imports)} modules import, torch for {_cuda(item.cuda)}"
    wrong = [f"{name}: {why}" for name, why in sorted(found.wrong.items())]
    if found.cuda is not None and found.cuda != item.cuda:
        wrong.append(f"torch is built for {_cuda(found.cuda)}")
    return failed("; ".join(wrong), expected) if wrong else passed(f"{len(item.imports)} modules import", expected)


def _cuda(version: str) -> str:
    return f"CUDA {version}" if version else "CPUs"


def commands(host: HostPlan, level: Level) -> tuple[Command, ...]:
    """What must be read on the host to answer these checks."""
    links = _links(host)
    if not links:
        return ()
    found = [python_envs.command(links)]
    if level == "standard":
        found += [python_envs.import_command(link, _planned(host, link).imports) for link in links]
    return tuple(found)


_PAGE = "python-env"
CHECKS = (
    Check("python-env", "python", ("quick",), "major", _PAGE, python_envs.KEY, _links, environment),
    Check("python-import", "python", ("standard",), "major", _PAGE, "python-import:{mount}", _links, imported),
)

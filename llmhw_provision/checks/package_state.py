"""Before apply: can packages be installed."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from llmhw_provision.checks.gpu_plan import stack_of
from llmhw_provision.checks.model import Check, Level, Outcome, failed, passed, warned
from llmhw_provision.checks.views import array_names, volumes, whole_host
from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import package_tools, packages, processes
from llmhw_provision.probes.gpu_packages import PATTERNS

_MOST = 8


# What makes and keeps a file system; vars/ of the role nvme_raid0 hold the same names by program.
FILESYSTEMS = {"xfs": "xfsprogs", "ext4": "e2fsprogs"}


def planned(host: HostPlan) -> tuple[str, ...]:
    """Names of the packages that the host's roles install; those the site asks for only where they are Debian's."""
    found, base, python = volumes(host), host.roles.site_base, host.roles.python_env
    of_site = base.packages if base and host.os.startswith(("Debian", "Ubuntu")) else ()
    quotas = any(item.filesystem == "ext4" and "prjquota" in item.mount_options for item in found)
    names = (
        *(("mdadm",) if array_names(host) else ()),
        *(FILESYSTEMS[item.filesystem] for item in found),
        *(("quota",) if quotas else ()),
        *of_site,
        *(name for item in (python.interpreters if python else ()) for name in item.packages),
    )
    return tuple(dict.fromkeys(names))


def sources(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Every package source answers the host."""
    found = packages.sources(evidence)
    bad = [source for source in found if source.reason]
    expected = "every source answers"
    if bad:
        text = "; ".join(f"{source.uri}: {source.reason}" for source in bad[:_MOST])
        if all(_cured(host, source) for source in bad):
            return warned(text, expected, "signed-by")
        if _other_way(host):
            return warned(f"{text} (apply sets the site's own way)", expected, "other-way")
        return failed(text, expected, "dns" if any("resolv" in source.reason for source in bad) else "")
    if not found and not _other_way(host) and any(_lacks(evidence, name) for name in planned(host)):
        return failed("no source over the network", expected)
    return passed(f"{len(found)} answer", expected)


def _cured(host: HostPlan, source: packages.Source) -> bool:
    """Whether apt refuses all lists for two keys of a source that apply sets up: the role sets the others aside."""
    match = re.search(r"Conflicting values set for option Signed-By regarding source (\S+)", source.reason)
    stack = stack_of(host)
    return bool(match and stack and stack.sets_aside(match[1]))


def _other_way(host: HostPlan) -> bool:
    """Whether apply gives the host mirrors or a proxy that it has not got yet: the sources of today say little then."""
    base = host.roles.site_base
    return base is not None and bool(base.apt_mirrors or base.dnf_mirrors or base.proxy)


def _lacks(evidence: Evidence, name: str) -> bool:
    seen = packages.candidate(evidence, name)
    return seen is None or not seen.installed


def candidate(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """A source offers the package, or it is installed."""
    seen, expected = packages.candidate(evidence, subject), "installed, or offered by a source"
    if not packages.has_lists(evidence) and not (seen and seen.installed):
        return warned("package lists were never fetched", expected, "no-lists")
    if (seen is None or not (seen.installed or seen.candidate)) and _other_way(host):
        return warned("no source of today offers it", expected, "other-way")
    if seen is None or not (seen.installed or seen.candidate):
        return failed("no source offers it", expected)
    return passed(f"{seen.installed} is installed" if seen.installed else f"{seen.candidate} is offered", expected)


def solvable(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The system's tool would install the planned packages together."""
    found = package_tools.solution(evidence)
    expected = "all of them can be installed together"
    if not found:
        return passed(expected, expected)
    error = str(found["error"]).replace("_", "-")
    text = f"{error.replace('-', ' ')} {found.get('what') or ''}".strip()
    return failed(text, expected, error if error in ("nothing-provides", "conflict", "unmet") else "")


def _together(host: HostPlan) -> tuple[str, ...]:
    return ("",) if host.expected and host.expected.packages else ()


def commands(host: HostPlan) -> tuple[Command, ...]:
    """What must be read on the host beside the state of its packages."""
    return (package_tools.solve_command(host.expected.packages),) if host.expected and _together(host) else ()


def states(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Nothing of others was left half-installed.

    A dpkg that was cut off and packages of our roles are finished by the next installation: that is how apply goes on
    after its own cut. The same holds for what is only not configured yet.
    """
    found, expected = packages.states(evidence), "every package whole"
    half = [name for name, state in found.items() if "H" in state or "R" in state[2:]]
    mine = planned(host)
    broken = [name for name in half if name not in mine and not _of_stack(host, name)]
    if broken:
        return failed(f"left half-way: {', '.join(broken[:_MOST])}", expected)
    ours = [*half, *("an interrupted dpkg" for state in found.values() if state == "!!")]
    if ours:
        return warned(f"left half-way: {', '.join(ours[:_MOST])}", expected, "waiting")
    waiting = [name for name, state in found.items() if state[1:2] in ("U", "F")]
    if waiting:
        return warned(f"not configured yet: {', '.join(waiting[:_MOST])}", expected, "waiting")
    return passed(expected, expected)


def _of_stack(host: HostPlan, name: str) -> bool:
    """Whether the roles of the GPU software install the package or what comes with it."""
    stack = stack_of(host)
    if stack is None:
        return False
    named = {*stack.packages, *(need.partition(">=")[0] for need in stack.driver.needs)}
    return name in named or any(fnmatchcase(name, pattern) for pattern in PATTERNS)


def locks(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Nobody else installs packages now."""
    found, expected = packages.locks(evidence), "free"
    if found.first_boot:
        return failed("cloud-init still sets the machine up", expected, "first-boot")
    if found.held:
        names = {each.pid: each.name for each in processes.processes(evidence)}
        who = [f"{path} by {names.get(pid, 'an unknown process')} (pid {pid})" for path, pid in found.held.items()]
        return failed(f"held: {', '.join(who)}", expected)
    return passed(expected, expected)


_B: tuple[Level, ...] = ("before",)
_PAGE = "preflight-packages"
CHECKS = (
    Check("package-sources", "packages", _B, "critical", _PAGE, "package-sources", whole_host, sources),
    Check("package-candidate", "packages", _B, "critical", _PAGE, "package-candidates", planned, candidate),
    Check("package-solution", "packages", _B, "critical", _PAGE, "package-solution", _together, solvable),
    Check("package-states", "packages", _B, "critical", _PAGE, "package-states", whole_host, states),
    Check("package-locks", "packages", _B, "critical", _PAGE, "package-locks", whole_host, locks),
)

"""Before apply: can we work on the machine at all."""

from __future__ import annotations

from llmhw_provision.checks.model import Check, Level, Outcome, failed, passed
from llmhw_provision.checks.views import whole_host
from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import readiness, system
from llmhw_provision.probes.reading import ProbeError

# docs/support.md. The value is how VERSION_ID of the release begins.
SUPPORTED = {
    "debian": ("12", "13"),
    "ubuntu": ("22.04", "24.04"),
    "rhel": ("9",),
    "rocky": ("9",),
    "almalinux": ("9",),
}
_ARCHITECTURES = ("x86_64",)
_PYTHON = (3, 9)  # ansible-core 2.21 on the controller asks for 3.9 on the hosts, 2.19 for 3.8


def reachable(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The host answers, and we are root there."""
    expected = "reached, as root"
    if evidence.problem:
        return failed(evidence.problem, expected)
    user = readiness.user_id(evidence)
    return passed(expected, expected) if user == 0 else failed(f"reached as user {user}", expected, "rights")


def supported(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """A release and an architecture that the roles know."""
    found = system.os_of(evidence)
    known = ", ".join(f"{name} {'/'.join(versions)}" for name, versions in SUPPORTED.items())
    text, expected = f"{found.pretty_name}, {found.architecture}", f"{known} on {'/'.join(_ARCHITECTURES)}"
    if found.architecture not in _ARCHITECTURES:
        return failed(text, expected)
    good = any(found.version == v or found.version.startswith(v + ".") for v in SUPPORTED.get(found.id, ()))
    return passed(text, expected) if good else failed(text, expected)


def python(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The Python that Ansible's modules run with."""
    found, expected = readiness.python_version(evidence), f"{_PYTHON[0]}.{_PYTHON[1]} or newer"
    text = ".".join(map(str, found)) or "no /usr/bin/python3"
    return passed(text, expected) if found >= _PYTHON else failed(text, expected)


def answers(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Never passes: asked only of a host that could not be read."""
    raise ProbeError(evidence.problem or f"{evidence.host} was not read")


_B: tuple[Level, ...] = ("before",)
UNREAD = Check(
    "access", "access", ("before", "quick", "standard"), "critical", "preflight-access", "", whole_host, answers
)
CHECKS = (
    Check("access", "access", _B, "critical", "preflight-access", "whoami", whole_host, reachable),
    Check("access-system", "access", _B, "critical", "preflight-access", "os-release", whole_host, supported),
    Check("access-python", "access", _B, "critical", "preflight-access", "python", whole_host, python),
)

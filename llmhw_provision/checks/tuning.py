"""The host is tuned as planned: what is in force, not what stands in files."""

from __future__ import annotations

from llmhw_provision.checks.model import Check, Outcome, compared, failed, passed, warned
from llmhw_provision.checks.views import NotThere
from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.plan.roles_base import HostTuningConfig
from llmhw_provision.plan.tuning import AS_FOUND, MICROCODE, POWER_LIMIT_W, fragile_cpu
from llmhw_provision.probes import tuning


def _config(host: HostPlan) -> HostTuningConfig:
    if host.roles.host_tuning is None:
        raise NotThere("host_tuning is not planned for this host")
    return host.roles.host_tuning


def _keys(host: HostPlan) -> tuple[str, ...]:
    return tuple(host.roles.host_tuning.sysctl) if host.roles.host_tuning else ()


def _targets(host: HostPlan) -> tuple[str, ...]:
    return host.roles.host_tuning.mask if host.roles.host_tuning else ()


def _tuned(host: HostPlan) -> tuple[str, ...]:
    return ("",) if host.roles.host_tuning else ()


def _governed(host: HostPlan) -> tuple[str, ...]:
    return ("",) if host.roles.host_tuning and host.roles.host_tuning.governor != AS_FOUND else ()


def _paged(host: HostPlan) -> tuple[str, ...]:
    return ("",) if host.roles.host_tuning and host.roles.host_tuning.hugepages != AS_FOUND else ()


def _lined(host: HostPlan) -> tuple[str, ...]:
    return ("",) if host.roles.host_tuning and host.roles.host_tuning.command_line else ()


def _bare(host: HostPlan) -> tuple[str, ...]:
    """ACS and firmware belong to a machine of its own."""
    return ("",) if host.roles.host_tuning and not host.rehearsal else ()


def setting(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """The kernel setting has the planned value."""
    wanted = " ".join(_config(host).sysctl[subject].split())
    found = tuning.sysctl(evidence, subject)
    return warned("this kernel has no such setting", wanted, "none") if found is None else compared(found, wanted)


def limits(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Services and sessions get the planned limits."""
    config, found = _config(host).limits, tuning.limits(evidence)
    kib = config.memlock_kib
    wanted = {
        "DefaultLimitMEMLOCK": "infinity" if kib is None else str(kib * 1024),
        "DefaultLimitNOFILE": str(config.nofile_hard),
        "DefaultLimitNOFILESoft": str(config.nofile_soft),
        "memlock": "unlimited" if kib is None else str(kib),
        "nofile": str(config.nofile_hard),
        "nofile-soft": str(config.nofile_soft),
    }
    expected = ", ".join(f"{key} {value}" for key, value in wanted.items())
    wrong = [f"{key} {found.get(key, 'none')}" for key, value in wanted.items() if found.get(key) != value]
    return failed(", ".join(wrong), expected) if wrong else passed(expected, expected)


def governor(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """All CPUs have the planned governor."""
    wanted, found = _config(host).governor, tuning.governors(evidence)
    if not found:
        return warned("this host sets no CPU frequency", wanted, "none")
    text = ", ".join(f"{name} on {count} CPUs" for name, count in sorted(found.items()))
    return passed(text, wanted) if set(found) == {wanted} else failed(text, wanted)


def hugepages(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Transparent huge pages follow the planned policy."""
    found = tuning.hugepages(evidence)
    wanted = _config(host).hugepages
    return compared(found, wanted) if found else warned("this kernel has none", wanted)


def command_line(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The running kernel was started with the planned arguments."""
    wanted, found = _config(host).command_line, tuning.command_line(evidence)
    lacking = [argument for argument in wanted if argument not in found]
    return (
        failed(f"without {' '.join(lacking)}", " ".join(wanted))
        if lacking
        else passed(" ".join(wanted), " ".join(wanted))
    )


def asleep(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The target cannot be reached."""
    return compared(tuning.sleeping(evidence).get(subject, "unknown"), "masked")


def acs(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """No bridge above GPUs and NICs sends traffic between them through the root port."""
    gpus, found = tuning.acs(evidence)
    active = {address: bits for address, bits in found.items() if bits}
    expected = "no ACS control bit set above GPUs and NICs"
    if gpus < 2:
        return passed(f"{gpus} GPU: there is nothing between GPUs", expected)
    if not active:
        return passed(f"none on {len(found)} bridges", expected)
    first = next(iter(active))
    text = f"{len(active)} of {len(found)} bridges, such as {first}: {' '.join(active[first])}"
    return failed(text, expected, "planned") if _config(host).acs == "clear" else warned(text, expected)


def care(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """A 13th or 14th generation Core has the corrected microcode and Intel's power limit."""
    found = tuning.care(evidence)
    expected = f"microcode {MICROCODE:#x} or later, at most {POWER_LIMIT_W} W"
    if not fragile_cpu(found.model):
        return passed(f"not concerned: {found.model or 'no model'}", expected)
    watts = "limit not shown" if found.limit_w is None else f"{found.limit_w:.0f} W"
    text = f"microcode {found.microcode:#x}, {watts}"
    fine = found.microcode >= MICROCODE and (found.limit_w is None or found.limit_w <= POWER_LIMIT_W)
    return passed(text, expected) if fine else warned(text, expected)


def commands(host: HostPlan) -> tuple[Command, ...]:
    """What must be read on the host to answer these checks."""
    if host.roles.host_tuning is None:
        return ()
    wanted = [tuning.LIMITS, tuning.POLICY]
    wanted += [tuning.sysctl_command(_keys(host))] if _keys(host) else []
    wanted += [tuning.sleep_command(_targets(host))] if _targets(host) else []
    return (*wanted, tuning.ACS, tuning.CARE) if _bare(host) else tuple(wanted)


_PAGE = "host-tuning"
CHECKS = (
    Check("tuning-sysctl", "tuning", ("quick",), "minor", _PAGE, "sysctl", _keys, setting),
    Check("tuning-limits", "tuning", ("quick",), "major", _PAGE, "limits", _tuned, limits),
    Check("tuning-governor", "tuning", ("quick",), "minor", _PAGE, "policy", _governed, governor),
    Check("tuning-hugepages", "tuning", ("quick",), "minor", _PAGE, "policy", _paged, hugepages),
    Check("tuning-command-line", "tuning", ("quick",), "major", _PAGE, "policy", _lined, command_line),
    Check("tuning-sleep", "tuning", ("quick",), "minor", _PAGE, "sleep", _targets, asleep),
    Check("tuning-acs", "tuning", ("quick",), "major", _PAGE, "acs", _bare, acs),
    Check("tuning-cpu", "tuning", ("quick",), "major", _PAGE, "cpu-care", _bare, care),
)

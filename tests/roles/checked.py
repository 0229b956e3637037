"""The shipped checks, run on a container as `verify` runs them on a host."""

from llmhw_provision.checks import base, table, tuning
from llmhw_provision.checks.model import Finding
from llmhw_provision.evidence import Evidence, read
from llmhw_provision.plan.model import HostPlan, RoleConfigs
from tests.containers.container import Container
from tests.unit.recordings import host_plan

AREAS = ("base", "tuning")


def planned(roles: RoleConfigs) -> HostPlan:
    """A bare Debian host without disks that is given these roles."""
    changes = {"roles": roles, "disks": (), "rehearsal": False, "os": "Debian GNU/Linux 12 (bookworm)"}
    return host_plan().model_copy(update=changes)


def evidence(container: Container, roles: RoleConfigs) -> Evidence:
    """What the container answers to the commands of the two areas."""
    host = planned(roles)
    commands = (*base.commands(host), *tuning.commands(host))
    return read(container.name, commands, container.ssh_config, sudo=False, address=container.address)


def findings(container: Container, roles: RoleConfigs) -> dict[str, Finding]:
    """The answer of every check of the two areas, by its id and subject."""
    read_now = evidence(container, roles)
    found = [table.judge(item, read_now) for item in table.items(planned(roles), "quick") if item.check.area in AREAS]
    return {f"{item.check} {item.subject}".strip(): item for item in found}


def amiss(container: Container, roles: RoleConfigs) -> dict[str, str]:
    """The answers that are not a pass, by id and subject: status and what was found."""
    return {
        key: f"{item.status}: {item.found}" for key, item in findings(container, roles).items() if item.status != "pass"
    }

"""Versions of the hosts of a site: which hosts need a stack, and which share one."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, replace

from llmhw_provision.machine import Machine
from llmhw_provision.plan.alike import Alike
from llmhw_provision.plan.model import Note
from llmhw_provision.plan.roles import NvmeRaid0Config
from llmhw_provision.plan.roles_python import PythonEnvConfig
from llmhw_provision.plan.stack import Stack
from llmhw_provision.site import Host, Site
from llmhw_provision.sizing.need import Need


@dataclass(frozen=True)
class PythonPlan:
    """What python_env is given for one host, and why; `config` is None where there is no environment."""

    config: PythonEnvConfig | None
    creates: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


def plan_environments(host: str, stack: Stack | None, site: Site, storage: NvmeRaid0Config) -> PythonPlan:
    """The Python environments of `stack`; none without a stack."""
    if stack is None:
        return PythonPlan(None)
    from llmhw_provision.plan.python_env import plan_python

    return plan_python(host, stack, site, storage)


def plan_versions(
    host: Host, machine: Machine, site: Site, need: Need, alike: Alike[Stack] | None = None
) -> tuple[Stack | None, tuple[Note, ...]]:
    """The stack of `host`, None with a note where nothing asks for one; raises InputError with every refusal.

    Hosts that ask for the same are resolved once where `alike` is given.

    Ends of life are judged on the day of the matrix, so that the same files give the same plan.
    """
    left = _left_alone(machine, site)
    if left:
        return None, (
            Note(host=host.name, rule="versions are chosen where they are needed", choice=left, source="site.yaml"),
        )
    # not at the top: most verbs need no matrix, and reading it takes longer than they do
    from llmhw_provision.catalogue.software import software
    from llmhw_provision.plan.request import host_request
    from llmhw_provision.plan.resolve import resolve

    day = datetime.date.fromisoformat(software().catalogue.as_of)
    request = host_request(host, machine, site, need, day)
    if alike is None:
        return resolve(request), ()
    return alike.ask(replace(request, host=""), host.name, lambda: resolve(request)), ()


def stack_for(stack: Stack, host: str) -> Stack:
    """`stack` as that of `host`."""
    return stack.model_copy(update={"hosts": (host,)})


def _left_alone(machine: Machine, site: Site) -> str:
    """Why no versions are chosen; empty where they are."""
    if "software" in site.model_fields_set:
        return ""
    if not machine.gpus:
        return "none: the host has no GPU, and site.yaml has no software:"
    if machine.origin == "catalogue":
        return "none yet: the host is not observed, and its distribution is not named (software.distro)"
    return ""


def shared(stacks: Iterable[Stack]) -> tuple[Stack, ...]:
    """Stacks that differ in nothing but their hosts, merged."""
    found: list[tuple[Stack, list[str]]] = []
    for stack in stacks:
        for other, hosts in found:
            if other.model_copy(update={"hosts": stack.hosts}) == stack:
                hosts += stack.hosts
                break
        else:
            found.append((stack, list(stack.hosts)))
    return tuple(stack.model_copy(update={"hosts": tuple(hosts)}) for stack, hosts in found)


def ended_since(stacks: Iterable[Stack], day: datetime.date) -> tuple[str, ...]:
    """Sentences about drivers and distributions whose support ended between the day of the matrix and `day`."""
    from llmhw_provision.catalogue.software import Supported, software

    tables, found = software(), []
    written = datetime.date.fromisoformat(tables.catalogue.as_of)
    for stack in stacks:
        records: dict[str, Supported] = {tables.distros[stack.distro].title: tables.distros[stack.distro]}
        if stack.driver:
            records[f"driver {stack.driver.branch}"] = tables.drivers[stack.driver.branch]
        found += [
            f"{name}: support ended with {record.end_of_life}; the matrix is of {written}, take a newer one"
            for name, record in records.items()
            if record.over(day) and not record.over(written)
        ]
    return tuple(dict.fromkeys(found))

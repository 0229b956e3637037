"""plan(workload, site, machines) → Plan: same input, same bytes; no time and no controller name in it."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from llmhw_provision.catalogue.loader import sold_machine
from llmhw_provision.documents import dump_json
from llmhw_provision.errors import InputError, MachineError, Problem, ProvisionError
from llmhw_provision.expected import Expected
from llmhw_provision.machine import Machine
from llmhw_provision.plan.alike import Alike
from llmhw_provision.plan.base import BasePlan, plan_base
from llmhw_provision.plan.choice import with_machines
from llmhw_provision.plan.cluster import computes, plan_cluster, plan_nodes
from llmhw_provision.plan.cluster_model import HostNode
from llmhw_provision.plan.contradictions import require_consistent
from llmhw_provision.plan.fabric import expected_ports
from llmhw_provision.plan.gpu_expected import installs_stack
from llmhw_provision.plan.gpu_memory import gpu_notes
from llmhw_provision.plan.gpu_stack import plan_gpu, with_rails
from llmhw_provision.plan.hardware import expected_of
from llmhw_provision.plan.layouts import plan_work
from llmhw_provision.plan.model import HostPlan, Note, Plan, RoleConfigs
from llmhw_provision.plan.nvidia_driver import DriverPlan, plan_driver
from llmhw_provision.plan.overrides import override_notes
from llmhw_provision.plan.profiles import in_file_order
from llmhw_provision.plan.purchase import catalogue_machine
from llmhw_provision.plan.reservations import plan_reservations
from llmhw_provision.plan.roles import InitramfsConfig
from llmhw_provision.plan.stack import Stack
from llmhw_provision.plan.storage import plan_head, plan_storage
from llmhw_provision.plan.thresholds import plan_thresholds
from llmhw_provision.plan.tuning import TuningPlan, plan_tuning
from llmhw_provision.plan.versions import plan_environments, plan_versions, shared, stack_for
from llmhw_provision.plan.work import LaunchInputs
from llmhw_provision.site import Host, Site
from llmhw_provision.sizing.need import Need


def build_plan(need: Need, site: Site, observed: dict[str, Machine]) -> Plan:
    """The whole plan; raises InputError, DoesNotFit or MachineError with the problems of all hosts at once."""
    machines: dict[str, Machine] = {}
    problems: list[Problem] = []
    kinds: list[type[ProvisionError]] = []
    plans: list[tuple[HostPlan, tuple[Note, ...]]] = []
    stacks: list[Stack] = []
    require_consistent(site)
    site, choice = with_machines(need, site, observed)
    notes: list[Note] = [*choice, *override_notes(need.workload, site)]
    kind = Kinds()
    hosts = sorted(site.hosts, key=lambda item: item.name)
    for host in hosts:
        try:
            machines[host.name] = machine_of(host, observed)
        except ProvisionError as error:
            problems += error.problems
            kinds.append(type(error))
    for host in (host for host in hosts if host.name in machines):
        stack = None
        try:
            stack, why = plan_versions(host, machines[host.name], site, need, kind.stacks)
            stacks += [stack] if stack else []
            notes += why
        except ProvisionError as error:
            problems += error.problems
            kinds.append(type(error))
        try:
            plans.append(_host(host, machines, site, need, stack, kind))
        except ProvisionError as error:
            problems += [problem for problem in error.problems if problem not in problems]
            kinds.append(type(error))
    if problems:
        raise (kinds[0] if len(set(kinds)) == 1 else InputError).of(problems)
    planned = tuple(item for item, _ in plans)
    parts, reserved = plan_reservations(planned, machines, need, site)
    nodes = plan_nodes(site, machines, parts)
    planned = tuple(_with_ports(item, machines[item.name], nodes.get(item.name), site) for item in planned)
    mixed = any(item.use == "serving" for found in parts.values() for item in found[:-1])
    cluster, why = plan_cluster(site, nodes, shared(stacks), mixed=mixed)
    purchase = any(machine.origin == "catalogue" for machine in machines.values())
    limits, changed = plan_thresholds(planned, machines, site)

    def further(item: HostPlan) -> dict[str, object]:
        name, node = item.name, nodes.get(item.name)
        given = {"thresholds": limits.get(name, ()), "reservations": parts.get(name, ())}
        return {"node": node, "roles": with_rails(item.roles, node), **given}

    work = plan_work(_workers(machines, site), need)
    plan = Plan(
        schema=1,
        site=site.site,
        origin="purchase" if purchase else "observed",
        workload=_title(need),
        identity="",
        cluster=cluster,
        hosts=tuple(item.model_copy(update=further(item)) for item in planned),
        stacks=shared(stacks),
        work=work,
        launch=LaunchInputs.of(need, site) if work else None,
        notes=in_file_order((*why, *(note for _, said in plans for note in said), *notes, *reserved, *changed)),
    )
    digest = hashlib.sha256(dump_json(plan).encode()).hexdigest()[:12]
    return plan.model_copy(update={"identity": digest})


def _with_ports(host: HostPlan, machine: Machine, node: HostNode | None, site: Site) -> HostPlan:
    """The host with the ports of its rails to verify, unless site.yaml says which."""
    if site.fabric is None or node is None or (host.expected and host.expected.fabric):
        return host
    ports = expected_ports(machine, node.rails, site.fabric)
    if ports is None:
        return host
    return host.model_copy(update={"expected": (host.expected or Expected()).model_copy(update={"fabric": ports})})


def _renamed(notes: tuple[Note, ...], host: str) -> tuple[Note, ...]:
    return tuple(note.model_copy(update={"host": host}) for note in notes)


class Kinds:
    """What hosts of one kind share while a plan is made: each is worked out once."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.notes = Alike(_renamed)
        self.stacks = Alike(stack_for)
        self.expected = Alike[tuple[Expected | None, tuple[Note, ...]]](
            lambda found, host: (found[0], _renamed(found[1], host))
        )
        self.base = Alike[BasePlan](lambda found, host: replace(found, notes=_renamed(found.notes, host)))
        self.tuning = Alike[TuningPlan](lambda found, host: replace(found, notes=_renamed(found.notes, host)))


def _title(need: Need) -> str:
    load = need.workload
    server = f"{load.serving.concurrency} × {load.serving.context} tokens" if load.serving else ""
    if load.job == "serve":
        return f"{need.model.title}, serve {load.weights}, {server}"
    text = f"{need.model.title}, {load.job} {load.method}, {load.batch} × {load.sequence} tokens"
    beside = load.placement is not None and load.placement.serve is not None
    return f"{text}, beside a server of {load.weights}, {server}" if beside else text


def machine_of(host: Host, observed: dict[str, Machine]) -> Machine:
    """The machine as it was read, or as it was sold; raises InputError when neither is known."""
    found = observed.get(host.name)
    if found is not None:
        return found
    if host.machine is None:
        raise InputError(
            f"{host.name}: neither observed nor sold as a catalogue machine",
            "run llmhw-provision discover, or name machine: in site.yaml for a purchase plan",
        )
    return catalogue_machine(host.machine)


def _host(
    host: Host, machines: dict[str, Machine], site: Site, need: Need, stack: Stack | None, kind: Kinds
) -> tuple[HostPlan, tuple[Note, ...]]:
    machine = machines[host.name]
    name, gpus, works = host.name, machine.gpus, computes(host, site)
    notes = kind.notes.ask(("sold", host.machine, machine.origin, gpus), name, lambda: _sold_as(host, machine))
    if works:
        what = ("gpu", gpus, machine.memory_bytes)
        notes += kind.notes.ask(what, name, lambda: gpu_notes(name, machine, _workers(machines, site), need))
    base = kind.base.ask((), name, lambda: plan_base(name, site))
    traits = (host.machine, machine.cpu, machine.virtual, gpus)
    tuning = kind.tuning.ask(traits, name, lambda: plan_tuning(host, machine, site.host_tuning))
    storage = plan_storage(name, machine, site.storage, need) if works else plan_head(machine, site.storage)
    python = plan_environments(name, stack if works else None, site, storage.nvme_raid0)
    installs = stack if stack and installs_stack(machine, site) else None
    gpu = plan_gpu(name, installs, site)
    driver = plan_driver(name, machine, installs, site, gpu.along) if installs else DriverPlan()
    asked = (id(machine), host.expect, driver.config)
    expected, expected_notes = kind.expected.ask(asked, name, lambda: expected_of(host, machine, driver.config))
    arrays = any(volume.level != "single" for volume in storage.nvme_raid0.volumes)
    return (
        HostPlan(
            name=host.name,
            address=host.address,
            port=host.port,
            user=host.user,
            identity_file=host.identity_file,
            machine=host.machine,
            rehearsal=machine.virtual,
            os=machine.os.pretty_name if machine.os else "",
            memory_bytes=machine.memory_bytes,
            disks=storage.disks,
            roles=RoleConfigs(
                site_base=base.config,
                host_tuning=tuning.config,
                nvme_raid0=storage.nvme_raid0,
                tmpfs=storage.tmpfs,
                package_sources=gpu.package_sources,
                nvidia_driver=driver.config,
                cuda=gpu.cuda,
                nccl=gpu.nccl,
                python_env=python.config,
                initramfs=InitramfsConfig(kernels="all", prove_by_boot=arrays),
            ),
            reboots=int(arrays or bool(driver.config or (tuning.config and tuning.config.command_line))),
            creates=(*storage.creates, *base.creates, *tuning.creates, *driver.creates, *gpu.creates, *python.creates),
            erases=storage.erases,
            expected=expected,
        ),
        (
            *notes,
            *expected_notes,
            *base.notes,
            *tuning.notes,
            *storage.notes,
            *driver.notes,
            *gpu.notes,
            *python.notes,
            *(_reboot_notes(host.name) if arrays else ()),
        ),
    )


def _workers(machines: dict[str, Machine], site: Site) -> dict[str, Machine]:
    """The machines that jobs run on."""
    return {host.name: machines[host.name] for host in site.hosts if host.name in machines and computes(host, site)}


def _reboot_notes(host: str) -> tuple[Note, ...]:
    note = Note(
        host=host,
        rule="an array is accepted only after it came back from a boot",
        choice="one reboot with --allow-reboot, when the initramfs is newer than the last boot",
        source="mrlesmithjr/ansible-mdadm#78: an array that was not in the initramfs came back as md127",
    )
    return (note,)


def _sold_as(host: Host, machine: Machine) -> tuple[Note, ...]:
    """Whether the machine holds what it was sold with; what the vendor quoted differently is said."""
    if host.machine is None:
        return ()
    kind = sold_machine(host.machine)
    notes = [
        Note(host=host.name, rule="quoted and real differ", choice=text, source=kind.source) for text in kind.differs
    ]
    if machine.origin == "observed":
        count = sum(gpus.count for gpus in machine.gpus if gpus.kind == kind.gpu.kind)
        if count != kind.gpu.count:
            found = ", ".join(f"{gpus.count}× {gpus.kind}" for gpus in machine.gpus) or "none"
            raise MachineError(
                f"{host.name}: sold as {kind.title} with {kind.gpu.count}× {kind.gpu.kind}, found {found}",
                "leave machine: out of site.yaml to plan for what is there",
            )
    return tuple(notes)

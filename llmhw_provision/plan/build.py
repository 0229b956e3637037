"""plan(workload, site, machines) → Plan: same input, same bytes; no time and no controller name in it."""

from __future__ import annotations

import hashlib

from llmhw_provision.catalogue.loader import Gpu, MachineKind, find, names
from llmhw_provision.documents import dump_json
from llmhw_provision.errors import DoesNotFit, InputError, MachineError, Problem, ProvisionError
from llmhw_provision.machine import Machine
from llmhw_provision.plan.base import plan_base
from llmhw_provision.plan.model import HostPlan, Note, Plan, RoleConfigs
from llmhw_provision.plan.purchase import catalogue_machine
from llmhw_provision.plan.roles import InitramfsConfig
from llmhw_provision.plan.storage import plan_storage
from llmhw_provision.plan.tuning import plan_tuning
from llmhw_provision.site import Host, Site
from llmhw_provision.sizing.estimate import Estimate, fit
from llmhw_provision.units import memory


def build_plan(need: Estimate, site: Site, observed: dict[str, Machine]) -> Plan:
    """The whole plan; raises InputError, DoesNotFit or MachineError with the problems of all hosts at once."""
    machines: dict[str, Machine] = {}
    problems: list[Problem] = []
    kinds: list[type[ProvisionError]] = []
    plans: list[tuple[HostPlan, tuple[Note, ...]]] = []
    for host in sorted(site.hosts, key=lambda item: item.name):
        try:
            machines[host.name] = _machine(host, observed)
            plans.append(_host(host, machines[host.name], site, need))
        except ProvisionError as error:
            problems += error.problems
            kinds.append(type(error))
    if problems:
        raise (kinds[0] if len(set(kinds)) == 1 else InputError).of(problems)
    purchase = any(machine.origin == "catalogue" for machine in machines.values())
    plan = Plan(
        schema=1,
        site=site.site,
        origin="purchase" if purchase else "observed",
        workload=_title(need),
        identity="",
        hosts=tuple(item for item, _ in plans),
        notes=tuple(note for _, notes in plans for note in notes),
    )
    digest = hashlib.sha256(dump_json(plan).encode()).hexdigest()[:12]
    return plan.model_copy(update={"identity": digest})


def _title(need: Estimate) -> str:
    load = need.workload
    if load.serving:
        return f"{need.model.title}, serve {load.weights}, {load.serving.concurrency} × {load.serving.context} tokens"
    return f"{need.model.title}, {load.job} {load.method}, {load.batch} × {load.sequence} tokens"


def _machine(host: Host, observed: dict[str, Machine]) -> Machine:
    found = observed.get(host.name)
    if found is not None:
        return found
    if host.machine is None:
        raise InputError(
            f"{host.name}: neither observed nor sold as a catalogue machine",
            "run llmhw-provision discover, or name machine: in site.yaml for a purchase plan",
        )
    return catalogue_machine(host.machine)


def _host(host: Host, machine: Machine, site: Site, need: Estimate) -> tuple[HostPlan, tuple[Note, ...]]:
    notes = (*_sold_as(host, machine), *_device(host, machine, need))
    base, tuning = plan_base(host.name, site), plan_tuning(host, machine, site.host_tuning)
    storage = plan_storage(host.name, machine, site.storage, need)
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
                initramfs=InitramfsConfig(kernels="all", prove_by_boot=arrays),
            ),
            reboots=int(arrays or bool(tuning.config and tuning.config.command_line)),
            creates=(*storage.creates, *base.creates, *tuning.creates),
            erases=storage.erases,
        ),
        (*notes, *base.notes, *tuning.notes, *storage.notes, *(_reboot_notes(host.name) if arrays else ())),
    )


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
    kind = find("machines", host.machine, MachineKind)
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


def _device(host: Host, machine: Machine, need: Estimate) -> tuple[Note, ...]:
    """Whether weights and states fit the GPUs; a lower bound, so that only a refusal is certain."""
    known = [gpus for gpus in machine.gpus if gpus.kind in names("gpus")]
    if not known:
        found = ", ".join(f"{gpus.count}× {gpus.kind}" for gpus in machine.gpus) or "no GPU"
        return (
            Note(
                host=host.name,
                rule="GPU memory is checked against the catalogue",
                choice=f"not checked: {found} found; storage is planned all the same",
                source="catalogue/gpus.yml",
            ),
        )
    gpu, count = find("gpus", known[0].kind, Gpu), known[0].count
    result = fit(need, gpu, count)
    text = (
        f"at least {memory(result.needs_per_gpu)} on each of {count}× {gpu.title}, which has {memory(gpu.memory_bytes)}"
    )
    if not result.fits:
        parts = "; ".join(f"{term.name} {memory(term.size)}" for term in need.device)
        raise DoesNotFit(f"{host.name}: {need.model.title} needs {text} ({parts})", "see llmhw-provision size")
    return (
        Note(
            host=host.name,
            rule="weights and states are a lower bound: activations and buffers come on top",
            choice=text,
            inputs=tuple(f"{term.name} {memory(term.size)}: {term.formula}" for term in need.device),
            source=need.device[0].source,
        ),
    )

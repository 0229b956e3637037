"""What the resolver is asked, and what it has decided and refused so far."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Literal

from llmhw_provision.catalogue.loader import Dated, Gpu
from llmhw_provision.catalogue.software import Distro, GpuArchitecture, Software
from llmhw_provision.catalogue.software_packages import Modules, PackageOrigin, PackageRule
from llmhw_provision.errors import Problem
from llmhw_provision.plan.stack import Choice, Package, PackageSource
from llmhw_provision.site import SoftwareChoices
from llmhw_provision.workload import JobName

_DOUBT: tuple[Literal["high", "medium", "low"], ...] = ("high", "medium", "low")


@dataclass(frozen=True)
class Request:
    """One host: its hardware, distribution and job, and what its site chose. `day` judges ends of life."""

    host: str
    distro: str
    job: JobName
    day: datetime.date
    gpu: Gpu | None = None
    gpus: int = 0
    nvswitch: bool = False
    machine: str = "x86_64"
    kernel: str = ""
    cpu: str = ""
    adapters: tuple[str, ...] = ()
    raid0: bool = False
    choices: SoftwareChoices = field(default_factory=SoftwareChoices)


@dataclass
class Findings:
    """What was decided and refused so far for one request."""

    request: Request
    software: Software
    choices: list[Choice] = field(default_factory=list)
    repositories: list[PackageSource] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def distro(self) -> Distro:
        """The host's distribution."""
        return self.software.distros[self.request.distro]

    @property
    def architecture(self) -> GpuArchitecture | None:
        """The GPU's architecture, None without GPU."""
        gpu = self.request.gpu
        found = self.software.architecture(gpu.compute_capability) if gpu else None
        return found[1] if found else None

    def refuse(self, message: str, hint: str, record: Dated) -> None:
        """Adds a problem; the rule's source goes with it."""
        text = f"{self.request.host}: {message} ({record.source}, {record.date})"
        self.problems.append(Problem(text, hint))

    def warn(self, message: str) -> None:
        """Adds a warning once."""
        if message not in self.warnings:
            self.warnings.append(message)

    def choose(
        self, topic: str, choice: str, rule: str, record: Dated, *, by: str = "", packages: tuple[Package, ...] = ()
    ) -> None:
        """Adds a decision that rests on `record`; `by` names the site where it, not the record, decided."""
        source = f"{by}; {record.source}" if by else record.source
        self.choices.append(
            Choice(
                topic=topic,
                choice=choice,
                rule=rule,
                packages=packages,
                source=source,
                date=record.date,
                confidence=record.confidence,
            )
        )
        self.doubt(topic, choice, record)

    def install(
        self,
        what: PackageRule,
        choice: str,
        why: str,
        values: dict[str, str] | None = None,
        *,
        version: Dated | None = None,
        excludes: tuple[str, ...] = (),
    ) -> None:
        """Adds the packages of `what`, filled in from `values`; `version` is the record that the version comes from."""
        kernel = self.request.kernel
        flavour = kernel.rpartition("-")[2] if "-" in kernel else "generic"
        values = {"kernel": kernel or "of-the-booted-kernel", "flavour": flavour, **(values or {})}
        records = (what, version) if version else (what,)
        self.choices.append(
            Choice(
                topic=what.component,
                choice=choice,
                rule=why,
                packages=_packages(what, values, self.request.machine),
                needs=tuple(name.format(**values) for name in what.needs),
                lock=what.lock.format(**values),
                stream=what.stream.format(**values),
                modules_load=what.modules_load,
                replaces=what.replaces,
                excludes=(*what.excludes, *excludes),
                leaves=what.leaves,
                source="; ".join(dict.fromkeys(record.source for record in records)),
                date=min(record.date for record in records),
                confidence=max((record.confidence for record in records), key=_DOUBT.index),
            )
        )
        for record in records:
            self.doubt(what.component, choice, record)

    def doubt(self, topic: str, choice: str, record: Dated) -> None:
        """Warns when `choice` rests on a record of low confidence."""
        if record.confidence == "low":
            self.warn(f"{topic} {choice} rests on low confidence: {record.source}, {record.date}")

    def rule(self, component: str, origin: str, *, branch: int = 0, modules: Modules = "open") -> PackageRule | None:
        """The package rule of `component` on this distribution; None, with a problem, when none is recorded."""
        kind: PackageOrigin = "distribution" if origin == "distribution" else "vendor"
        here = [
            item
            for item in self.software.packages
            if item.component == component and self.request.distro in item.distros
        ]
        for item in here:
            if item.origin == kind and modules in item.modules and item.since <= branch < item.below:
                return item
        what = f"{component} {branch} ({modules} modules)" if branch else component
        known = "; ".join(dict.fromkeys(_covers(item) for item in here)) or "nothing"
        record = here[0] if here else next(item for item in self.software.packages if item.component == component)
        message = f"{what}: no packages of it from the {kind} are recorded for {self.distro.title}"
        self.refuse(message, f"recorded there: {known}", record)
        return None


def _covers(item: PackageRule) -> str:
    """`vendor, branch 580 and newer, open`."""
    text: str = item.origin
    text += f", branch {item.since} and newer" if item.since else ""
    text += f", below {item.below}" if item.below < 10_000 else ""
    return text if len(item.modules) > 1 else f"{text}, {item.modules[0]}"


def _packages(what: PackageRule, values: dict[str, str], machine: str) -> tuple[Package, ...]:
    found = []
    for name in what.names:
        left, _, right = name.partition("=")
        if machine == "x86_64" or not left.startswith("libnvsdm"):  # not built for others
            found.append(Package(name=left.format(**values), version=right.format(**values)))
    return tuple(found)

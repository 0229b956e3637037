"""What apply is asked to do, and what must be true of the site's files before anything starts."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import Field

from llmhw_provision.documents import Record, read
from llmhw_provision.errors import InputError, Problem
from llmhw_provision.plan.model import HostPlan, Plan
from llmhw_provision.run.command import Choice

Verb = Literal["apply", "rollback"]
PLAYBOOKS: dict[Verb, str] = {"apply": "site.yml", "rollback": "rollback.yml"}
_PLAN_LINE = re.compile(r"""^llmhw_plan:\s*["']?([0-9a-f]+)["']?\s*$""", re.MULTILINE)
# Hosts that are lost in the middle of a run are tried again after these pauses: a switch or a link that was away
# for two minutes costs no run. ssh itself repeats each connection before that (ANSIBLE_SSH_RETRIES).
RETRY_AFTER_S = (10.0, 30.0, 60.0)


@dataclass(frozen=True, kw_only=True)
class Order:
    """What apply, or rollback, is asked to do."""

    site: Path
    plan: Plan
    choice: Choice
    verb: Verb = "apply"
    allow_reboot: bool = False
    password: str = field(default="", repr=False)
    retry_after_s: tuple[float, ...] = RETRY_AFTER_S
    resumes: str = ""

    @property
    def hosts(self) -> tuple[HostPlan, ...]:
        """The hosts it concerns."""
        return tuple(host for host in self.plan.hosts if not self.choice.limit or host.name in self.choice.limit)


class OrderFile(Record):
    """order.json: what a run was asked to do, for `--resume`."""

    format: int = Field(default=1, alias="schema")
    plan: str = Field(description="identity of the plan")
    check: bool
    limit: tuple[str, ...]
    tags: tuple[str, ...]
    allow_reboot: bool
    resumes: str = Field(default="", description="name of the run that this one goes on with")


def recorded(order: Order) -> OrderFile:
    """The order without what must not be kept."""
    choice = order.choice
    return OrderFile(
        plan=order.plan.identity,
        check=choice.check,
        limit=choice.limit,
        tags=choice.tags,
        allow_reboot=order.allow_reboot,
        resumes=order.resumes,
    )


def prepare(site: Path, *, choice: Choice, allow_reboot: bool = False, password: str = "", resumes: str = "") -> Order:
    """The order for `site`, once plan.json and the inventory are known to belong together; starts nothing."""
    site = site.resolve()
    plan = read(site / "plan.json", Plan)
    if plan.origin == "purchase":
        raise InputError(
            f"{site / 'plan.json'}: made from catalogue machines, not from machines that were read",
            f"llmhw-provision discover --site {shlex.quote(str(site))}, then llmhw-provision plan",
        )
    _same_plan(site, plan)
    known = [host.name for host in plan.hosts]
    problems = [
        Problem(f"--limit {name}: the plan has no such host", f"hosts: {', '.join(known)}")
        for name in choice.limit
        if name not in known
    ]
    if problems:
        raise InputError.of(problems)
    return Order(site=site, plan=plan, choice=choice, allow_reboot=allow_reboot, password=password, resumes=resumes)


def _same_plan(site: Path, plan: Plan) -> None:
    """The inventory must have been written from this very plan.json."""
    again = "run llmhw-provision plan again; it writes plan.json and the inventory together"
    for name in ("hosts.yml", "group_vars/all.yml"):
        if not (site / "inventory" / name).is_file():
            raise InputError(f"{site / 'inventory' / name}: no such file", again)
    path = site / "inventory" / "group_vars" / "all.yml"
    found = _PLAN_LINE.search(path.read_text(encoding="utf-8", errors="replace"))
    if found is None:
        raise InputError(f"{path}: does not say which plan it was written from (llmhw_plan)", again)
    if found[1] != plan.identity:
        raise InputError(f"{path}: written from plan {found[1]}, but plan.json is {plan.identity}", again)

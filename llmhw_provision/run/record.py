"""The record of what was installed: /etc/llmhw/applied.json on the host, a copy in the run's folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from llmhw_provision import __version__
from llmhw_provision.checks.package_state import planned
from llmhw_provision.documents import Record, dump_json, write_atomic
from llmhw_provision.plan.model import HostPlan, Plan
from llmhw_provision.run import events
from llmhw_provision.run.command import Choice
from llmhw_provision.run.playing import Playing
from llmhw_provision.run.text import roles

_CLOSING = Path(__file__).resolve().parent / "closing.yml"


class Applied(Record):
    """applied.json. Holds no time and no secret: the same state gives the same bytes."""

    format: int = Field(default=1, alias="schema")
    product: str = Field(description="version of llmhw-provision")
    site: str
    host: str
    plan: str = Field(description="identity of the plan")
    roles: tuple[str, ...] = Field(description="roles that reached their end on this host")
    kernel: str = Field(default="", description="release of the running kernel, read on the host")
    packages: dict[str, str] = Field(default_factory=dict, description="version by package, read back on the host")


@dataclass(frozen=True)
class Left:
    """What the closing playbook brought back."""

    reboot_reasons: dict[str, tuple[str, ...]]
    warnings: dict[str, tuple[str, ...]]


def applied(plan: Plan, host: HostPlan) -> Applied:
    """The record of `host` as far as it is known without asking it."""
    return Applied(product=__version__, site=plan.site, host=host.name, plan=plan.identity, roles=roles(host))


def leave(work: Playing, choice: Choice, complete: tuple[str, ...]) -> Left:
    """Reads reasons for a reboot on the hosts of `choice`, and writes the record on those that are `complete`."""
    hosts = [host for host in work.order.hosts if host.name in complete]
    asked = {
        host.name: {
            "record": applied(work.order.plan, host).model_dump(mode="json", by_alias=True),
            "packages": list(planned(host)),
        }
        for host in hosts
    }
    variables = work.folder.path / "closing.json"
    write_atomic(variables, json.dumps({"llmhw_applied": asked}))
    found = work.ask(_CLOSING, choice.with_file(variables), work.folder.closing)
    variables.unlink()
    stats = [event for event in found if isinstance(event, events.Stats)]
    reasons = {host: lines for each in stats for host, lines in each.handed_over("llmhw_reboot_reasons").items()}
    warnings: dict[str, tuple[str, ...]] = {}
    for name in complete:
        texts = [each.custom.get(name, {}).get("llmhw_record", "") for each in stats]
        if not _keep(work, name, "".join(map(str, texts))):
            warnings[name] = ("the record /etc/llmhw/applied.json could not be written; see ansible.log",)
    return Left(
        {host: tuple(line.strip() for line in lines if line.strip()) for host, lines in reasons.items()}, warnings
    )


def _keep(work: Playing, name: str, text: str) -> bool:
    """Whether the host handed a whole record over; the copy is then in the run's folder."""
    try:
        found = Applied.model_validate_json(text)
    except ValidationError:
        return False
    write_atomic(work.folder.path / "applied" / f"{name}.json", dump_json(found))
    return True

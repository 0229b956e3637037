"""Requests to the resolver for tests."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmhw_provision.catalogue.loader import Gpu, find
from llmhw_provision.catalogue.software import Software
from llmhw_provision.documents import check
from llmhw_provision.errors import ProvisionError
from llmhw_provision.plan.findings import Request
from llmhw_provision.plan.resolve import resolve
from llmhw_provision.plan.stack import Choice, Stack
from llmhw_provision.site import SoftwareChoices

DAY = datetime.date(2026, 11, 30)


def request(gpu: str | None = "h100-sxm", distro: str = "ubuntu2404", **changes: Any) -> Request:
    """Eight GPUs (one where there is no NVSwitch) for SFT; `software` are the site's choices."""
    card = find("gpus", gpu, Gpu) if gpu else None
    software = check(changes.pop("software", {}), SoftwareChoices, path=Path("site.yaml"))
    asked = Request(
        host="node-01",
        distro=distro,
        job="sft",
        day=DAY,
        gpu=card,
        gpus=(8 if card.nvswitch else 1) if card else 0,
        nvswitch=bool(card and card.nvswitch),
        choices=software,
    )
    return replace(asked, **changes)


def stack(gpu: str | None = "h100-sxm", distro: str = "ubuntu2404", **changes: Any) -> Stack:
    """The stack of `request`."""
    return resolve(request(gpu, distro, **changes))


def refusals(
    gpu: str | None = "h100-sxm", distro: str = "ubuntu2404", *, tables: Software | None = None, **changes: Any
) -> str:
    """Every problem of `request`, a line each, message and hint."""
    with pytest.raises(ProvisionError) as caught:
        resolve(request(gpu, distro, **changes), tables)
    return "\n".join(f"{problem.message} | {problem.hint}" for problem in caught.value.problems)


def choice(found: Stack, topic: str) -> Choice:
    """The one choice of `topic`."""
    (item,) = [item for item in found.choices if item.topic == topic]
    return item


def packages(found: Stack, topic: str | None = None) -> list[str]:
    """Packages as `name=version`, of one topic or all."""
    return [str(item) for made in found.choices if topic in (None, made.topic) for item in made.packages]

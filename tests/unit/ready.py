"""A machine that is ready for apply: a reading of a VM with what a Debian 12 container answered before apply."""

from __future__ import annotations

from dataclasses import replace

from llmhw_provision.checks import table
from llmhw_provision.checks.model import Finding
from llmhw_provision.evidence import Evidence
from tests.unit.recordings import changed, host_plan, recorded, replaced

READY = replace(
    recorded("provisioned"),
    results={**recorded("provisioned").results, **recorded("before").results},
    read_at=recorded("before").read_at,
)


def findings(evidence: Evidence) -> dict[str, Finding]:
    """The worst finding of each check before apply."""
    order = ("fail", "could-not-run", "warn", "pass")
    found: dict[str, Finding] = {}
    for item in table.judge_all(host_plan(), evidence, "before"):
        if item.check not in found or order.index(item.status) < order.index(found[item.check].status):
            found[item.check] = item
    return found


def said(key: str, text: str) -> Evidence:
    """The ready machine with another answer."""
    return replaced(READY, key, replace(READY.results[key], stdout=text.encode()))


def added(key: str, text: str) -> Evidence:
    """The ready machine with more in one answer."""
    return changed(READY, key, lambda raw: raw + text.encode())

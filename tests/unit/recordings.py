"""Readings of a lab machine (Debian 12, four NVMe drives in QEMU), recorded with our own commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from llmhw_provision.documents import read
from llmhw_provision.evidence import Evidence, Result
from llmhw_provision.evidence_file import load
from llmhw_provision.plan.model import HostPlan, Plan

FOLDER = Path(__file__).parent / "recorded"
SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples"


def recorded(name: str) -> Evidence:
    """One reading: empty-disks, mixed-disks, provisioned, missing-drive (since boot), pulled-drive (while mounted)."""
    return load(FOLDER / f"{name}.json")


def plan() -> Plan:
    """The plan that `provisioned` was made from."""
    return read(FOLDER / "provisioned.plan.json", Plan)


def host_plan() -> HostPlan:
    """The only host of that plan."""
    return plan().hosts[0]


def answer(evidence: Evidence, key: str) -> bytes:
    """Standard output of one command."""
    return evidence.results[key].stdout


def changed(evidence: Evidence, key: str, edit: Callable[[bytes], bytes]) -> Evidence:
    """The reading with another answer to one command; fails when `edit` alters nothing."""
    before = evidence.results[key]
    after = edit(before.stdout)
    if after == before.stdout:
        raise ValueError(f"the edit of {key} alters nothing")
    return replaced(evidence, key, replace(before, stdout=after))


def swapped(evidence: Evidence, key: str, old: str, new: str) -> Evidence:
    """The reading with `old` replaced by `new` in the answer to one command."""
    return changed(evidence, key, lambda raw: raw.replace(old.encode(), new.encode()))


def replaced(evidence: Evidence, key: str, result: Result) -> Evidence:
    """The reading with another result of one command."""
    return replace(evidence, results={**evidence.results, key: result})


def without(evidence: Evidence, key: str) -> Evidence:
    """The reading without one command."""
    return replace(evidence, results={name: item for name, item in evidence.results.items() if name != key})


def sample(name: str) -> bytes:
    """A recorded output of a tool; skips the test where this checkout has none."""
    if not SAMPLES.is_dir():
        pytest.skip(f"no recorded samples at {SAMPLES}")
    return (SAMPLES / name).read_bytes()

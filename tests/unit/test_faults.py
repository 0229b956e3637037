"""Faults seeded into assembled machines: each is caught and named; healthy machines raise no alarm."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llmhw_provision.checks import table
from tests.assembled import HEALTHY, Assembled, NoSample
from tests.assembled_recorded import RECORDED


def built(build: Callable[[], Assembled]) -> Assembled:
    try:
        return build()
    except NoSample as missing:
        pytest.skip(f"no sample {missing} beside the checkout")


@pytest.mark.parametrize("build", (*HEALTHY, *RECORDED), ids=lambda build: build.__name__)
def test_a_healthy_machine_raises_no_alarm(build: Callable[[], Assembled]) -> None:
    machine = built(build)
    found = table.judge_all(machine.plan, machine.evidence, "quick")
    assert [(one.check, one.subject, one.status, one.found) for one in found if one.status != "pass"] == []

"""Faults seeded into assembled machines: each is caught and named; healthy machines raise no alarm."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.assembled import HEALTHY, Assembled, NoSample
from tests.assembled_recorded import RECORDED
from tests.fault import Fault
from tests.faults import FAULTS, findings, judged


def built(build: Callable[[], Assembled]) -> Assembled:
    try:
        return build()
    except NoSample as missing:
        pytest.skip(f"no sample {missing} beside the checkout")


@pytest.mark.parametrize("build", [*HEALTHY, *RECORDED], ids=lambda build: build.__name__)
def test_a_healthy_machine_raises_no_alarm(build: Callable[[], Assembled]) -> None:
    machine = built(build)
    found = findings(machine)
    assert found
    assert [(one.check, one.subject, one.status, one.found) for one in found if one.status != "pass"] == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.origin}: {fault.what}")
def test_a_seeded_fault_is_caught_and_nothing_else_alarmed(fault: Fault) -> None:
    row = built(lambda: judged(fault))
    assert row.missed == []
    assert row.alarms == []

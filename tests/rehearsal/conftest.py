"""The rehearsal machine as a fixture: one fresh machine per test module, gone at its end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from tests.rehearsal import box
from tests.rehearsal.machine import Machine, missing
from tests.rehearsal.role import Play


def _terminated(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt  # pytest then ends in order: fixtures are torn down, the machine is removed


@pytest.fixture(scope="session")
def rehearsal_possible() -> Iterator[None]:
    """Skips with the reason where no machine can run; builds the box where it can."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    previous = signal.signal(signal.SIGTERM, _terminated)
    box.build()
    yield
    signal.signal(signal.SIGTERM, previous)


@pytest.fixture(scope="module")
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A fresh machine with eight empty drives and the customer's; skipped with the reason where none can run.

    A test module adds drives by a constant FURTHER_DRIVES and a GPU board by a constant PRODUCT.
    """
    request.getfixturevalue("rehearsal_possible")
    further, product = getattr(request.module, "FURTHER_DRIVES", ()), getattr(request.module, "PRODUCT", None)
    with Machine(further, product) as made:
        made.up()
        yield made


@pytest.fixture(scope="module")
def play(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Play:
    """Runs of the role nvme_raid0 on the machine."""
    return Play(machine, tmp_path_factory.mktemp("role"))

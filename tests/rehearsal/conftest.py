"""The rehearsal machine as a fixture: one fresh machine per test module, gone at its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rehearsal import box
from tests.rehearsal.machine import Machine, missing


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """A fresh machine with eight empty drives and the customer's; skipped with the reason where none can run."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    box.build()
    with Machine() as made:
        made.up()
        yield made

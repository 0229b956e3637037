"""Checkpoints, reading, power."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmhw_provision.sizing.checkpoint import PER_WRITER, Saving, interval, read_rate, token_bytes, write_rate
from llmhw_provision.sizing.power import PUE, kilowatt_hours, power
from llmhw_provision.units import GIB


def test_interval_is_youngs() -> None:
    assert interval(60, 7200) == math.sqrt(2 * 60 * 7200)
    assert interval(1000, 100) == 1000  # never shorter than one takes


@settings(deadline=None)
@given(size=st.integers(1, 10**13), gpus=st.integers(1, 100_000), other=st.floats(0.2, 5))
def test_no_other_interval_loses_less(size: int, gpus: int, other: float) -> None:
    saving = Saving(size, 1e10, gpus)
    best = saving.interval
    assert best >= saving.seconds

    def lost(every: float) -> float:
        return saving.seconds / every + every / 2 / saving.between_failures

    assert lost(max(best * other, saving.seconds)) >= saving.lost * (1 - 1e-9)


def test_failures_as_in_llama_3() -> None:
    """419 interruptions in 54 days on 16,384 GPUs: one every 3.1 hours."""
    assert Saving(1, 1, 16_384).between_failures / 3600 == pytest.approx(3.09, rel=0.01)


def test_write_rate() -> None:
    assert write_rate(writers=8, disks=6, disk_rate=6.6e9) == pytest.approx(31.68e9)
    assert write_rate(writers=8, disks=6, disk_rate=6.6e9, hosts=2) == 2 * write_rate(
        writers=8, disks=6, disk_rate=6.6e9
    )
    assert write_rate(writers=384) == 384 * PER_WRITER


def test_text_needs_megabytes() -> None:
    """8 × H100 on an 8B model at 100,000 tokens/s: 0.4 MB/s."""
    assert read_rate(100_000, 128_256) == 400_000
    assert token_bytes(65_535) == 2


def test_switched_machines_draw_what_dgx_draws() -> None:
    assert power(gpus=8, gpu_watts=700, switched=True, cpu_watts=1000, memory=2048 * GIB).host == 10_200
    assert power(gpus=8, gpu_watts=1000, switched=True).host == pytest.approx(14_300, rel=0.03)
    assert power(gpus=8, gpu_watts=700, switched=True).gpus == 5600


def test_other_machines_draw_the_sum_of_their_parts() -> None:
    found = power(gpus=4, gpu_watts=350, switched=False, cpu_watts=350, memory=512 * GIB, disks=5)
    assert found.host == math.ceil((1400 + 350 + 80 + 75 + 50) / 0.92 * 1.1)
    more = power(gpus=4, gpu_watts=350, switched=False, cpu_watts=700, memory=512 * GIB, disks=5)
    assert more.host > found.host


def test_energy() -> None:
    assert kilowatt_hours(1000, 3600) == 1
    assert kilowatt_hours(1000, 3600, pue=PUE) == 1.3

"""What nvidia-smi says while the measurement runs; a stand-in answers for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from llmhw_provision.on_host.bench import watch


@dataclass
class Busy:
    """A device that counts what it was given to do."""

    cuda: bool = True
    index: int = 3
    work: int = 0
    waits: int = 0

    def run(self) -> None:
        self.work += 1

    def wait(self) -> None:
        self.waits += 1


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an nvidia-smi that answers with `line` and keeps what it was asked."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\ncat {tmp_path}/line && exec sleep 0.1\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def test_clocks_power_and_link_are_read_while_the_gpu_works(said: Path) -> None:
    (said / "line").write_text("1755, 690.12, 700.00, [N/A], 5, 16, 0x0000000000000004\n")
    device = Busy()
    found = watch.under_load(device, device.run, 0.01)  # type: ignore[arg-type]
    assert found["load"] == {
        "sm_mhz": 1755, "power_w": 690.12, "limit_w": 700, "pcie_generation": 5, "pcie_width": 16, "slowed_by": 4,
    }  # fmt: skip
    assert (said / "asked").read_text().startswith("-i 3 --query-gpu=clocks.sm,power.draw,")
    assert device.waits >= 2
    assert device.work == 10 * device.waits  # a tenth of a second at a time


def test_without_an_answer_nothing_is_said_of_the_load(said: Path) -> None:
    device = Busy()
    assert watch.under_load(device, device.run, 1.0) == {"load": {}}  # type: ignore[arg-type]
    assert watch.under_load(Busy(cuda=False), device.run, 1.0) == {}  # type: ignore[arg-type]
    assert watch.address(0) == ""
    (said / "line").write_text("00000000:1B:00.0\n")
    assert watch.address(0) == "0000:1b:00.0"


def test_processors_beside_a_gpu() -> None:
    assert watch.processors("0-3,8,10-11\n") == {0, 1, 2, 3, 8, 10, 11}
    assert watch.processors("\n") == set()
    assert watch.near("") == (-1, set())

"""GA660M, A330 and a B200 board: planned, provisioned, provisioned again, rebooted, verified."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.rehearsal.gpu.site import GpuSite, gpu_site
from tests.rehearsal.machine import Machine
from tests.rehearsal.site import run
from tests.rehearsal.test_thin_path import apply, changed

pytestmark = [pytest.mark.vm, pytest.mark.proof]

VERSION = "580.159.03"


@dataclass(frozen=True)
class Board:
    """A product, its GPUs as the driver names them, and what programs its switches."""

    product: str
    gpus: int
    daemons: tuple[str, ...]


BOARDS = (
    Board("GA660M", 4, ()),
    Board("A330", 1, ()),
    Board("B200-HGX", 8, ("nvlsm", "nv-fabricmanage")),
)


@pytest.fixture(scope="module", params=BOARDS, ids=lambda board: board.product)
def life(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Board, Machine, GpuSite]]:
    request.getfixturevalue("rehearsal_possible")
    board: Board = request.param
    with Machine(product=board.product) as machine:
        machine.up()
        with gpu_site(machine, tmp_path_factory.mktemp(board.product), driver=VERSION) as site:
            yield board, machine, site


def test_life(life: tuple[Board, Machine, GpuSite]) -> None:
    board, machine, site = life
    run("discover", site.folder, "--accept-host-keys")
    run("plan", site.folder)
    listed = apply(site.folder, "--check")
    done = apply(site.folder, "--yes", "--allow-reboot")
    assert changed(listed) <= changed(done)
    assert changed(apply(site.folder, "--yes")) == set()
    assert machine.run("nvidia-smi -L | wc -l").stdout == f"{board.gpus}\n"
    running = machine.run("ps -eo comm=").stdout.split()
    daemons = tuple(name for name in ("nvlsm", "nv-fabricmanage") if name in running)
    assert daemons == board.daemons
    run("verify", site.folder, "--level", "quick")

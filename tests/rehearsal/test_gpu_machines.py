"""GA660M, A330 and a B200 board: planned, provisioned, provisioned again, rebooted, verified."""

from __future__ import annotations

import json
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
    """A product, its GPUs as the driver names them, what programs its switches, and what breaks it by hand."""

    product: str
    gpus: int
    daemons: tuple[str, ...]
    breaks: str
    check: str
    says: str


# NVIDIA/gpu-operator#610 and spectrocloud/CanvOS#700
_FOR_NOTHING = f"sudo apt-get install -y nvidia-fabricmanager={VERSION}-1; sudo systemctl start nvidia-fabricmanager"
_NO_UMAD = "sudo systemctl stop nvidia-fabricmanager; sudo rmmod ib_umad; sudo systemctl start nvidia-fabricmanager"
BOARDS = (
    Board("GA660M", 4, (), _FOR_NOTHING, "gpu-manager", "nothing to do"),
    Board("A330", 1, (), _FOR_NOTHING, "gpu-manager", "nothing to do"),
    Board("B200-HGX", 8, ("nvlsm", "nv-fabricmanage"), _NO_UMAD, "gpu-subnet-manager", "not loaded: ib_umad"),
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


def test_broken_by_hand(life: tuple[Board, Machine, GpuSite]) -> None:
    board, machine, site = life
    machine.run(board.breaks, check=False, timeout=900)
    report = json.loads(run("verify", site.folder, "--level", "quick", "--json", expect=3).stdout)
    found = {item["check"]: item["found"] for item in report["findings"] if item["status"] == "fail"}
    assert board.says in found[board.check]

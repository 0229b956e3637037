"""The rehearsal machine leaves nothing behind: not after a failure, a stop or a kill."""

import subprocess
import sys
import time

import pytest

from tests.rehearsal import host, layout
from tests.rehearsal.errors import RehearsalError
from tests.rehearsal.leftovers import snapshot
from tests.rehearsal.machine import Machine
from tests.rehearsal.settings import REPO

pytestmark = [pytest.mark.vm, pytest.mark.proof, pytest.mark.usefixtures("no_machine")]


@pytest.fixture
def no_machine(request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("rehearsal_possible")
    if host.domain_state():
        pytest.skip("a rehearsal machine exists; these tests need the host without one")


def test_failed_up_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before, create = snapshot(), layout.create_images

    def create_and_break_one() -> None:
        create()
        broken = layout.drives()[4].image
        broken.unlink()
        broken.mkdir()  # QEMU refuses it, after Vagrant has made network, disk and domain

    monkeypatch.setattr(layout, "create_images", create_and_break_one)
    with pytest.raises(RehearsalError, match="vagrant up failed"):
        Machine().up()
    assert snapshot() == before


def starting(process: subprocess.Popen[bytes]) -> None:
    """Waits until ``process`` has a domain running, whose guest is far from ssh."""
    deadline = time.monotonic() + 90
    while host.domain_state() != "running":
        assert process.poll() is None
        assert time.monotonic() < deadline, "the domain did not start within 90 s"
        time.sleep(0.2)


def test_terminated_up_leaves_nothing() -> None:
    before = snapshot()
    process = subprocess.Popen([sys.executable, "-m", "tests.rehearsal", "up"], cwd=REPO)
    starting(process)
    process.terminate()
    assert process.wait(timeout=60) == 143
    assert snapshot() == before


def test_clean_reaps_what_a_killed_run_left() -> None:
    before = snapshot()
    process = subprocess.Popen([sys.executable, "-m", "tests.rehearsal", "up"], cwd=REPO)
    starting(process)
    process.kill()
    process.wait()
    assert snapshot() != before
    subprocess.run([sys.executable, "-m", "tests.rehearsal", "clean"], cwd=REPO, check=True)
    assert snapshot() == before

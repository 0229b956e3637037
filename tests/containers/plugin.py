"""pytest fixtures: ``container``, ``containers``, ``module_container``, ``container_lab``.

Import them in a conftest.py (as tests/roles does), or load this module with ``-p tests.containers.plugin``.
``@pytest.mark.container(suite="trixie")`` chooses the suite of ``container``.
"""

import signal
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Protocol

import pytest

from tests.containers.container import Container
from tests.containers.lab import Lab, obstacle

_FIXTURES = frozenset({"container", "containers", "container_lab", "module_container"})


class StartMany(Protocol):
    """The type of the fixture ``containers``."""

    def __call__(
        self, names: int | Sequence[str], *, suite: str = "bookworm", options: Sequence[str] = ()
    ) -> tuple[Container, ...]: ...


def pytest_itemcollected(item: pytest.Item) -> None:
    """Whatever uses a container is marked, so that ``-m "not container"`` can be trusted."""
    if _FIXTURES & set(getattr(item, "fixturenames", ())) and item.get_closest_marker("container") is None:
        item.add_marker("container")


@pytest.fixture(scope="session")
def container_lab() -> Iterator[Lab]:
    """The lab of this pytest process: one private network for all its containers."""
    reason = obstacle()
    if reason is not None:
        pytest.skip(reason)
    before = _end_on_sigterm()
    with Lab() as lab:
        yield lab
    if before is not None:
        signal.signal(signal.SIGTERM, before)


@pytest.fixture
def containers(container_lab: Lab) -> Iterator[StartMany]:
    """A function that starts several fresh containers; they end with the test."""
    started: list[Container] = []

    def start_many(
        names: int | Sequence[str], *, suite: str = "bookworm", options: Sequence[str] = ()
    ) -> tuple[Container, ...]:
        new = container_lab.start_many(names, suite=suite, options=options)
        started.extend(new)
        return new

    yield start_many
    for container in started:
        container.stop()


@pytest.fixture
def container(containers: StartMany, request: pytest.FixtureRequest) -> Container:
    """One fresh Debian 12 container for the test."""
    return containers(1, suite=_suite(request.node))[0]


@pytest.fixture(scope="module")
def module_container(container_lab: Lab, request: pytest.FixtureRequest) -> Iterator[Container]:
    """One fresh Debian 12 container for all tests of the module."""
    (started,) = container_lab.start_many(1, suite=_suite(request.node))
    with started:
        yield started


def _suite(node: pytest.Item) -> str:
    marker = node.get_closest_marker("container")
    return str(marker.kwargs.get("suite", "bookworm")) if marker else "bookworm"


def _end_on_sigterm() -> signal.Handlers | None:
    """Let SIGTERM end the session as Ctrl-C does, with all fixtures; what was set before, None if left alone."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return None

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        pytest.exit("terminated by SIGTERM", returncode=128 + number)

    signal.signal(signal.SIGTERM, end)
    return signal.SIG_DFL

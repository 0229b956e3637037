"""The checks as testinfra tests: one test per host and question. `session.run` starts it with the plan."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import testinfra
from testinfra.host import Host

from llmhw_provision.checks.model import Finding
from llmhw_provision.checks.session import Session
from llmhw_provision.checks.table import Item


def _session(config: pytest.Config) -> Session:
    for plugin in config.pluginmanager.get_plugins():
        found = getattr(plugin, "llmhw_session", None)
        if isinstance(found, Session):
            return found
    raise pytest.UsageError("run these checks with llmhw-provision verify")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Makes one test of every question."""
    questions = list(_session(metafunc.config).items())
    metafunc.parametrize("item", questions, ids=[f"{item.host.name}-{item.name}" for item in questions])


@pytest.fixture(scope="session")
def session(request: pytest.FixtureRequest, record_testsuite_property: Callable[[str, object], None]) -> Session:
    """The run; its first question reads all hosts, side by side."""
    found = _session(request.config)
    record_testsuite_property("plan", found.plan.identity)
    if found.rehearsal:
        record_testsuite_property("rehearsal", "REHEARSAL, not a measurement")
    return found


@pytest.fixture
def host(item: Item, session: Session) -> Host:
    """The host of the question. (testinfra's own fixture would put every question to every host.)"""
    return testinfra.get_host(f"safe-ssh://{item.host.name}", ssh_config=session.ssh_config)


@pytest.fixture
def finding(host: Host, item: Item, session: Session, record_property: Callable[[str, object], None]) -> Finding:
    """The answer; one that could not be had is an error of the test, not a failure of the machine."""
    found = session.finding(item)
    record_property("host", host.backend.get_pytest_id())
    for name in ("status", "severity", "found", "expected", "runbook", "evidence"):
        record_property(name, getattr(found, name))
    if found.status == "could-not-run":
        pytest.fail(f"could not run: {found.found}", pytrace=False)
    return found


def test_as_planned(finding: Finding) -> None:
    """The machine is as planned."""
    if finding.status == "fail":
        lines = [f"{finding.title}: found {finding.found}; expected {finding.expected}"]
        lines += [f"likely: {finding.cause}", f"next: {finding.next_step}", f"runbook: {finding.runbook}"]
        pytest.fail("\n".join(lines), pytrace=False)

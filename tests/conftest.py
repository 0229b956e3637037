"""Options of the whole test suite."""

from __future__ import annotations

import pytest
from _pytest.terminal import TerminalReporter


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files again; review them as a diff")
    parser.addoption("--no-skip", action="store_true", help="a skipped test fails the run, as CI has to show them all")


def _skipped(config: pytest.Config) -> list[object]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return list(reporter.stats.get("skipped", ())) if reporter and config.getoption("--no-skip") else []


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _skipped(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    if found := _skipped(config):
        terminalreporter.write_line(f"failed: {len(found)} skipped; --no-skip wants all of them to run", red=True)

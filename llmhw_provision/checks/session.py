"""One run of the checks: which hosts, which level, and each host's evidence read once, hosts side by side."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from llmhw_provision.checks.access import UNREAD
from llmhw_provision.checks.host import is_rehearsal
from llmhw_provision.checks.model import Finding, Level
from llmhw_provision.checks.table import Item, items, judge
from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import Plan

MODULE = Path(__file__).with_name("testinfra_module.py")


class Session:
    """Holds the plan, reads the evidence at the first question, and keeps the findings in order."""

    def __init__(
        self, plan: Plan, level: Level, reader: Callable[[], Mapping[str, Evidence]], *, ssh_config: str
    ) -> None:
        self.plan = plan
        self.ssh_config = ssh_config
        self.level = level
        self.findings: list[Finding] = []
        self._reader = reader

    @cached_property
    def evidence(self) -> Mapping[str, Evidence]:
        """Evidence by host."""
        return self._reader()

    def items(self) -> Iterator[Item]:
        """Every question about every host; of a host that could not be read only whether it answers."""
        for host in self.plan.hosts:
            unread = self.evidence[host.name].problem
            yield from [Item(host, UNREAD, "")] if unread else items(host, self.level)

    def finding(self, item: Item) -> Finding:
        """The answer to `item`, kept for the report."""
        found = judge(item, self.evidence[item.host.name])
        self.findings.append(found)
        return found

    @property
    def rehearsal(self) -> bool:
        """Whether anything was read from a virtual machine or a stand-in."""
        return any(is_rehearsal(host, self.evidence[host.name]) for host in self.plan.hosts)


class _Plugin:
    """Gives the session to the testinfra module."""

    def __init__(self, session: Session) -> None:
        self.llmhw_session = session


def run(session: Session, junit: Path) -> str:
    """Runs the checks as testinfra tests within this process; writes JUnit and returns what pytest printed."""
    import pytest

    arguments = [
        str(MODULE),
        f"--rootdir={MODULE.parent}",
        f"--confcutdir={MODULE.parent}",
        "-c",
        os.devnull,
        "--noconftest",
        "-p",
        "no:cacheprovider",
        "-p",
        "testinfra.plugin",
        "--import-mode=importlib",
        "--capture=no",
        "--tb=short",
        "-q",
        f"--junitxml={junit}",
        "-o",
        "junit_family=xunit1",
        "-o",
        f"junit_suite_name=llmhw-provision verify {session.level}",
    ]
    printed = io.StringIO()
    with _alone(), contextlib.redirect_stdout(printed):
        pytest.main(arguments, plugins=[_Plugin(session)])
    return printed.getvalue()


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """No options and no plugins from the caller's surroundings: the same run on every computer."""
    names = {"PYTEST_ADDOPTS": None, "PYTEST_PLUGINS": None, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    before = {name: os.environ.pop(name, None) for name in names}
    os.environ.update({name: value for name, value in names.items() if value is not None})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value

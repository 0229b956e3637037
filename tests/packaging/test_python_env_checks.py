"""The checks of python_env on environments that the module made: they pass, and each fails once its thing is broken."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from llmhw_provision.checks import python_envs, table
from llmhw_provision.checks.model import Finding
from llmhw_provision.documents import check
from llmhw_provision.evidence import Evidence, Result
from llmhw_provision.plan.model import HostPlan, RoleConfigs
from llmhw_provision.plan.roles_python import PythonEnvConfig
from tests.packaging.python_envs import UV, Host
from tests.unit.recordings import host_plan

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the module gives its files to root")
TORCH = "class version:\n    cuda = None\n"


def planned(host: Host) -> HostPlan:
    config = check(host.configuration(), PythonEnvConfig, path=Path("python_env"))
    return host_plan().model_copy(update={"roles": RoleConfigs(python_env=config)})


def findings(host: Host) -> dict[str, Finding]:
    """The answer of every check, read as verify reads it."""
    plan = planned(host)
    results = {}
    for command in python_envs.commands(plan, "standard"):
        done = subprocess.run(command.argv, capture_output=True, check=False, timeout=command.timeout_s)
        results[command.key] = Result(done.returncode, done.stdout, done.stderr, 0.1, command.argv)
    evidence = Evidence("vm-01", "machine", results)
    items = [item for item in table.items(plan, "standard") if item.check.area == "python"]
    return {item.check.id: table.judge(item, evidence) for item in items}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    made = Host(tmp_path)
    made.want(made.wheel("alpha", "1.0"), made.wheel("torch", "2.13.0", body=TORCH))
    assert made.apply()["changed"]
    return made


def package(host: Host, name: str = "alpha") -> Path:
    (found,) = host.link().resolve().glob(f"lib/*/site-packages/{name}/__init__.py")
    return found


def add(host: Host) -> None:
    words = [str(UV), "pip", "install", "-q", "--python", str(host.link()), str(host.wheel("gamma", "1.0"))]
    subprocess.run(words, check=True, env={**os.environ, "UV_CACHE_DIR": str(host.root / "c"), "UV_NO_CONFIG": "1"})


def replace(host: Host, text: str, name: str = "alpha") -> None:
    """Another content of the same size."""
    file = package(host, name)
    size = file.stat().st_size
    file.unlink()
    file.write_text(text.ljust(size, "\n")[:size])
    shutil.rmtree(file.with_name("__pycache__"))


def other_lock(host: Host) -> None:
    host.want(host.wheel("alpha", "2.0"))


BROKEN: dict[str, tuple[Callable[[Host], object], str, str]] = {
    "no link": (lambda host: host.link().unlink(), "python-env", "no such environment"),
    "never finished": (
        lambda host: (host.link() / ".llmhw-finished").unlink(),
        "python-env",
        "was never finished",
    ),
    "another lock": (other_lock, "python-env", "leads to lock "),
    "a file gone": (lambda host: package(host).unlink(), "python-env", "alpha/__init__.py is missing"),
    "a file cut": (lambda host: package(host).write_text(""), "python-env", "alpha/__init__.py has 0 bytes, not 10"),
    "a package added": (add, "python-env", "gamma was added"),
    "a package gone": (
        lambda host: shutil.rmtree(next(package(host).parents[1].glob("alpha-1.0.dist-info"))),
        "python-env",
        "alpha is not installed",
    ),
    "no python": (
        lambda host: (host.link() / "bin/python").unlink(),
        "python-env",
        "CPython that does not run",
    ),
    "an import that fails": (
        lambda host: replace(host, "import no\n"),
        "python-import",
        "alpha: ModuleNotFoundError: No module named 'no'",
    ),
    "torch for CUDA": (
        lambda host: replace(host, "class version:cuda='13.0'\n", "torch"),
        "python-import",
        "torch is built for CUDA 13.0",
    ),
}


def test_what_was_made_passes(host: Host) -> None:
    found = findings(host)
    assert {key: (item.status, item.found) for key, item in found.items() if item.status != "pass"} == {}
    assert set(found) == {"python-env", "python-import"}
    assert found["python-import"].found == "2 modules import"


@pytest.mark.parametrize(("change", "key", "says"), BROKEN.values(), ids=BROKEN)
def test_what_is_broken_is_found(host: Host, change: Callable[[Host], object], key: str, says: str) -> None:
    change(host)
    finding = findings(host)[key]
    assert (finding.status, says in finding.found) == ("fail", True), finding.found
    assert finding.cause
    assert finding.next_step


def test_the_way_back_is_as_planned_and_anything_else_is_not(host: Host) -> None:
    other_lock(host)
    host.apply()
    assert findings(host)["python-env"].status == "pass"
    host.environments[0]["use"] = "previous"
    assert findings(host)["python-env"].found.startswith("leads to lock ")
    host.apply()
    assert findings(host)["python-env"].status == "pass"


def test_without_an_environment_nothing_is_said_of_its_imports(host: Host) -> None:
    host.link().unlink()
    assert findings(host)["python-import"].status == "could-not-run"


@pytest.mark.parametrize("raw", [b"", b"{}\n", b'{"/x": {}}\n', b'{"wrong": 1'])
def test_an_answer_that_is_cut_off_is_no_pass(host: Host, raw: bytes) -> None:
    plan = planned(host)
    results = {command.key: Result(0, raw, b"", 0.1) for command in python_envs.commands(plan, "standard")}
    items = [item for item in table.items(plan, "standard") if item.check.area == "python"]
    judged = [table.judge(item, Evidence("vm-01", "machine", results)).status for item in items]
    assert judged == ["could-not-run", "could-not-run"]

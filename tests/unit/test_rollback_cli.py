"""The verb rollback: what it refuses, says, asks and runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from llmhw_provision.cli import rollback as verb
from llmhw_provision.errors import InputError
from llmhw_provision.plan.model import HostPlan, RoleConfigs
from llmhw_provision.plan.roles_driver import DriverPackage, NvidiaDriverConfig
from llmhw_provision.run import history
from tests.unit.test_run_site import content, host, plan, site

DRIVER = NvidiaDriverConfig(
    version="580.159.03",
    modules="open",
    packages=(DriverPackage(name="nvidia-open", version="580.159.03"),),
    needs=("dkms",),
    dkms=True,
    headers_prefix="linux-headers-",
    stream="",
    board="none",
    modules_load=(),
    gpus=4,
    without_return=False,
)
TASK = """
- name: Go back
  ansible.builtin.lineinfile: {{path: "{path}", line: back, create: true, mode: "0644"}}
"""


def with_driver(name: str) -> HostPlan:
    return host(name).model_copy(update={"roles": RoleConfigs(nvidia_driver=DRIVER)})


def call(folder: Path, *arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(verb.command, ["--site", str(folder), *arguments], input=answer, standalone_mode=False)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = content(tmp_path / "content", TASK.format(path=tmp_path / "out"))
    (made / "playbooks/site.yml").rename(made / "playbooks/rollback.yml")
    monkeypatch.setattr(verb, "content_root", lambda: made)
    return made


def test_without_a_terminal_nothing_starts(tmp_path: Path, root: Path) -> None:  # noqa: ARG001
    folder = site(tmp_path / "site", plan(with_driver("one")))
    result = call(folder)
    assert isinstance(result.exception, InputError)
    assert "rollback asks before it alters machines" in result.exception.problems[0].message
    assert not (folder / "runs").exists()


def test_a_host_without_a_driver_of_ours_is_refused(tmp_path: Path) -> None:
    folder = site(tmp_path / "site", plan(host("one"), with_driver("two")))
    result = call(folder, "--host", "one", "--yes")
    assert isinstance(result.exception, InputError)
    assert result.exception.problems[0].message == "one: the plan has no driver for it, so none was kept"


def test_it_looks_says_and_goes_back_and_leaves_no_record_of_the_plan(tmp_path: Path, root: Path) -> None:  # noqa: ARG001
    folder = site(tmp_path / "site", plan(host("one"), with_driver("two")))
    result = call(folder, "--yes")
    assert (result.return_value, (tmp_path / "out").read_text()) == (0, "back\n")
    assert "two: 1 task would change it" in result.stderr
    assert "the plan still wants driver 580.159.03" in result.stderr
    assert "one: " not in result.stderr
    assert not (folder / "etc").exists()
    assert [entry.verb for entry in history.entries(folder / "runs")] == ["rollback", "rollback"]


def test_what_stands_against_it_is_said_and_nothing_is_done(tmp_path: Path, root: Path) -> None:
    task = root / "roles/demo/tasks/main.yml"
    task.write_text(
        '- name: Look\n  ansible.builtin.fail:\n    msg: "no earlier set is kept\\nhint: nothing was changed"\n'
    )
    result = call(site(tmp_path / "site", plan(with_driver("two"))), "--yes")
    assert result.return_value == 4
    assert "error: no earlier set is kept\nhint: nothing was changed" in result.stderr
    assert "Continue?" not in result.stderr

"""What the verb says, asks and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from llmhw_provision.cli import apply as verb
from llmhw_provision.cli.plan import make_plan
from llmhw_provision.documents import dump_json, write_atomic
from llmhw_provision.errors import InputError
from llmhw_provision.inventory import write_inventory
from llmhw_provision.run import orders, text
from llmhw_provision.run.command import Choice
from tests.unit import machines
from tests.unit.test_run_site import content, host, plan, site

WORKLOAD = """
schema: 1
model: llama-3.1-8b
job: sft
method: lora
dataset:
  size: 200 GB
  hot: 4 GiB
"""


def call(*arguments: str) -> Result:
    return CliRunner().invoke(verb.command, arguments, standalone_mode=False)


def test_without_a_terminal_and_without_yes_nothing_starts(tmp_path: Path) -> None:
    folder = site(tmp_path / "site", plan(host("one", erases=('ext4 "home" on disk S1',))))
    result = call("--site", str(folder))
    assert isinstance(result.exception, InputError)
    assert "add --yes" in result.exception.problems[0].hint
    assert not (folder / "runs").exists()
    assert 'ERASES FOR GOOD on one: ext4 "home" on disk S1' in result.stderr
    assert result.stdout == ""


def test_a_purchase_plan_is_refused(tmp_path: Path) -> None:
    folder = site(tmp_path / "site", plan(host("one"), origin="purchase"))
    result = call("--site", str(folder), "--yes")
    assert isinstance(result.exception, InputError)
    assert result.exception.exit_code == 1
    assert "discover" in result.exception.problems[0].hint


def test_a_plan_that_the_files_no_longer_give_is_refused(tmp_path: Path) -> None:
    (tmp_path / "workload.yaml").write_text(WORKLOAD)
    (tmp_path / "site.yaml").write_text(dump_json(machines.site()))
    observed = machines.machine(*machines.drives())
    write_atomic(tmp_path / "observed" / "ga660m-01.json", dump_json(observed))
    made = make_plan(tmp_path)
    write_atomic(tmp_path / "plan.json", dump_json(made))
    write_inventory(made, tmp_path / "inventory")
    verb.refuse_outdated(orders.prepare(tmp_path, choice=Choice()))

    (tmp_path / "workload.yaml").write_text(WORKLOAD.replace("4 GiB", "8 GiB"))
    with pytest.raises(InputError, match="is not what the site's files give now") as caught:
        verb.refuse_outdated(orders.prepare(tmp_path, choice=Choice()))
    assert "plan --diff" in caught.value.problems[0].hint


def test_the_overview_says_what_will_happen_before_it_does() -> None:
    made = plan(host("one", reboots=1), host("second"))
    lines = list(text.overview(made, made.hosts, check=False))
    assert lines[0] == "site customer-a · 2 hosts · plan 7f3c00112233"
    assert lines[1].startswith("  one     192.0.2.10  Ubuntu 24.04, 1,024.0 GiB, 1 disk, 3.84 TB")
    assert lines[1].endswith("1 role, 1 reboot  REHEARSAL (virtual machine)")
    assert lines[2].strip() == "roles: tmpfs"
    assert lines[3].strip() == "creates: /dev/md/scratch over 8 empty disks"
    assert lines[-2:] == [
        "will erase nothing",
        "will reboot nothing (--allow-reboot would, once, where it is needed)",
    ]
    allowed = list(text.overview(made, made.hosts, check=False, allow_reboot=True))
    assert allowed[-1] == "will reboot if it is needed: one"


def test_data_goes_to_stdout_and_messages_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = site(tmp_path / "site", plan(host("one")))
    root = content(tmp_path / "content", "- name: Fail\n  ansible.builtin.fail:\n    msg: no luck\n")
    order = orders.prepare(folder, choice=Choice(check=True))
    assert verb.carry_out(order, content=root, as_json=True) == 4
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["exit_code"], found["failures"][0]["problems"][0]["message"]) == (4, "no luck")
    assert json.loads((folder / found["folder"] / "result.json").read_text()) == found
    assert "error: no luck" in err
    assert "\x1b[" not in err

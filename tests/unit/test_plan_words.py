"""plan --explain and plan --diff: every choice with its reason; what changed between two plans, in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmhw_provision.cli import entry
from llmhw_provision.cli.plan_text import explain
from llmhw_provision.documents import dump_json
from llmhw_provision.plan.build import build_plan
from llmhw_provision.plan.difference import differences
from llmhw_provision.plan.model import Plan
from llmhw_provision.site import Site
from tests.unit.machines import drives, machine, need, site
from tests.unit.test_damaged_files import digest, site_folder

HOST = "ga660m-01"


def plan(disks: int = 4, of: Site | None = None, **changes: object) -> Plan:
    return build_plan(need(**changes), of or site(), {HOST: machine(*drives(disks))})


def many(count: int, disks: int = 4) -> Plan:
    hosts = tuple(site().hosts[0].model_copy(update={"name": f"n{i}", "address": f"192.0.2.{i}"}) for i in range(count))
    found = {host.name: machine(*drives(disks)) for host in hosts}
    return build_plan(
        need(job="serve", method="full", serving={"concurrency": 8, "context": 2048}),
        site().model_copy(update={"hosts": hosts}),
        found,
    )


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        entry(["plan", *arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_every_note_of_the_plan_is_explained_with_rule_inputs_and_source() -> None:
    found = plan()
    text = explain(found)
    for note in found.notes:
        assert f"  {note.rule}\n    → {note.choice}" in text
        assert f"source: {note.source}" in text
        assert all(f"from {value}" in text for value in note.inputs)
    for stack in found.stacks:
        for choice in stack.choices:
            assert choice.rule in text
            assert f"[{choice.confidence}, {choice.date}] {choice.source}" in text


def test_hosts_that_share_a_choice_share_its_lines() -> None:
    text = explain(many(6))
    assert text.count("RAID0 has no redundancy") == 1
    assert "\nn0, n1, n2 and 3 more\n" in text


def test_differences_are_grouped_by_host_and_area() -> None:
    lines = differences(plan(), plan(5))
    assert lines[0] == HOST
    assert "  disks" in lines
    assert any(line.startswith("    D5 is new: by id /dev/disk/by-id/nvme-MICRON_7500_D5") for line in lines)
    at = lines.index("  role nvme_raid0")
    assert lines[at + 1] == "    volumes, scratch, members: now also /dev/disk/by-id/nvme-MICRON_7500_D5"
    assert any("volumes, scratch, read ahead kib: was 4096, is now 5120" in line for line in lines)


def test_equal_plans_do_not_differ() -> None:
    assert differences(plan(), plan()) == ()


def test_roles_and_hosts_that_come_and_go_are_said_so() -> None:
    less = plan(dataset={"size": "200 GB"})
    assert "  role tmpfs: gone" in differences(plan(), less)
    assert "  role tmpfs: new" in differences(less, plan())
    assert "  no longer in the plan" in differences(many(2), many(1))
    assert "  new in the plan" in differences(many(1), many(2))


def test_hosts_with_the_same_changes_share_them() -> None:
    lines = differences(many(5), many(5, disks=5))
    assert sum(line == "  role nvme_raid0" for line in lines) == 1
    assert "n0, n1, n2 and 2 more" in lines


def test_a_change_of_what_runs_is_the_sites() -> None:
    lines = differences(plan(), plan(method="qlora"))
    assert lines[0] == "site"
    assert any(line.startswith("    workload: was Llama 3.1 8B, sft lora") for line in lines)


def test_two_files_are_compared_without_a_site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(dump_json(plan()))
    new.write_text(dump_json(plan(5)))
    assert run("--diff", str(old), str(old)) == 0
    assert capsys.readouterr().out == "no difference\n"
    assert run("--diff", str(old), str(new)) == 3
    assert "    D5 is new: " in capsys.readouterr().out
    assert run("--diff", str(old), str(tmp_path / "none.json")) == 1
    assert "none.json: no such file" in capsys.readouterr().err


def test_explain_and_diff_write_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = site_folder(tmp_path)
    assert run("--site", str(folder)) == 0
    before = digest(folder)
    capsys.readouterr()
    assert run("--site", str(folder), "--explain") == 0
    assert "→ raid0 over 4 × 3.84 TB" in capsys.readouterr().out
    assert run("--site", str(folder), "--diff") == 0
    (folder / "workload.yaml").write_text((folder / "workload.yaml").read_text().replace("lora", "qlora"))
    assert run("--site", str(folder), "--diff") == 3
    assert digest(folder) == {**before, str(folder / "workload.yaml"): digest(folder)[str(folder / "workload.yaml")]}


@pytest.mark.parametrize("words", [["--diff", "--explain"], ["old.json", "new.json"], ["--diff", "old.json"]])
def test_options_that_contradict_each_other_are_usage_errors(words: list[str]) -> None:
    assert run(*words) == 2

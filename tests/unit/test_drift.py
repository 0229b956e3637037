"""drift: Ansible really runs in check mode on this machine; what it and the checks say becomes words and a status."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from llmhw_provision.cli import main
from llmhw_provision.documents import read
from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import Plan
from llmhw_provision.run import drift, events, history, orders, outcome
from llmhw_provision.run.command import Choice
from llmhw_provision.run.progress import Lines
from llmhw_provision.site import Host, Site
from tests.unit.recordings import plan as recorded_plan
from tests.unit.recordings import recorded
from tests.unit.test_run_apply import WRITE
from tests.unit.test_run_site import content, host, plan, site

SITE = Site(schema=1, site="customer-a", hosts=(Host(name="one", address="192.0.2.10"),))
NAMES = {"role": "tmpfs", "task": "Mount it", "time": 0.0}


@pytest.fixture
def ssh_to_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text('#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:/usr/bin:/bin")


def look(tmp_path: Path) -> drift.Drift:
    order = orders.prepare(tmp_path / "site", choice=Choice(check=True))
    return drift.look(order, SITE, content=tmp_path / "content", watcher=Lines(io.StringIO()))


@pytest.mark.usefixtures("ssh_to_this_machine")
def test_what_apply_would_change_is_said_and_not_done(tmp_path: Path) -> None:
    site(tmp_path / "site", plan(host("one").model_copy(update={"user": "root"})))
    content(tmp_path / "content", WRITE.format(path=tmp_path / "out"))
    found = look(tmp_path)
    assert not (tmp_path / "out").exists()
    (one,) = found.hosts
    assert (found.exit_code, one.state, [change.task for change in one.changes]) == (3, "differs", ["Write the file"])
    said = "\n".join(drift.words(found))
    assert "one: differs from the plan" in said
    assert "  apply would change: demo · Write the file" in said
    assert "    +hello" in said
    folder = tmp_path / "site" / found.folder
    assert read(folder / "drift.json", drift.Drift) == found
    assert (folder / "evidence" / "one.json").is_file()
    assert "--check" in (folder / "command.txt").read_text()
    (entry,) = history.entries(tmp_path / "site" / "runs")
    assert (entry.verb, entry.state, entry.hosts) == ("drift", "drift", "one differs")


def test_a_host_that_does_not_answer_cannot_be_told(tmp_path: Path) -> None:
    folder = site(tmp_path / "site", plan(host("one")))
    (folder / "site.yaml").write_text(
        "schema: 1\nsite: customer-a\nhosts:\n  - {name: one, address: 127.0.0.1, port: 1}\n"
    )
    result = CliRunner().invoke(main, ["drift", "--site", str(folder), "--quiet"], standalone_mode=False)
    assert result.return_value == 3, result.output
    first, second, last = result.stdout.splitlines()
    assert first == "one: cannot be told"
    assert second.startswith("  could not be read: one (127.0.0.1): cannot be reached: ")
    assert last.startswith("1 of 1 host not as planned")
    (run,) = (folder / "runs").glob("*-drift")
    assert not (run / "command.txt").exists()
    assert json.loads((run / "drift.json").read_text())["hosts"][0]["state"] == "unknown"


def told(*results: dict[str, object]) -> drift.Played:
    count = {"failures": sum(result["status"] == "failed" for result in results)}
    count["unreachable"] = sum(result["status"] == "unreachable" for result in results)
    lines: Iterator[dict[str, object]] = iter(
        (
            {"event": "start", "time": 0, "playbook": "site.yml", "check": True, "diff": True, "ansible": "2.19"},
            *({"event": "result", "host": "vm-01", "seconds": 0.1, **NAMES, **result} for result in results),
            {"event": "stats", "time": 1, "hosts": {"vm-01": count}},
        )
    )
    tally = outcome.Tally()
    for line in lines:
        event = events.parse(json.dumps(line))
        assert event is not None
        tally.add(event)
    bad = [event for event in tally.failures.values() if event.host == "vm-01"]
    return drift.Played(tally, tuple(outcome.failure(event, log_line=0, unreachable_hint="") for event in bad))


def judged(evidence: Evidence, played: drift.Played) -> drift.Drift:
    made: Plan = recorded_plan()
    order = orders.Order(site=Path("/"), plan=made, choice=Choice())
    hosts = tuple(drift.judged(order, {"vm-01": evidence}, played))
    about = {"schema": 1, "site": "s", "plan": "p", "started": "", "seconds": 1.0, "folder": "runs/x"}
    return drift.Drift.model_validate({**about, "hosts": hosts, "failures": ()})


OK = {"status": "ok"}


@pytest.mark.parametrize(
    ("reading", "results", "state", "code", "words"),
    [
        ("provisioned", [OK], "as-planned", 0, "vm-01: as planned"),
        ("provisioned", [{"status": "changed", "actions": ["mount /tmp"]}], "differs", 3, "    mount /tmp"),
        ("pulled-drive", [OK], "differs", 3, "  disk LAB1 is there: found"),
        (
            "provisioned",
            [{"status": "failed", "message": "full"}],
            "unknown",
            4,
            "  failed: tmpfs · Mount it: full",
        ),
        (
            "provisioned",
            [{"status": "unreachable", "message": "off"}],
            "unknown",
            3,
            "  unreachable: tmpfs · Mount it",
        ),
    ],
)
def test_states(reading: str, results: list[dict[str, object]], state: str, code: int, words: str) -> None:
    found = judged(recorded(reading), told(*results))
    assert (found.hosts[0].state, found.exit_code) == (state, code)
    assert any(line.startswith(words) for line in drift.words(found)), list(drift.words(found))
    quiet = list(drift.words(found, quiet=True))
    assert bool(quiet) == bool(code)


def test_a_host_on_which_ansible_did_nothing_is_not_as_planned() -> None:
    tally = outcome.Tally()
    found = judged(recorded("provisioned"), drift.Played(tally, ()))
    assert (found.hosts[0].state, found.exit_code) == ("unknown", 3)


def test_a_long_difference_is_cut() -> None:
    diff = "".join(f"+line {number}\n" for number in range(40))
    found = judged(recorded("provisioned"), told({"status": "changed", "diff": diff}))
    assert "    ... 28 more lines in drift.json" in list(drift.words(found))
